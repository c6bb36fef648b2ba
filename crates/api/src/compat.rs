//! The compatibility API, `/api/sessions`: ACP sessions with the camelCase fields of the AGENT interface.

use coven_domain::message::Role;
use coven_domain::session::{CompatStatus, Session};
use coven_domain::{MessageId, RepoId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::repo::CompatRepoRecord;
#[cfg(feature = "schema")]
use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompatSessionRecord {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: SessionId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub repo_id: Option<RepoId>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<CompatStatus>"))]
    pub status: CompatStatus,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub updated_at: Timestamp,
    pub harness: String,
    pub title: String,
    /// `reason` says why it ended: `idle_timeout`, `finished`, …
    #[cfg_attr(feature = "schema", schemars(with = "schema::JsonObject"))]
    pub metadata: Map<String, Value>,
}

impl From<&Session> for CompatSessionRecord {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id,
            repo_id: session.repo_id,
            status: session.state.into(),
            created_at: session.created_at,
            updated_at: session.updated_at,
            harness: session.harness.clone(),
            title: session.title.clone(),
            metadata: session.metadata.clone(),
        }
    }
}

/// A session with everything that was said in it, oldest first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompatSessionDetail {
    #[serde(flatten)]
    pub session: CompatSessionRecord,
    pub repo: Option<CompatRepoRecord>,
    pub messages: Vec<CompatMessageRecord>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompatMessageRecord {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: MessageId,
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<Role>"))]
    pub role: Role,
    /// By `type`: `text` (with `partial`), `thought`, `plan` (`steps`), `tool` (`tool`, `args`, `result`), `error`, `cancelled`, …
    #[cfg_attr(feature = "schema", schemars(with = "schema::JsonObject"))]
    pub content: Box<RawValue>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub timestamp: Timestamp,
}

/// `POST /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CreateCompatSessionRequest {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub repo_id: String,
    /// The config's `agents.harness` or `defaultHarness` if left out, else gemini where it is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// A first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ListCompatSessionsQuery {
    pub repo_id: Option<String>,
    /// One or several of `active`, `completed`, `cancelled`, `error`, separated by commas.
    pub status: Option<String>,
    /// 20 if left out; at most 1000.
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompatSessionListResponse {
    pub sessions: Vec<CompatSessionRecord>,
    pub total: u64,
    pub limit: usize,
    pub offset: usize,
}

/// `POST /api/v1/sessions/{id}/prompt` and `POST /api/sessions/{id}/prompt`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PromptRequest {
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompatPromptResponse {
    pub ok: bool,
    pub accepted: bool,
    /// The id of the user's message.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub message_id: MessageId,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CompatMessagesQuery {
    /// Only messages after this ISO 8601 time.
    pub since: Option<String>,
}
