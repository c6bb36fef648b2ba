//! Repairs a damaged conversation: keeps the readable lines and saves the original file as a backup.

use std::fs;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, Line, Metadata};
use coven_files::BoundedLine;

use super::create::write_temp;
use super::load::{each_line, parsed, too_long};
use super::{ConversationError, Conversations, backup_path, is_still_at, modified_at, sync_folder};
use coven_holder::fault;

/// Result of a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub kept_lines: usize,
    pub lost_lines: usize,
    /// Backup of the file before the recovery.
    pub original: PathBuf,
}

impl Conversations {
    /// Keeps the readable lines, including those of unknown types, and saves the original as a backup.
    pub fn recover(&self, id: &ConversationId, now: Timestamp) -> Result<Recovered, ConversationError> {
        let path = self.file(id);
        let unwritable = |source| ConversationError::Unwritable { path: path.clone(), source };
        let file = loop {
            let file = self.open_to_read(id)?;
            // No writer may append to a file that is about to be replaced.
            file.lock().map_err(unwritable)?;
            if is_still_at(&file, &path).map_err(unwritable)? {
                break file;
            }
        };
        let original = backup_path(&path, "damaged", now);
        let (temp, good) = write_temp(&path, |out| copy_good_lines(&file, id, out)).map_err(unwritable)?;
        replace(&path, &temp, &original).map_err(|source| {
            // It no longer exists if the rename succeeded.
            let _ = fs::remove_file(&temp);
            unwritable(source)
        })?;
        Ok(Recovered { kept_lines: good.kept, lost_lines: good.lost, original })
    }
}

/// Replaces the file so that `path` exists at every moment.
fn replace(path: &Path, temp: &Path, original: &Path) -> io::Result<()> {
    fault::before("recover", "keep")?;
    fs::hard_link(path, original).or_else(|_| fs::copy(path, original).map(drop))?;
    fault::before("recover", "rename")?;
    fs::rename(temp, path)?;
    fault::before("recover", "sync_folder")?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

struct GoodLines {
    kept: usize,
    lost: usize,
}

/// Copies the readable lines, one at a time.
fn copy_good_lines(mut file: &fs::File, id: &ConversationId, out: &mut impl Write) -> io::Result<GoodLines> {
    file.rewind()?;
    let since = modified_at(&file.metadata()?);
    let mut good = GoodLines { kept: 0, lost: 0 };
    let mut turns = 0;
    each_line(file, |number, line| {
        let (line, bytes) = match line {
            BoundedLine::Whole(bytes) => (parsed(bytes), bytes),
            BoundedLine::TooLong { .. } => (Err(too_long()), &b""[..]),
        };
        let mut text = Vec::new();
        if number == 1 && !matches!(line, Ok(Some(Line::Metadata(_)))) {
            Line::Metadata(Metadata::rebuilt(id.to_string(), since)).write_to(&mut text);
        }
        let Ok(line) = line else {
            good.lost += 1;
            return out.write_all(&text);
        };
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        match line {
            Some(Line::Turn(turn)) => {
                turns += 1;
                push_renumbered(&mut text, body, turn.number.map(|old| (old, turns)));
            }
            _ => text.extend_from_slice(body),
        }
        text.push(b'\n');
        good.kept += 1;
        out.write_all(&text)
    })?;
    Ok(good)
}

/// Appends the line with its turn number updated, because earlier lines may be lost.
fn push_renumbered(out: &mut Vec<u8>, body: &[u8], number: Option<(u64, u64)>) {
    let before = number.and_then(|(old, _)| body.strip_suffix(format!(",\"turns\":{old}}}").as_bytes()));
    match (before, number) {
        (Some(before), Some((_, new))) => {
            out.extend_from_slice(before);
            out.extend_from_slice(format!(",\"turns\":{new}}}").as_bytes());
        }
        _ => out.extend_from_slice(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renumbering_changes_only_the_final_turns_field() {
        let with = |body: &str, number| {
            let mut out = Vec::new();
            push_renumbered(&mut out, body.as_bytes(), number);
            String::from_utf8(out).expect("valid UTF-8")
        };
        let text = r#"{"type":"turn","content":"\",\"turns\":9}","mood":1,"turns":9}"#;
        assert_eq!(with(text, Some((9, 10))), r#"{"type":"turn","content":"\",\"turns\":9}","mood":1,"turns":10}"#);
        assert_eq!(with(text, None), text);
        let elsewhere = r#"{"turns":9,"type":"turn"}"#;
        assert_eq!(with(elsewhere, Some((9, 1))), elsewhere);
    }
}
