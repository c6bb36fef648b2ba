//! Files of the older coven: finding and reading them, and putting aside what was taken.

mod agent;
mod fields;
mod issue;
mod question;
pub mod records;
mod session;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod workflow;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use coven_domain::Timestamp;
use coven_files::{Limit, Links, ReadError};
pub use records::{
    Counts, Import, Known, Left, Legacy, LegacyAgent, LegacyQuestion, LegacyTask, LegacyWorkflow, Source, import,
};
use serde_json::Value;

/// A larger one was never written by the older coven.
pub const LEGACY_FILE: Limit = Limit::new("a file of the older coven", 16 << 20);
/// All issues are taken in one transaction.
pub const ISSUES: Limit = Limit::new("`.beads/issues.jsonl`", 64 << 20);
pub const ISSUE: Limit = Limit::new("a line of `.beads/issues.jsonl`", 1 << 20);
const WHOLE: &str = "the file";

/// A file that was read, and what it was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyFile {
    /// Relative to the home.
    pub name: String,
    path: PathBuf,
    stamp: Stamp,
}

/// Changes whenever somebody writes the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), modified }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    pub legacy: Legacy,
    pub left: Vec<Left>,
    /// Files that hold nothing to take; they stay where they are.
    pub leftovers: Vec<Left>,
    pub files: Vec<LegacyFile>,
}

type Take = fn(&Value, &Source, &mut Legacy, &mut Vec<Left>);

/// Whether old state lies in a home that `coven migrate` would take over and put aside.
pub fn is_in(home: &Path) -> bool {
    let holds_json = |folder: &str| {
        fs::read_dir(home.join(folder)).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        })
    };
    home.join("state.json").is_file() || ["workflows", "familiars", "questions"].into_iter().any(holds_json)
}

/// Reads everything that lies there; what cannot be understood is told and left.
pub fn read(home: &Path, project: Option<&Path>) -> Found {
    let mut found = Found::default();
    for path in files_in(home, ".", &mut found) {
        match name_of(&path).as_str() {
            "state.json" => {
                let is_read = read_file(&path, "state.json", state::take, &mut found);
                found.legacy.may_lack_tasks |= !is_read;
            }
            "session.json" => {
                let mut session = Found::default();
                read_file(&path, "session.json", session::take, &mut session);
                found.leftovers.append(&mut session.left);
            }
            name => {
                // Whatever else lies there is not the older coven's.
                if let Some(whole @ ("state.json" | "session.json")) = whole_name(name) {
                    found.leftovers.push(half_written(name, whole));
                }
            }
        }
    }
    if let Some(project) = project {
        issue::read(project, &mut found);
    }
    let folders: [(&str, Take); 3] =
        [("familiars", agent::take_familiar), ("workflows", workflow::take), ("questions", question::take)];
    for (folder, take) in folders {
        for path in files_in(&home.join(folder), folder, &mut found) {
            let name = name_of(&path);
            let shown = format!("{folder}/{name}");
            if path.extension().is_some_and(|ending| ending == "json") {
                read_file(&path, &shown, take, &mut found);
            } else if let Some(whole) = whole_name(&name) {
                found.leftovers.push(half_written(&shown, whole));
            }
        }
    }
    found
}

/// In order of their names; a folder that is not there has none.
fn files_in(folder: &Path, shown: &str, found: &mut Found) -> Vec<PathBuf> {
    let files: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    match files {
        Ok(mut files) => {
            files.sort();
            files
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let source = Source { file: shown.to_owned(), ..Source::default() };
            found.left.push(source.left("the folder", format!("it cannot be read: {error}")));
            Vec::new()
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `a.json` for `a.json.tmp` and the like: files had such a name until they were whole.
fn whole_name(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once(".json.")?;
    let is_half = ending.split(['.', '-']).any(|part| part == "tmp");
    is_half.then(|| &name[..stem.len() + ".json".len()])
}

fn half_written(name: &str, whole: &str) -> Left {
    let source = Source { file: name.to_owned(), ..Source::default() };
    source.left(WHOLE, format!("its writing was never finished; only a whole {whole} is read"))
}

/// Whether it holds JSON; what of that is left is told one by one.
fn read_file(path: &Path, name: &str, take: Take, found: &mut Found) -> bool {
    let mut source = Source { file: name.to_owned(), ..Source::default() };
    let (bytes, metadata) = match bytes_of(path) {
        Ok(read) => read,
        Err(why) => {
            found.left.push(source.left(WHOLE, why));
            return false;
        }
    };
    source.modified_at = modified_at(&metadata);
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => {
            take(&value, &source, &mut found.legacy, &mut found.left);
            found.files.push(LegacyFile { name: source.file, path: path.to_owned(), stamp: Stamp::of(&metadata) });
            true
        }
        Err(error) => {
            found.left.push(source.left(WHOLE, format!("it is no whole JSON: {error}")));
            false
        }
    }
}

fn bytes_of(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let (file, metadata) = opened(path)?;
    Ok((coven_files::read_opened(file, path, LEGACY_FILE).map_err(why)?, metadata))
}

fn opened(path: &Path) -> Result<(File, Metadata), String> {
    let file = coven_files::open(path, Links::Refuse).map_err(why)?;
    let metadata = file.metadata().map_err(|error| format!("it cannot be read: {error}"))?;
    Ok((file, metadata))
}

/// Why a file is left, without its name.
fn why(error: ReadError) -> String {
    match error {
        ReadError::Io { source, .. } => format!("it cannot be read: {source}"),
        ReadError::Link { .. } => "it is a link to somewhere else".to_owned(),
        ReadError::NotRegular { kind, .. } => format!("it is {kind}"),
        ReadError::TooLarge { limit, .. } => format!("it is larger than {limit}"),
        error @ (ReadError::NotText { .. } | ReadError::LongStream { .. }) => error.to_string(),
    }
}

fn modified_at(metadata: &Metadata) -> Timestamp {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl LegacyFile {
    /// The name it has, or would have, once it is put aside; relative to the home.
    pub fn aside_name(&self) -> String {
        format!("{}.{}", self.name, self.ending())
    }

    fn ending(&self) -> String {
        let is_free = |ending: &str| fs::symlink_metadata(self.with_ending(ending)).is_err();
        let numbered = (2_u32..).map(|nth| format!("migrated-{nth}"));
        ["migrated".to_owned()].into_iter().chain(numbered).find(|ending| is_free(ending)).unwrap_or_default()
    }

    fn with_ending(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// Renames it, and gives its new name; nothing if somebody else just did.
    pub fn put_aside(&self) -> Result<Option<String>, Left> {
        let source = Source { file: self.name.clone(), ..Source::default() };
        let failed = |error: io::Error| source.left(WHOLE, format!("it was taken and cannot be renamed: {error}"));
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(metadata) if Stamp::of(&metadata) != self.stamp => {
                return Err(
                    source.left(WHOLE, "it was changed while it was read; end whoever writes it and run it again")
                );
            }
            metadata => metadata.map(drop).map_err(failed)?,
        }
        let ending = self.ending();
        fs::rename(&self.path, self.with_ending(&ending)).map_err(failed)?;
        Ok(Some(format!("{}.{ending}", self.name)))
    }
}
