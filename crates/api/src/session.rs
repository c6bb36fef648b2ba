//! Sessions on the wire.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coven_domain::activity::{Activity, ActivitySource};
use coven_domain::launch_queue::{QUEUED, QueuedLaunch};
use coven_domain::session::{Action, Channel, Session, SessionState};
use coven_domain::{RepoId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(feature = "schema")]
use crate::schema;

/// A session as programs see it: snake_case, times in ISO 8601 UTC with milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Session"))]
pub struct SessionRecord {
    /// `coven sessions --json` lists conversations too; this tells them apart.
    #[serde(default)]
    pub kind: SessionKind,
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: SessionId,
    pub harness: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<Channel>"))]
    pub channel: Channel,
    pub title: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<SessionState>"))]
    pub status: SessionState,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub project_root: String,
    pub cwd: String,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub repo_id: Option<RepoId>,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::DateTime>"))]
    pub archived_at: Option<Timestamp>,
    /// What the agent of a live session is doing; null for other sessions.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<Activity>>"))]
    pub activity: Option<Activity>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::DateTime>"))]
    pub activity_since: Option<Timestamp>,
    /// The source that decided the activity.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<ActivitySource>>"))]
    pub activity_source: Option<ActivitySource>,
    /// What the agent wants or does, on one line.
    #[serde(default)]
    pub activity_detail: Option<String>,
    /// When the limit of a limited agent resets, if it is known.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::DateTime>"))]
    pub activity_until: Option<Timestamp>,
    /// The activity changed to something that concerns a human, and no client has looked since.
    #[serde(default)]
    pub unseen: bool,
    #[cfg_attr(feature = "schema", schemars(with = "schema::JsonObject"))]
    pub metadata: Map<String, Value>,
    /// The actions that are possible now.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<schema::StringEnumSchema<Action>>"))]
    pub actions: Vec<Action>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    #[default]
    Session,
}

impl SessionRecord {
    /// Returns the place in the launch queue of a session whose launch waits.
    pub fn queued_launch(&self) -> Option<QueuedLaunch> {
        let queued = self.metadata.get(QUEUED).filter(|_| self.status == SessionState::Created)?;
        serde_json::from_value(queued.clone()).ok()
    }
}

impl From<&Session> for SessionRecord {
    fn from(session: &Session) -> Self {
        let activity = session.is_live().then_some(&session.activity);
        let mut metadata = session.metadata.clone();
        if session.is_detached() {
            metadata.insert("detached".to_owned(), Value::Bool(true));
        }
        Self {
            kind: SessionKind::Session,
            id: session.id,
            harness: session.harness.clone(),
            channel: session.channel,
            title: session.title.clone(),
            status: session.state,
            exit_code: session.exit_code,
            pid: session.process.as_ref().map(|process| process.pid),
            project_root: session.project_root.clone(),
            cwd: session.cwd.clone(),
            repo_id: session.repo_id,
            created_at: session.created_at,
            updated_at: session.updated_at,
            archived_at: session.archived_at,
            activity: activity.map(|status| status.activity),
            activity_since: activity.and_then(|status| status.since),
            activity_source: activity.and_then(|status| status.source),
            activity_detail: activity.and_then(|status| status.detail.clone()),
            activity_until: activity.and_then(|status| status.until),
            unseen: activity.is_some_and(|status| status.is_unseen),
            metadata,
            actions: session.actions(),
        }
    }
}

/// `POST /api/v1/sessions`. Either `harness` or `argv` says what to run; without both it is the default agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CreateSessionRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// Any command instead of a harness: program and arguments, never a shell string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Arguments for the harness, in front of the prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The folder that `cwd` must lie in; the home's own root if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_root: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub repo_id: Option<String>,
    /// `terminal` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<Channel>>"))]
    pub channel: Option<String>,
    /// For `acp`: an earlier session, by its id or a unique prefix, that the agent resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Write the record and launch nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
    /// Launch it even if a limit of the config is reached; otherwise it waits, and `metadata.queued` has its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<bool>,
    /// The environment of the shell that asks; without one the harness gets the daemon's. Never stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// `POST /api/v1/sessions/{id}/start`: launches a record made with `detach`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StartSessionRequest {
    /// Launch it even if a limit of the config is reached, also if it waits for its launch already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// `POST /api/v1/sessions/{id}/rename`: gives a session another title.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RenameSessionRequest {
    pub title: String,
}

/// `GET /api/v1/sessions`: newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListSessionsQuery {
    /// Comma-separated statuses.
    pub status: Option<String>,
    /// Comma-separated activities; only live sessions have one.
    pub activity: Option<String>,
    pub harness: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<Channel>>"))]
    pub channel: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub repo_id: Option<String>,
    /// Show archived sessions too.
    pub all: Option<bool>,
    /// 1 to 1000; 20 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    pub offset: Option<u64>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `GET /api/v1/sessions/{id}/wait`: until the session has ended, or its agent does what `for` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct WaitQuery {
    /// Comma-separated activities that end the wait too. It ends at once if the agent does one of them already.
    #[serde(rename = "for")]
    pub activities: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcceptedResponse {
    pub ok: bool,
    pub accepted: bool,
}

impl AcceptedResponse {
    pub const ACCEPTED: Self = Self { ok: true, accepted: true };
}

/// `POST /api/v1/sessions/{id}/input`: text, or any bytes in Base64.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct InputRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
}

impl InputRequest {
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { data: Some(text.to_owned()), data_base64: None },
            Err(_) => Self { data: None, data_base64: Some(BASE64.encode(bytes)) },
        }
    }

    /// The bytes to write, if exactly one of the two was given and is sound.
    pub fn bytes(&self) -> Result<Vec<u8>, &'static str> {
        match (&self.data, &self.data_base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(coded)) => BASE64.decode(coded).map_err(|_| "data_base64 is not Base64"),
            (None, None) => Err("give data or data_base64"),
            (Some(_), Some(_)) => Err("give data or data_base64, not both"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResizeRequest {
    pub rows: u16,
    pub cols: u16,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LogQuery {
    /// The first byte wanted.
    pub from: Option<u64>,
    /// Stop before this byte.
    pub to: Option<u64>,
    /// Stay and send new output (`follow`, `follow=true`).
    pub follow: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LogCheckQuery {
    /// Compare checksums too (default); `false` compares lengths only and reads no output.
    pub content: Option<bool>,
}

/// How the log compares with what the ledger says about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogCheckResponse {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub session_id: SessionId,
    /// The first byte that must be there; earlier ones went because of `sessions.maxOutputBytes`.
    pub first: u64,
    /// Where the log ends.
    pub end: u64,
    /// Bytes that are gone or cannot be read.
    pub missing: Vec<ByteRange>,
    /// Bytes whose checksum is not the recorded one.
    pub changed: Vec<ByteRange>,
}

/// Bytes of a log: `from` is the first, `to` is the one behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ByteRange {
    pub from: u64,
    pub to: u64,
}

impl std::fmt::Display for ByteRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bytes {} to {}", self.from, self.to.saturating_sub(1))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AttachQuery {
    /// The first byte of the log to send; without it the daemon sends the screen first, then what follows it.
    pub from: Option<u64>,
    pub read_only: Option<bool>,
}
