//! Events on the wire: one envelope, and a payload with the whole record under the noun's name.

use coven_domain::task::FieldChange;
use coven_domain::{SessionId, TaskId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SessionRecord;
use crate::inbox::PermissionRecord;
use crate::message::MessageRecord;
use crate::operation::Operation;
use crate::question::QuestionSetRecord;
use crate::repo::RepoRecord;
use crate::task::TaskRecord;
use crate::workflow::{AgentRecord, WorkflowRecord};

/// An event as a client reads it. A newer daemon may send a kind that this client does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub number: u64,
    /// One of `coven_domain::event::KINDS`.
    pub kind: String,
    pub at: Timestamp,
    /// The id of the changed record; empty for the daemon itself.
    pub subject: String,
    pub payload: Value,
}

impl EventRecord {
    /// The payload as one of the types below; `None` if an older daemon wrote it in another shape.
    pub fn payload<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(&self.payload).ok()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for EventRecord {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Event".into()
    }

    /// A union with one variant for each kind; the OpenAPI document names the variants and the tag.
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let at = generator.subschema_for::<crate::schema::DateTime>();
        let variants: Vec<schemars::Schema> = coven_domain::event::KINDS
            .iter()
            .map(|(kind, about)| {
                schemars::json_schema!({
                    "type": "object",
                    "description": about,
                    "properties": {
                        "number": { "type": "integer", "format": "uint64", "minimum": 0 },
                        "kind": { "type": "string", "const": kind },
                        "at": at,
                        "subject": { "type": "string", "description": "The id of the changed record; empty for the daemon itself." },
                        "payload": payload_schema(kind, generator),
                    },
                    "required": ["number", "kind", "at", "subject", "payload"],
                })
            })
            .collect();
        schemars::json_schema!({ "oneOf": variants })
    }
}

/// The schema of the payload that events of this kind have.
#[cfg(feature = "schema")]
fn payload_schema(kind: &str, generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let (noun, _) = kind.split_once('.').unwrap_or((kind, ""));
    match (noun, kind) {
        (_, "session.output") => generator.subschema_for::<OutputPayload>(),
        (_, "turn.started") => generator.subschema_for::<TurnStartedPayload>(),
        (_, "turn.ended") => generator.subschema_for::<TurnEndedPayload>(),
        (_, "task.rescued") => generator.subschema_for::<TaskRescuedPayload>(),
        ("session", _) => generator.subschema_for::<SessionPayload>(),
        ("message", _) => generator.subschema_for::<MessagePayload>(),
        ("permission", _) => generator.subschema_for::<PermissionPayload>(),
        ("question_set", _) => generator.subschema_for::<QuestionSetPayload>(),
        ("repo", _) => generator.subschema_for::<RepoPayload>(),
        ("task", _) => generator.subschema_for::<TaskPayload>(),
        ("agent", _) => generator.subschema_for::<AgentPayload>(),
        ("workflow", _) => generator.subschema_for::<WorkflowPayload>(),
        ("terminal_prompt" | "agent_question", _) => generator.subschema_for::<QuestionPayload>(),
        ("operation", _) => generator.subschema_for::<OperationPayload>(),
        ("retention", _) => generator.subschema_for::<RetentionPayload>(),
        (noun, _) => panic!("events of {noun} have no payload type"),
    }
}

/// `session.*` except `session.output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionPayload {
    pub session: SessionRecord,
}

/// `session.output`: the session has new output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputPayload {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub session_id: SessionId,
    /// The length of the log in bytes.
    pub offset: u64,
}

/// `message.added` and `message.chunk`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagePayload {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub session_id: SessionId,
    pub message: MessageRecord,
}

/// `turn.started`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnStartedPayload {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub session_id: SessionId,
}

/// `turn.ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnEndedPayload {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub session_id: SessionId,
    /// `end_turn`, `cancelled`, `max_tokens`, `refusal`, `error`, …
    pub stop_reason: String,
}

/// `permission.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionPayload {
    pub permission: PermissionRecord,
}

/// `operation.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationPayload {
    pub operation: Operation,
}

/// `question_set.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionSetPayload {
    pub question_set: QuestionSetRecord,
}

/// `repo.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepoPayload {
    pub repo: RepoRecord,
}

/// `task.*` except `task.rescued`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskPayload {
    pub task: TaskRecord,
    /// The fields that became different.
    pub changes: Vec<FieldChangeRecord>,
    pub by: String,
}

/// `task.rescued`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRescuedPayload {
    pub task: TaskRecord,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub task_id: TaskId,
    /// The Git ref that holds the work.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A field of a task before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldChangeRecord {
    pub field: String,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::JsonValue"))]
    pub old: Value,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::JsonValue"))]
    pub new: Value,
}

impl From<&FieldChange> for FieldChangeRecord {
    fn from(change: &FieldChange) -> Self {
        Self { field: change.field.clone(), old: change.old.clone(), new: change.new.clone() }
    }
}

/// `agent.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentPayload {
    pub agent: AgentRecord,
}

/// `workflow.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowPayload {
    pub workflow: WorkflowRecord,
}

/// `terminal_prompt.*` and `agent_question.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionPayload {
    pub question: QuestionSetRecord,
}

/// `retention.swept`: ids of deleted records, at most 100 of each kind. A larger sweep has several events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionPayload {
    pub tasks_soft_deleted: Vec<String>,
    pub tasks_deleted: Vec<String>,
    pub agents_deleted: Vec<String>,
    pub sessions_deleted: Vec<String>,
    pub workflows_deleted: Vec<String>,
    pub questions_deleted: Vec<String>,
    /// In the first event of a sweep.
    pub events_deleted: u64,
    /// In the first event of a sweep.
    #[serde(default)]
    pub operations_deleted: u64,
    /// The next event continues the list of the same sweep.
    #[serde(default)]
    pub more: bool,
}

/// `GET /events` with `Accept: application/json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "EventList"))]
pub struct EventsResponse {
    pub items: Vec<EventRecord>,
    /// Give it as `since` to get the events that follow.
    pub next: u64,
    /// Events after the cursor have expired: read `/state` and continue from its `event_number`.
    pub gap: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EventsQuery {
    /// An event number, or an ISO 8601 time.
    pub since: Option<String>,
    /// The `next` of the page before; the same as `since`.
    pub cursor: Option<String>,
    /// For JSON: 1 to 1000; 1000 if left out.
    pub limit: Option<usize>,
}
