//! Messages of an ACP session in `/api/v1`, and what its agent is doing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message. A piece of one that is still being written has `partial: true` in its content and the id of the whole in
/// `message_id`; the whole takes the place of its pieces once it is finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageRecord {
    /// Grows with every change; a message that changes gets a new one.
    pub number: u64,
    pub id: String,
    /// The message that this is, or is a piece of.
    pub message_id: String,
    /// `user`, `agent` or `system`.
    pub role: String,
    pub at: String,
    /// By `type`: `text`, `thought`, `plan`, `tool`, `error`, `cancelled`, `turn`, `update`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub content: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MessagesQuery {
    /// Only what has a larger number.
    pub after: Option<u64>,
    /// 100 if left out; at most 1000.
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagesResponse {
    pub messages: Vec<MessageRecord>,
    /// Give it as `after` to get what follows.
    pub next: u64,
}

/// `GET /api/v1/sessions/:id/agent`: what is known of the agent behind an ACP session, and what it is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AgentStateRecord {
    /// `opening`, `idle`, `working` (a turn runs), `waiting` (for a permission) or `ended`.
    pub activity: String,
    /// Prompts that wait for the turn to end.
    pub queued: usize,
    /// The agent's own id of the session.
    pub agent_session_id: Option<String>,
    /// Name, title and version, as the agent tells them.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::openapi::Object>"))]
    pub agent: Value,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::openapi::Object>"))]
    pub capabilities: Value,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::openapi::Object>"))]
    pub modes: Value,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<crate::openapi::Object>>"))]
    pub config_options: Value,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<crate::openapi::Object>>"))]
    pub commands: Value,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::openapi::Object>"))]
    pub usage: Value,
    pub title: Option<String>,
    /// How the last turn ended: `end_turn`, `cancelled`, `max_tokens`, `refusal`, `error`, …
    pub stop_reason: Option<String>,
}

/// `POST /api/v1/sessions/:id/mode`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ModeRequest {
    pub mode_id: String,
}

/// `POST /api/v1/sessions/:id/config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ConfigOptionRequest {
    pub config_id: String,
    pub value: String,
}
