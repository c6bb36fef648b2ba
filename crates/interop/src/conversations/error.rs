//! Errors of conversations. The specification of the format fixes the texts that programs match on.

use std::fmt;
use std::io;
use std::path::PathBuf;

use coven_domain::conversation::{BadConversationId, ConversationId};
use coven_files::ReadError;

use super::CONVERSATION;

#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    #[error(transparent)]
    BadId(#[from] BadConversationId),
    #[error("Session not found: {id}")]
    NotFound { id: String },
    #[error("id prefix {prefix:?} matches several conversations; use a longer prefix: {}", list_ids(candidates))]
    Ambiguous { prefix: String, candidates: Vec<ConversationId> },
    #[error("conversation {id} already exists; resume it with --resume {id}, or choose another name")]
    Exists { id: String },
    #[error("another process is writing to conversation {id}; try again in a moment")]
    Busy { id: String },
    #[error("conversation {id} is open in another process; close it there first")]
    InUse { id: String },
    #[error("conversation file {} is damaged: {}", path.display(), list_damage(damage, *count))]
    Damaged {
        path: PathBuf,
        /// The first damaged lines; `count` is the total.
        damage: Vec<Damage>,
        count: usize,
    },
    #[error("nothing was saved: cannot write {} (the file is unchanged)", path.display())]
    Append { path: PathBuf, source: io::Error },
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not a regular file, or it is too large.
    #[error(transparent)]
    Refused(ReadError),
    #[error("cannot write {}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

impl ConversationError {
    /// Returns the error for a failed read of this file.
    pub(super) fn reading(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::FileTooLarge => Self::Refused(ReadError::TooLarge { path, limit: CONVERSATION }),
            _ => Self::Unreadable { path, source },
        }
    }
}

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Line number, starting at 1.
    pub line: u64,
    /// Byte offset in the line, starting at 1.
    pub column: Option<usize>,
    pub why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.why)
    }
}

fn list_ids(candidates: &[ConversationId]) -> String {
    const SHOWN: usize = 5;
    let mut text = candidates.iter().take(SHOWN).map(ConversationId::as_str).collect::<Vec<_>>().join(", ");
    if candidates.len() > SHOWN {
        text.push_str(&format!(" and {} more", candidates.len() - SHOWN));
    }
    text
}

fn list_damage(damage: &[Damage], count: usize) -> String {
    const SHOWN: usize = 3;
    let mut text = damage.iter().take(SHOWN).map(Damage::to_string).collect::<Vec<_>>().join("; ");
    if count > SHOWN {
        text.push_str(&format!("; and {} more", count - SHOWN));
    }
    text
}
