//! Conversations on the wire: read-only, `coven spawn` is where they go on.

use coven_domain::conversation::{Summary, Turn};
use serde::{Deserialize, Serialize};

/// A conversation as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationRecord {
    /// `conversation`.
    pub kind: String,
    pub id: String,
    pub title: Option<String>,
    pub agent: Option<String>,
    pub harness: Option<String>,
    /// `active`, `completed` or `interrupted`.
    pub status: String,
    pub cwd: Option<String>,
    pub turn_count: u64,
    pub created_at: String,
    /// When it was last written to.
    pub updated_at: String,
    pub size_bytes: u64,
    /// The command that goes on with it.
    pub resume: String,
    /// What can be done with it: resume, export.
    pub actions: Vec<String>,
}

impl From<&Summary> for ConversationRecord {
    fn from(summary: &Summary) -> Self {
        Self {
            kind: "conversation".to_owned(),
            id: summary.id.to_string(),
            title: summary.title.clone(),
            agent: summary.agent.clone(),
            harness: summary.harness.clone(),
            status: summary.status.to_string(),
            cwd: summary.cwd.clone(),
            turn_count: summary.turn_count,
            created_at: summary.created_at.to_string(),
            updated_at: summary.last_activity_at.to_string(),
            size_bytes: summary.size_bytes,
            resume: summary.resume_command(),
            actions: ["resume", "export"].map(str::to_owned).to_vec(),
        }
    }
}

/// `GET /api/v1/conversations`: the most recent first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListConversationsQuery {
    /// `active`, `completed` or `interrupted`.
    pub status: Option<String>,
    pub agent: Option<String>,
    /// 1 to 1000; 20 if left out.
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConversationListResponse {
    pub conversations: Vec<ConversationRecord>,
    pub total: usize,
    /// Files of which nothing can be said, and why.
    pub broken: Vec<BrokenConversation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BrokenConversation {
    pub id: String,
    pub why: String,
}

/// `GET /api/v1/conversations/{id}/turns`: the last ones, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TurnsQuery {
    /// 1 to 1000; 20 if left out.
    pub limit: Option<usize>,
    /// Those before this many: the `before` of the page after.
    pub before: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnListResponse {
    pub turns: Vec<TurnRecord>,
    /// How many come before these, if the file says so.
    pub before: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnRecord {
    /// `user` or `assistant`.
    pub role: String,
    pub content: String,
    pub timestamp: String,
    pub tokens: Option<u64>,
    /// The answer was cut off by the user.
    pub interrupted: bool,
    /// From 1, if the file says so.
    pub number: Option<u64>,
}

impl From<&Turn> for TurnRecord {
    fn from(turn: &Turn) -> Self {
        Self {
            role: turn.role.to_string(),
            content: turn.content.clone(),
            timestamp: turn.timestamp.to_string(),
            tokens: turn.tokens,
            interrupted: turn.interrupted,
            number: turn.number,
        }
    }
}
