//! Conversations on disk: one append-only JSONL file each. Needs no daemon.
//!
//! A writer holds an exclusive lock on the file during each append. Readers normally take no lock. Only a reader that
//! finds an incomplete line waits for the lock, to distinguish a write in progress from a crash.

mod append;
mod create;
mod error;
mod in_use;
mod last;
mod list;
mod load;
mod outline;
mod recover;
mod remove;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use coven_domain::Timestamp;
use coven_domain::conversation::ConversationId;
use coven_files::{Limit, Links, ReadError};

pub use append::{Wait, Writer};
pub use create::NewConversation;
pub use error::{ConversationError, Damage};
pub use last::LastTurns;
pub use list::{Filter, Listing};
pub use load::{Loaded, Notice};
pub use outline::Outline;
pub use recover::Recovered;
pub use remove::Cleaned;

/// Number of characters of an unknown id that an error message repeats.
const MAX_ID_SHOWN: usize = 64;
const EXTENSION: &str = ".jsonl";

/// Maximum length of a turn. Readers skip longer lines and report them as damage.
pub const CONVERSATION_LINE: Limit = Limit::new("a line of a conversation", 16 << 20);
/// Maximum that `spawn --resume` holds in memory. Lists and exports accept longer conversations.
pub const CONVERSATION: Limit = Limit::new("a conversation that is read as a whole", 64 << 20);
/// Kinds of backup files. A backup is stored next to the conversation as `<id>.jsonl.<kind>-<time>`.
const BACKUP_KINDS: [&str; 2] = ["torn", "damaged"];

/// The folder of a user's conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversations {
    folder: PathBuf,
}

impl Conversations {
    /// Returns `$AURORA_HOME/spawn/sessions`, or `~/.aurora/spawn/sessions` if the variable is unset.
    pub fn locate() -> Self {
        Self::at(aurora_home(|name| std::env::var_os(name), std::env::home_dir()).join("spawn/sessions"))
    }

    /// Uses this folder, which does not have to exist.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a conversation's file.
    pub fn file(&self, id: &ConversationId) -> PathBuf {
        self.folder.join(format!("{id}{EXTENSION}"))
    }

    /// Returns the ids of all conversations, unordered.
    pub fn ids(&self) -> Result<Vec<ConversationId>, ConversationError> {
        let mut ids = Vec::new();
        self.each_name(|name| ids.extend(id_of(name)))?;
        Ok(ids)
    }

    /// Returns the conversation with exactly this id, if it exists.
    pub fn exact(&self, text: &str) -> Option<ConversationId> {
        text.parse().ok().filter(|id| fs::symlink_metadata(self.file(id)).is_ok())
    }

    /// Returns the conversation with this id, or the only one whose id starts with `text`.
    pub fn find(&self, text: &str) -> Result<ConversationId, ConversationError> {
        let unknown = || ConversationError::NotFound { id: text.chars().take(MAX_ID_SHOWN).collect() };
        text.parse::<ConversationId>()?;
        if let Some(id) = self.exact(text) {
            return Ok(id);
        }
        let mut found: Vec<ConversationId> = self.ids()?;
        found.retain(|known| known.as_str().starts_with(text));
        match found.len() {
            0 => Err(unknown()),
            1 => Ok(found.remove(0)),
            _ => {
                found.sort();
                Err(ConversationError::Ambiguous { prefix: text.to_owned(), candidates: found })
            }
        }
    }

    fn each_name(&self, mut visit: impl FnMut(&str)) -> Result<(), ConversationError> {
        let unreadable = |source| ConversationError::Unreadable { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            // Conversation ids are ASCII, so a name that is not UTF-8 is not a conversation.
            if let Some(name) = entry.map_err(unreadable)?.file_name().to_str() {
                visit(name);
            }
        }
        Ok(())
    }

    fn open_to_read(&self, id: &ConversationId) -> Result<File, ConversationError> {
        let path = self.file(id);
        coven_files::open(&path, Links::Follow).map_err(|error| match error {
            error if error.is_not_found() => ConversationError::NotFound { id: id.to_string() },
            ReadError::Io { path, source } => ConversationError::Unreadable { path, source },
            error => ConversationError::Refused(error),
        })
    }
}

