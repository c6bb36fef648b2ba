//! Summary of a conversation, built without reading the whole file.

use super::{ConversationId, ConversationState};
use crate::Timestamp;

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub id: ConversationId,
    /// The title, if the lines at the end of the file contain it.
    pub title: Option<String>,
    pub agent: Option<String>,
    pub harness: Option<String>,
    pub cwd: Option<String>,
    pub turn_count: u64,
    pub created_at: Timestamp,
    pub status: ConversationState,
    /// Time of the last write to the file.
    pub last_activity_at: Timestamp,
    pub size_bytes: u64,
}

impl Summary {
    /// Returns the command that resumes the conversation.
    pub fn resume_command(&self) -> String {
        format!("coven spawn --resume {}", self.id)
    }
}
