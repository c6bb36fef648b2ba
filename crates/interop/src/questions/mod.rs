//! Question sets on disk: one folder each, compatible with AUQ, the tool that defined the format. Needs no daemon.
//!
//! A set consists of `request.json` (the questions, never changed), `status.json` and, once answered, `answers.json`. A
//! process that ends a set holds `status.json.lock` while it checks and writes, so the first one wins. Readers take no
//! locks: every file is replaced atomically.

mod atomic;
mod cleanup;
mod create;
mod error;
mod fields;
mod finish;
mod lock;
mod owner;
mod set;
mod wait;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use coven_domain::QuestionSetId;
use coven_files::Limit;

use coven_holder::fault;

pub use atomic::{AtomicWriteError, WriteStep};
pub use cleanup::CleanedUp;
pub use coven_domain::question_set::{Answers, QuestionSet};
pub use create::{Limits, NewQuestionSet};
pub use error::QuestionError;
pub use set::Listed;
pub use wait::{Waited, Waiter};
pub use watch::FolderWatch;

const REQUEST: &str = "request.json";
const STATUS: &str = "status.json";
const ANSWERS: &str = "answers.json";

/// A set has at most five questions; no tool of this format writes a larger file.
pub const QUESTION_FILE: Limit = Limit::new("a file of a question set", 4 << 20);
/// A lock file contains a process id and the data that identifies the process.
pub const QUESTION_LOCK: Limit = Limit::new("the lock file of a question set", 4 << 10);

/// The folder of a user's question sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionFolder {
    path: PathBuf,
    archive: PathBuf,
}

impl QuestionFolder {
    /// Returns `$AUQ_SESSION_DIR`, else `$XDG_DATA_HOME/auq/sessions`, else `~/.local/share/auq/sessions`.
    pub fn locate() -> Self {
        Self::locate_with(|name| std::env::var_os(name), std::env::home_dir())
    }

    fn locate_with(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Self {
        // Without a home directory, fall back to the current folder.
        let home = home.filter(|home| !home.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("."));
        let named = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let data = named("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share"));
        let path = match named("AUQ_SESSION_DIR") {
            Some(given) => match given.strip_prefix("~") {
                Ok(rest) => home.join(rest),
                Err(_) => given,
            },
            None => data.join("auq/sessions"),
        };
        Self { path: absolute(path), archive: absolute(data.join("auq/archive")) }
    }

    /// Uses this folder, which does not have to exist. Dismissed sets move to its sibling `archive`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let archive = path.parent().unwrap_or(Path::new("")).join("archive");
        Self { path, archive }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of dismissed sets.
    pub fn archive(&self) -> &Path {
        &self.archive
    }

    /// Returns the set whose id starts with `prefix`, if there is exactly one.
    pub fn find(&self, prefix: &str) -> Result<QuestionSetId, QuestionError> {
        let not_found = || QuestionError::NotFound { id: prefix.to_owned() };
        let wanted = prefix.to_ascii_lowercase();
        // Reject anything that is not a prefix of an id before touching the disk.
        if wanted.is_empty() || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Err(not_found());
        }
        let mut matches: Vec<QuestionSetId> =
            self.ids()?.into_iter().filter(|id| id.to_string().starts_with(&wanted)).collect();
        match (matches.len(), matches.pop()) {
            (1, Some(id)) => Ok(id),
            (_, None) => Err(not_found()),
            (_, Some(last)) => {
                matches.push(last);
                matches.sort_unstable();
                Err(QuestionError::Ambiguous { prefix: prefix.to_owned(), matches })
            }
        }
    }

    fn dir(&self, id: &QuestionSetId) -> PathBuf {
        self.path.join(id.to_string())
    }

    /// Returns the id of every folder whose name is a set id, and ignores all other entries.
    pub fn ids(&self) -> Result<Vec<QuestionSetId>, QuestionError> {
        let unreadable = |source| QuestionError::Unreadable { path: self.path.clone(), source };
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            ids.extend(entry.file_name().to_str().and_then(id_of));
        }
        Ok(ids)
    }
}

/// Returns the id for a folder name. Only the lowercase form is valid, so that each set has one name.
fn id_of(name: &str) -> Option<QuestionSetId> {
    name.parse::<QuestionSetId>().ok().filter(|id| id.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(vars: &[(&str, &str)], home: Option<&str>) -> QuestionFolder {
        let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        QuestionFolder::locate_with(var, home.map(PathBuf::from))
    }

    #[test]
    fn the_folder_is_the_same_as_in_auq() {
        let home = Some("/home/ann");
        let plain = located(&[], home);
        assert_eq!(plain.path(), Path::new("/home/ann/.local/share/auq/sessions"));
        assert_eq!(plain.archive(), Path::new("/home/ann/.local/share/auq/archive"));
        let data = located(&[("XDG_DATA_HOME", "/data")], home);
        assert_eq!(data.path(), Path::new("/data/auq/sessions"));
        let named = located(&[("AUQ_SESSION_DIR", "~/questions"), ("XDG_DATA_HOME", "/data")], home);
        assert_eq!(named.path(), Path::new("/home/ann/questions"));
        assert_eq!(named.archive(), Path::new("/data/auq/archive"));
        assert_eq!(located(&[("AUQ_SESSION_DIR", "/x")], None).path(), Path::new("/x"));
        assert_eq!(located(&[("AUQ_SESSION_DIR", "~")], home).path(), Path::new("/home/ann"));
        assert_eq!(
            located(&[("AUQ_SESSION_DIR", ""), ("XDG_DATA_HOME", "")], home),
            plain,
            "an empty variable counts as unset"
        );
        assert!(located(&[], None).path().is_absolute());
    }
}
