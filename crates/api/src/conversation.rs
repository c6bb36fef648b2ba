//! Conversations on the wire: read-only; `coven spawn` continues them.

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, ConversationState, Summary, Turn, TurnRole};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// A conversation as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Conversation"))]
pub struct ConversationRecord {
    /// `coven sessions --json` lists sessions too; this tells them apart.
    pub kind: ConversationKind,
    #[cfg_attr(feature = "schema", schemars(with = "schema::FileId"))]
    pub id: ConversationId,
    pub title: Option<String>,
    pub agent: Option<String>,
    pub harness: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<ConversationState>"))]
    pub status: ConversationState,
    pub cwd: Option<String>,
    pub turn_count: u64,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub created_at: Timestamp,
    /// The time of the last write.
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub updated_at: Timestamp,
    pub size_bytes: u64,
    /// The command that resumes it.
    pub resume: String,
    /// The actions that are possible.
    pub actions: Vec<ConversationAction>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConversationKind {
    #[default]
    Conversation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConversationAction {
    Resume,
    Export,
}

impl From<&Summary> for ConversationRecord {
    fn from(summary: &Summary) -> Self {
        Self {
            kind: ConversationKind::Conversation,
            id: summary.id.clone(),
            title: summary.title.clone(),
            agent: summary.agent.clone(),
            harness: summary.harness.clone(),
            status: summary.status,
            cwd: summary.cwd.clone(),
            turn_count: summary.turn_count,
            created_at: summary.created_at,
            updated_at: summary.last_activity_at,
            size_bytes: summary.size_bytes,
            resume: summary.resume_command(),
            actions: vec![ConversationAction::Resume, ConversationAction::Export],
        }
    }
}

/// `GET /api/v1/conversations`: the most recent first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListConversationsQuery {
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<ConversationState>>"))]
    pub status: Option<String>,
    pub agent: Option<String>,
    /// 1 to 1000; 20 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// A page of conversations, then the files that the daemon cannot read: at most `limit` of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ConversationList"))]
pub struct ConversationListResponse {
    pub items: Vec<ConversationRecord>,
    /// The `cursor` of the next page; null on the last page.
    pub next: Option<String>,
    pub total: u64,
    pub broken: Vec<BrokenConversation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BrokenConversation {
    #[cfg_attr(feature = "schema", schemars(with = "schema::FileId"))]
    pub id: ConversationId,
    pub why: String,
}

/// `GET /api/v1/conversations/{id}/turns`: the last turns in their order; each next page has the turns before them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TurnsQuery {
    /// 1 to 1000; 20 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Turn"))]
pub struct TurnRecord {
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<TurnRole>"))]
    pub role: TurnRole,
    pub content: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub timestamp: Timestamp,
    pub tokens: Option<u64>,
    /// The user cut off the answer.
    pub interrupted: bool,
    /// Counts from 1; null where the file does not number its turns.
    pub number: Option<u64>,
}

impl From<&Turn> for TurnRecord {
    fn from(turn: &Turn) -> Self {
        Self {
            role: turn.role,
            content: turn.content.clone(),
            timestamp: turn.timestamp,
            tokens: turn.tokens,
            interrupted: turn.interrupted,
            number: turn.number,
        }
    }
}
