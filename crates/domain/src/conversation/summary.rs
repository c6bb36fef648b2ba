//! What is told of a conversation without reading all of it.

use super::{ConversationId, ConversationState};
use crate::Timestamp;

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub id: ConversationId,
    /// As far as the end of the file tells.
    pub title: Option<String>,
    pub agent: Option<String>,
    pub harness: Option<String>,
    pub cwd: Option<String>,
    pub turn_count: u64,
    pub created_at: Timestamp,
    pub status: ConversationState,
    /// When it was last written to.
    pub last_activity_at: Timestamp,
    pub size_bytes: u64,
}

impl Summary {
    /// The command that goes on with it.
    pub fn resume_command(&self) -> String {
        format!("coven spawn --resume {}", self.id)
    }
}
