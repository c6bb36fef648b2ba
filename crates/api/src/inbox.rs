//! The inbox: everything that waits for a human, in one list with one way to answer.

use coven_domain::question::QuestionAnswer;
use coven_domain::request::{PermissionOption, Request, RequestBody, RequestSource, RequestState};
use coven_domain::{RepoId, RequestId, SessionId, TaskId, Timestamp, string_enum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::{QuestionSetRecord, QuestionStatus};
#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, JsonValue, StringEnumSchema};
use crate::task::TaskRecord;

string_enum! {
    /// `permission`: an agent wants to do something; `question_set`: questions of a process; `question`: questions of a
    /// terminal agent; `terminal`: an agent of a task waits at its terminal; `merge`: the work of a task is ready for review; `blocked`: a task cannot continue alone.
    pub enum InboxKind {
        Permission = "permission",
        QuestionSet = "question_set",
        Question = "question",
        Terminal = "terminal",
        Merge = "merge",
        Blocked = "blocked",
    }
}

string_enum! {
    /// A permission is `pending`, `answered` or `cancelled`; a task `pending` or `answered`. Questions have the status of their
    /// record. `dismissed`: the item no longer exists.
    pub enum InboxStatus {
        Pending = "pending",
        Answered = "answered",
        Cancelled = "cancelled",
        Completed = "completed",
        Rejected = "rejected",
        TimedOut = "timed_out",
        Abandoned = "abandoned",
        Broken = "broken",
        Dismissed = "dismissed",
    }
}

impl InboxStatus {
    /// A person gave an answer.
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Answered | Self::Completed)
    }
}

impl From<QuestionStatus> for InboxStatus {
    fn from(status: QuestionStatus) -> Self {
        match status {
            QuestionStatus::Pending => Self::Pending,
            QuestionStatus::Completed => Self::Completed,
            QuestionStatus::Rejected => Self::Rejected,
            QuestionStatus::TimedOut => Self::TimedOut,
            QuestionStatus::Abandoned => Self::Abandoned,
            QuestionStatus::Broken => Self::Broken,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxItem {
    /// That of the permission, the question or the task.
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: String,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<InboxKind>"))]
    pub kind: InboxKind,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<InboxStatus>"))]
    pub status: InboxStatus,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub session_id: Option<SessionId>,
    pub harness: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub repo_id: Option<RepoId>,
    /// The task that it is about, and the step of its workflow.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub task_id: Option<TaskId>,
    pub step: Option<String>,
    /// The question or request, in one line.
    pub title: String,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub answered_at: Option<Timestamp>,
    /// Who answered: `human`, `rule`, `session:<id>` for a process that runs in that session, or `session` if the request
    /// ended with its turn or session.
    pub answered_by: Option<String>,
    /// The id of one of the options, or the line that was typed into a terminal.
    pub answer: Option<String>,
    /// The answers that a permission, a merge or a blocked task takes.
    pub options: Vec<InboxOption>,
    pub detail: InboxDetail,
}

/// What the item is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InboxDetail {
    Permission {
        permission: PermissionRecord,
    },
    QuestionSet {
        question_set: QuestionSetRecord,
    },
    Question {
        question_set: QuestionSetRecord,
    },
    Terminal {
        question_set: QuestionSetRecord,
    },
    Task {
        task: Box<TaskRecord>,
        /// Why its run is blocked or failed.
        error: Option<String>,
    },
}

impl InboxItem {
    /// The questions of a set, an agent or a terminal.
    pub const fn question_set(&self) -> Option<&QuestionSetRecord> {
        match &self.detail {
            InboxDetail::QuestionSet { question_set }
            | InboxDetail::Question { question_set }
            | InboxDetail::Terminal { question_set } => Some(question_set),
            InboxDetail::Permission { .. } | InboxDetail::Task { .. } => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or another word of the agent.
    pub kind: String,
}

impl From<&PermissionOption> for InboxOption {
    fn from(option: &PermissionOption) -> Self {
        Self { id: option.id.clone(), name: option.name.clone(), kind: option.kind.clone() }
    }
}

/// An agent's request for permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Permission"))]
pub struct PermissionRecord {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: RequestId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub session_id: Option<SessionId>,
    /// `acp`: the answer goes to the agent as a protocol message; `hook`: to a hook of a terminal agent, whose dialog can
    /// be answered too.
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<RequestSource>"))]
    pub source: RequestSource,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<RequestState>"))]
    pub status: RequestState,
    pub title: String,
    pub options: Vec<InboxOption>,
    /// The tool call as the agent sent it.
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub tool_call: Value,
    /// The id of the chosen option.
    pub answer: Option<String>,
    /// `human`, `rule`, `session:<id>`, or `session` if the request ended with its turn or session.
    pub answered_by: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub answered_at: Option<Timestamp>,
}

impl From<&Request> for PermissionRecord {
    fn from(permission: &Request) -> Self {
        let tool_call = match &permission.body {
            RequestBody::Permission { tool_call, .. } => tool_call.clone(),
            RequestBody::Question { .. } | RequestBody::Input { .. } => Value::Null,
        };
        Self {
            id: permission.id,
            session_id: permission.session,
            source: permission.source,
            status: permission.state,
            title: permission.title.clone(),
            options: permission.options().iter().map(Into::into).collect(),
            tool_call,
            answer: permission.answer_text(),
            answered_by: permission.answered_by.map(|by| by.to_string()),
            created_at: permission.created_at,
            answered_at: permission.answered_at,
        }
    }
}

/// `GET /api/v1/inbox` and `GET /api/v1/questions`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct InboxQuery {
    /// Also those that were answered, cancelled or are broken; else only those that wait for an answer.
    pub all: Option<bool>,
    /// Of this session only: its id.
    pub session: Option<String>,
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `POST /api/v1/inbox/:id/answer`, one of these. A permission takes an option by its id, or `allow` / `deny` for the first
/// option that means it; a question set takes answers to all its questions, or is rejected. A merge takes `approve`, or
/// `reject` with a reason; a blocked task `retry`, `unblock` or `close`. A terminal takes a line, as `option`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AnswerRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// `allow` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<GivenAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject: Option<Rejection>,
    /// Beside `option` or `decision`: why a task's work is rejected, which has to be said, or why the task is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to one question. The names of the question files (`questionIndex`, …) are accepted too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GivenAnswer {
    /// Counted from 0.
    #[serde(alias = "questionIndex")]
    pub question_index: usize,
    /// The label of an option.
    #[serde(default, alias = "selectedOption", skip_serializing_if = "Option::is_none")]
    pub selected_option: Option<String>,
    /// The labels of a multiple choice.
    #[serde(default, alias = "selectedOptions", skip_serializing_if = "Option::is_none")]
    pub selected_options: Option<Vec<String>>,
    /// An answer in own words.
    #[serde(default, alias = "customText", skip_serializing_if = "Option::is_none")]
    pub custom_text: Option<String>,
    /// Accepted for older clients, and not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
}

impl From<QuestionAnswer> for GivenAnswer {
    fn from(answer: QuestionAnswer) -> Self {
        Self {
            question_index: answer.question_index,
            selected_option: answer.selected_option,
            selected_options: answer.selected_options,
            custom_text: answer.custom_text,
            timestamp: None,
        }
    }
}

impl From<GivenAnswer> for QuestionAnswer {
    fn from(given: GivenAnswer) -> Self {
        Self {
            question_index: given.question_index,
            selected_option: given.selected_option,
            selected_options: given.selected_options,
            custom_text: given.custom_text,
            timestamp: given.timestamp.unwrap_or_default(),
        }
    }
}

/// The request will not be answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Rejection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
