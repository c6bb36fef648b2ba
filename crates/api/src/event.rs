//! Events on the wire: one envelope, and a payload with the whole record under the noun's name.

use coven_domain::agent_question::AgentQuestion;
use coven_domain::permission::{Permission, PermissionState};
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary};
use coven_domain::repo::Repo;
use coven_domain::task::FieldChange;
use coven_domain::{AgentId, PermissionId, QuestionId, QuestionSetId, RepoId, SessionId, TaskId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SessionRecord;
use crate::inbox::InboxOption;
use crate::message::MessageRecord;
use crate::operation::Operation;
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
        ("question", _) => generator.subschema_for::<QuestionPayload>(),
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

/// An agent's request for permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionRecord {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub id: PermissionId,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Word<PermissionState>"))]
    pub status: PermissionState,
    pub title: String,
    pub options: Vec<InboxOption>,
    /// The tool call as the agent sent it.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::JsonValue"))]
    pub tool_call: Value,
    /// The id of the chosen option.
    pub answer: Option<String>,
    /// `human`, `rule`, `session:<id>`, or `session` if the request ended with its turn or session.
    pub answered_by: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::DateTime>"))]
    pub answered_at: Option<Timestamp>,
}

impl From<&Permission> for PermissionRecord {
    fn from(permission: &Permission) -> Self {
        let option = |option: &coven_domain::permission::PermissionOption| InboxOption {
            id: option.id.clone(),
            name: option.name.clone(),
            kind: option.kind.clone(),
        };
        Self {
            id: permission.id,
            session_id: permission.session,
            status: permission.state,
            title: permission.title.clone(),
            options: permission.options.iter().map(option).collect(),
            tool_call: permission.tool_call.clone(),
            answer: permission.answer.clone(),
            answered_by: permission.answered_by.map(|by| by.to_string()),
            created_at: permission.created_at,
            answered_at: permission.answered_at,
        }
    }
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
    pub question_set: QuestionSetBrief,
}

/// A question set without its questions, which are in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionSetBrief {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub id: QuestionSetId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Id>"))]
    pub session_id: Option<SessionId>,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Word<QuestionSetState>"))]
    pub status: QuestionSetState,
    pub title: String,
    pub question_count: u32,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub modified_at: Timestamp,
}

impl From<&QuestionSetSummary> for QuestionSetBrief {
    fn from(set: &QuestionSetSummary) -> Self {
        Self {
            id: set.id,
            session_id: set.session,
            status: set.state,
            title: set.title.clone(),
            question_count: set.question_count,
            created_at: set.created_at,
            modified_at: set.modified_at,
        }
    }
}

/// `repo.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepoPayload {
    pub repo: RepoRow,
}

/// A registered repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepoRow {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub id: RepoId,
    pub name: String,
    pub path: String,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::DateTime>"))]
    pub removed_at: Option<Timestamp>,
}

impl From<&Repo> for RepoRow {
    fn from(repo: &Repo) -> Self {
        Self {
            id: repo.id,
            name: repo.name.clone(),
            path: repo.path.clone(),
            created_at: repo.created_at,
            removed_at: repo.removed_at,
        }
    }
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

/// `question.*`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionPayload {
    pub question: AgentQuestionRecord,
}

/// A question that an agent of a task asks at its terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentQuestionRecord {
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub id: QuestionId,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Word<QuestionSetState>"))]
    pub status: QuestionSetState,
    pub prompt: String,
    pub answer: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::DateTime>"))]
    pub answered_at: Option<Timestamp>,
}

impl From<&AgentQuestion> for AgentQuestionRecord {
    fn from(question: &AgentQuestion) -> Self {
        Self {
            id: question.id,
            agent_id: question.agent,
            status: question.state,
            prompt: question.prompt.clone(),
            answer: question.answer.clone(),
            created_at: question.created_at,
            updated_at: question.updated_at,
            answered_at: question.answered_at,
        }
    }
}

/// `retention.swept`: ids of what was deleted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionPayload {
    pub tasks_soft_deleted: Vec<String>,
    pub tasks_deleted: Vec<String>,
    pub agents_deleted: Vec<String>,
    pub sessions_deleted: Vec<String>,
    pub workflows_deleted: Vec<String>,
    pub questions_deleted: Vec<String>,
    pub events_deleted: u64,
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
