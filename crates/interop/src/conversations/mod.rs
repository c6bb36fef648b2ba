//! Conversations on disk: one JSONL file each, only ever appended to. Needs no daemon.
//!
//! Whoever appends holds an exclusive lock on the file for that moment. Readers take none; only a reader that meets half a
//! line waits for the lock, to tell a line that is being written from one that a crash cut off.

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

/// How much of a name that nobody knows is repeated.
const SHOWN_OF_ID: usize = 64;
const ENDING: &str = ".jsonl";

/// A turn is at most this long. Readers skip longer lines and report them as damage.
pub const CONVERSATION_LINE: Limit = Limit::new("a line of a conversation", 16 << 20);
/// What `spawn --resume` holds in memory. Lists and exports take longer conversations.
pub const CONVERSATION: Limit = Limit::new("a conversation that is read as a whole", 64 << 20);
/// What was kept of a file stands beside it: `<id>.jsonl.torn-<time>`.
const ASIDE: [&str; 2] = ["torn", "damaged"];

/// The folder that holds all conversations of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversations {
    folder: PathBuf,
}

impl Conversations {
    /// `$AURORA_HOME/spawn/sessions`, else `~/.aurora/spawn/sessions`.
    pub fn locate() -> Self {
        Self::at(aurora_home(|name| std::env::var_os(name), std::env::home_dir()).join("spawn/sessions"))
    }

    /// This folder, whether or not it exists yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Where this conversation lies.
    pub fn file(&self, id: &ConversationId) -> PathBuf {
        self.folder.join(format!("{id}{ENDING}"))
    }

    /// The ids of all that are there, in no order.
    pub fn ids(&self) -> Result<Vec<ConversationId>, ConversationError> {
        let mut ids = Vec::new();
        self.each_name(|name| ids.extend(id_of(name)))?;
        Ok(ids)
    }

    /// The conversation of this name, if it is there.
    pub fn exact(&self, text: &str) -> Option<ConversationId> {
        text.parse().ok().filter(|id| fs::symlink_metadata(self.file(id)).is_ok())
    }

    /// The conversation of this name, or the only one whose name begins so.
    pub fn find(&self, text: &str) -> Result<ConversationId, ConversationError> {
        let unknown = || ConversationError::NotFound { id: text.chars().take(SHOWN_OF_ID).collect() };
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

    fn each_name(&self, mut see: impl FnMut(&str)) -> Result<(), ConversationError> {
        let unreadable = |source| ConversationError::Unreadable { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        for entry in entries {
            // What is not UTF-8 is nobody's conversation.
            if let Some(name) = entry.map_err(unreadable)?.file_name().to_str() {
                see(name);
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

/// `$AURORA_HOME`, else `~/.aurora`.
/// `$AURORA_HOME`, else `~/.aurora`.
pub fn aurora_home(var: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    // Without any home the current folder has to do.
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

/// The conversation that a file of this name holds.
fn id_of(name: &str) -> Option<ConversationId> {
    name.strip_suffix(ENDING)?.parse().ok()
}

/// The conversation that a file of this name was kept of.
fn id_of_aside(name: &str) -> Option<ConversationId> {
    let (id, rest) = name.rsplit_once(".jsonl.")?;
    let (kind, time) = rest.split_once('-')?;
    let is_ours = ASIDE.contains(&kind) && !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_alphanumeric());
    id.parse().ok().filter(|_| is_ours)
}

/// Whether this is still the file of that name: it may have been deleted or replaced since it was opened.
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A name beside the file that says when, and that nobody has yet.
fn aside(path: &Path, kind: &str, mut now: Timestamp) -> PathBuf {
    loop {
        let time: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{kind}-{time}"));
        let aside = path.with_file_name(name);
        if fs::symlink_metadata(&aside).is_err() {
            return aside;
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
    fn chat_01_conversations_lie_below_the_home_of_their_format() {
        let home = |vars: &[(&str, &str)], home: Option<&str>| {
            let var = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            aurora_home(var, home.map(PathBuf::from))
        };
        let ann = Some("/home/ann");
        assert_eq!(home(&[], ann), Path::new("/home/ann/.aurora"));
        assert_eq!(home(&[("AURORA_HOME", "")], ann), Path::new("/home/ann/.aurora"), "empty is unset");
        assert_eq!(home(&[("AURORA_HOME", "/data/a")], ann), Path::new("/data/a"));
        assert_eq!(home(&[("AURORA_HOME", "~/b")], ann), Path::new("/home/ann/b"));
        assert!(home(&[], None).is_absolute());
        let id = "session-123".parse().expect("an id");
        assert_eq!(Conversations::at("/s").file(&id), Path::new("/s/session-123.jsonl"));
    }

    #[test]
    fn names_tell_conversations_from_what_lies_beside_them() {
        let id = |text: &str| text.parse::<ConversationId>().ok();
        assert_eq!(id_of("a.b.jsonl"), id("a.b"));
        assert_eq!(id_of("a.jsonl.torn-1.jsonl"), id("a.jsonl.torn-1"));
        for name in [".jsonl", "..jsonl", "a.json", "a b.jsonl", "a.jsonl.use", "a.jsonl.torn-1", ".a.jsonl.x.tmp"] {
            assert_eq!(id_of(name), None, "{name}");
        }
        assert_eq!(id_of_aside("a.jsonl.torn-20260114T100000123Z"), id("a"));
        assert_eq!(id_of_aside("a.jsonl.damaged-1"), id("a"));
        for name in ["a.jsonl", "a.jsonl.torn-1.jsonl", "a.jsonl.use", "a.jsonl.torn-", "a.jsonl.mine-1", "x-1"] {
            assert_eq!(id_of_aside(name), None, "{name}");
        }
    }
}
