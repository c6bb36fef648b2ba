//! Sessions on the wire.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coven_domain::entry::Entry;
use coven_domain::session::Session;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A session as programs see it: snake_case, times in ISO 8601 UTC with milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionRecord {
    /// `session`; lists that hold conversations too tell them apart by it.
    #[serde(default = "session_kind")]
    pub kind: String,
    pub id: String,
    pub harness: String,
    /// `terminal` or `acp`.
    pub channel: String,
    pub title: String,
    /// `created`, `running`, `completed`, `failed`, `killed` or `orphaned`.
    pub status: String,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub project_root: String,
    pub cwd: String,
    pub repo_id: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub archived_at: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub metadata: Map<String, Value>,
    /// What can be done with it now: attach, replay, input, start, finish, kill, archive, summon, export, sacrifice.
    #[serde(default)]
    pub actions: Vec<String>,
}

fn session_kind() -> String {
    "session".to_owned()
}

impl From<&Session> for SessionRecord {
    fn from(session: &Session) -> Self {
        let mut metadata = session.metadata.clone();
        if session.is_detached() {
            metadata.insert("detached".to_owned(), Value::Bool(true));
        }
        Self {
            kind: session_kind(),
            id: session.id.to_string(),
            harness: session.harness.clone(),
            channel: session.channel.to_string(),
            title: session.title.clone(),
            status: session.state.to_string(),
            exit_code: session.exit_code,
            pid: session.process.as_ref().map(|process| process.pid),
            project_root: session.project_root.clone(),
            cwd: session.cwd.clone(),
            repo_id: session.repo_id.map(|id| id.to_string()),
            created_at: session.created_at.to_string(),
            updated_at: session.updated_at.to_string(),
            archived_at: session.archived_at.map(|at| at.to_string()),
            metadata,
            actions: session.actions().iter().map(ToString::to_string).collect(),
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
    pub repo_id: Option<String>,
    /// `terminal` (default) or `acp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// For `acp`: an earlier session, by its id or a unique prefix, whose agent is to go on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Write the record and launch nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach: Option<bool>,
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
    pub harness: Option<String>,
    pub channel: Option<String>,
    pub repo_id: Option<String>,
    /// Show archived sessions too.
    pub all: Option<bool>,
    /// 1 to 1000; 20 if left out.
    pub limit: Option<usize>,
    pub offset: Option<u64>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionListResponse {
    pub sessions: Vec<SessionRecord>,
    pub total: u64,
    /// Give it as `cursor` to get the next page.
    pub next: Option<String>,
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
pub struct EntriesQuery {
    /// Entries with a greater `seq`.
    pub after: Option<u64>,
    /// 1 to 1000; 100 if left out.
    pub limit: Option<usize>,
}

/// One record of the ledger. Text where it is valid UTF-8, else Base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryRecord {
    pub seq: u64,
    pub kind: String,
    pub at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<String>,
    /// What the kind brings along: `code` and `signal` of an exit, `rows` and `cols` of a resize, …
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub detail: Map<String, Value>,
}

impl EntryRecord {
    /// `output` is the piece of log that an output entry points at, as far as it is still there.
    pub fn new(entry: &Entry, output: Option<&[u8]>) -> Self {
        let bytes = output.or(entry.data.as_deref());
        let text = bytes.map(std::str::from_utf8);
        let is_output = entry.length > 0;
        Self {
            seq: entry.seq,
            kind: entry.kind.to_string(),
            at: entry.at.to_string(),
            offset: Some(entry.offset),
            length: is_output.then_some(entry.length),
            data: text.and_then(Result::ok).map(str::to_owned),
            data_base64: match (bytes, text) {
                (Some(bytes), Some(Err(_))) => Some(BASE64.encode(bytes)),
                _ => None,
            },
            detail: match &entry.detail {
                Some(Value::Object(map)) => map.clone(),
                _ => Map::new(),
            },
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        match (&self.data, &self.data_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(coded)) => BASE64.decode(coded).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntriesResponse {
    pub entries: Vec<EntryRecord>,
    /// Give it as `after` to get what follows.
    pub next: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LogQuery {
    /// The first byte wanted.
    pub from: Option<u64>,
    /// Stop before this byte.
    pub to: Option<u64>,
    /// Stay and send what comes (`follow`, `follow=true`).
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
    pub session_id: String,
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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ScreenQuery {
    /// `json` (default), `ansi`, `text` or `html`.
    pub format: Option<String>,
    /// The screen as it was when the log stood at this byte.
    pub at: Option<u64>,
}

/// What a session's terminal shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenResponse {
    /// The log's byte offset that this screen belongs to.
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub title: Option<String>,
    pub text: String,
    /// Rows of styled pieces of text.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Vec<crate::openapi::Object>>"))]
    pub spans: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AttachQuery {
    /// The first byte of the log to send; without it the daemon sends the screen first, then what follows it.
    pub from: Option<u64>,
    pub read_only: Option<bool>,
}
