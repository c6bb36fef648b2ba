//! Events on the wire: one envelope, and a payload with the whole record under the noun's name.

use coven_domain::agent_question::AgentQuestion;
use coven_domain::permission::{Permission, PermissionState};
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary};
use coven_domain::repo::Repo;
use coven_domain::task::FieldChange;
use coven_domain::{AgentId, PermissionId, QuestionId, QuestionSetId, RepoId, SessionId, Timestamp};
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRecord {
    pub number: u64,
    /// `session.created`, `session.running`, `retention.swept`, …
    pub kind: String,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub at: Timestamp,
    /// The id of the changed record; empty for the daemon itself.
    pub subject: String,
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub payload: Value,
}

impl EventRecord {
    /// The payload as one of the types below; `None` if an older daemon wrote it in another shape.
    pub fn payload<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(&self.payload).ok()
    }
}

/// `session.*` except `session.output`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionPayload {
    pub session: SessionRecord,
}

/// `message.added` and `message.chunk`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagePayload {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session_id: SessionId,
    pub message: MessageRecord,
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
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: PermissionId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub session_id: SessionId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub status: PermissionState,
    pub title: String,
    pub options: Vec<InboxOption>,
    /// The tool call as the agent sent it.
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub tool_call: Value,
    /// The id of the chosen option.
    pub answer: Option<String>,
    /// `human`, `rule`, `session:<id>`, or `session` if the request ended with its turn or session.
    pub answered_by: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
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
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: QuestionSetId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub session_id: Option<SessionId>,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub status: QuestionSetState,
    pub title: String,
    pub question_count: u32,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
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
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: RepoId,
    pub name: String,
    pub path: String,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
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

/// A field of a task before and after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldChangeRecord {
    pub field: String,
    pub old: Value,
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
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub id: QuestionId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub status: QuestionSetState,
    pub prompt: String,
    pub answer: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
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

/// `GET /events` with `Accept: application/json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
