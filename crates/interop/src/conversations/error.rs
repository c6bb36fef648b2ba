//! What can go wrong with conversations. Texts that programs look for are those of the format's specification.

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
    #[error("several sessions begin with {prefix:?}; give more of the name: {}", names(candidates))]
    Ambiguous { prefix: String, candidates: Vec<ConversationId> },
    #[error("there is a session of that name already; go on with it by --resume {id}, or choose another name")]
    Exists { id: String },
    #[error("another process is writing to the session; try again in a moment: {id}")]
    Busy { id: String },
    #[error("the session is open in another process; leave it there first: {id}")]
    InUse { id: String },
    #[error("the session file {} is damaged: {}", path.display(), places(damage, *count))]
    Damaged {
        path: PathBuf,
        /// The first of them.
        damage: Vec<Damage>,
        count: usize,
    },
    #[error("nothing was saved: {} cannot be written and is as it was before", path.display())]
    Append { path: PathBuf, source: io::Error },
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is not a regular one, or too large.
    #[error(transparent)]
    Refused(ReadError),
    #[error("{} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

impl ConversationError {
    /// The error for a failed read of this file.
    pub(super) fn reading(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::FileTooLarge => Self::Refused(ReadError::TooLarge { path, limit: CONVERSATION }),
            _ => Self::Unreadable { path, source },
        }
    }
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// From 1.
    pub line: u64,
    /// From 1, in bytes.
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

fn names(candidates: &[ConversationId]) -> String {
    const SHOWN: usize = 5;
    let mut text = candidates.iter().take(SHOWN).map(ConversationId::as_str).collect::<Vec<_>>().join(", ");
    if candidates.len() > SHOWN {
        text.push_str(&format!(" and {} more", candidates.len() - SHOWN));
    }
    text
}

fn places(damage: &[Damage], count: usize) -> String {
    const SHOWN: usize = 3;
    let mut text = damage.iter().take(SHOWN).map(Damage::to_string).collect::<Vec<_>>().join("; ");
    if count > SHOWN {
        text.push_str(&format!("; and {} more", count - SHOWN));
    }
    text
}