/// Returns `$AURORA_HOME`, or `~/.aurora` if the variable is unset.
pub fn aurora_home(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    // Without a home directory, fall back to the current folder.
    let home = home.filter(|home| !home.as_os_str().is_empty()).unwrap_or_else(|| PathBuf::from("."));
    let path = match var("AURORA_HOME").filter(|value| !value.is_empty()).map(PathBuf::from) {
        Some(given) => match given.strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => given,
        },
        None => home.join(".aurora"),
    };
    std::path::absolute(&path).unwrap_or(path)
}

/// Returns the id of the conversation stored under this file name.
fn id_of(name: &str) -> Option<ConversationId> {
    name.strip_suffix(EXTENSION)?.parse().ok()
}

/// Returns the id of the conversation that a file of this name is a backup of.
fn id_of_backup(name: &str) -> Option<ConversationId> {
    let (id, rest) = name.rsplit_once(".jsonl.")?;
    let (kind, time) = rest.split_once('-')?;
    let is_ours =
        BACKUP_KINDS.contains(&kind) && !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_alphanumeric());
    id.parse().ok().filter(|_| is_ours)
}

/// Returns whether `path` still refers to `file`, which may have been deleted or replaced since it was opened.
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns an unused path for a backup of `path`, named after the kind and the time.
fn backup_path(path: &Path, kind: &str, mut now: Timestamp) -> PathBuf {
    loop {
        let time: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{kind}-{time}"));
        let backup = path.with_file_name(name);
        if fs::symlink_metadata(&backup).is_err() {
            return backup;
        }
        now = Timestamp::from_millis(now.as_millis() + 1);
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn modified_at(metadata: &fs::Metadata) -> Timestamp {
    let since = metadata.modified().ok().and_then(|moment| moment.duration_since(UNIX_EPOCH).ok());
    Timestamp::from_millis(since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_01_conversations_are_stored_under_the_aurora_home() {
        let home = |vars: &[(&str, &str)], home: Option<&str>| {
            let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            aurora_home(var, home.map(PathBuf::from))
        };
        let ann = Some("/home/ann");
        assert_eq!(home(&[], ann), Path::new("/home/ann/.aurora"));
        assert_eq!(
            home(&[("AURORA_HOME", "")], ann),
            Path::new("/home/ann/.aurora"),
            "an empty variable counts as unset"
        );
        assert_eq!(home(&[("AURORA_HOME", "/data/a")], ann), Path::new("/data/a"));
        assert_eq!(home(&[("AURORA_HOME", "~/b")], ann), Path::new("/home/ann/b"));
        assert!(home(&[], None).is_absolute());
        let id = "session-123".parse().expect("valid id");
        assert_eq!(Conversations::at("/s").file(&id), Path::new("/s/session-123.jsonl"));
    }

    #[test]
    fn file_names_distinguish_conversations_from_other_files() {
        let id = |text: &str| text.parse::<ConversationId>().ok();
        assert_eq!(id_of("a.b.jsonl"), id("a.b"));
        assert_eq!(id_of("a.jsonl.torn-1.jsonl"), id("a.jsonl.torn-1"));
        for name in [".jsonl", "..jsonl", "a.json", "a b.jsonl", "a.jsonl.use", "a.jsonl.torn-1", ".a.jsonl.x.tmp"] {
            assert_eq!(id_of(name), None, "{name}");
        }
        assert_eq!(id_of_backup("a.jsonl.torn-20260114T100000123Z"), id("a"));
        assert_eq!(id_of_backup("a.jsonl.damaged-1"), id("a"));
        for name in ["a.jsonl", "a.jsonl.torn-1.jsonl", "a.jsonl.use", "a.jsonl.torn-", "a.jsonl.mine-1", "x-1"] {
            assert_eq!(id_of_backup(name), None, "{name}");
        }
    }
}
