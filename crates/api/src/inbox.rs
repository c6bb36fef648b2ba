//! The inbox: everything that waits for a human, in one list with one way to answer.

use coven_domain::question::Answer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxItem {
    pub id: String,
    /// `permission`: an agent wants to do something; `question_set`: somebody asks; `merge`: a task's work is there to be
    /// reviewed; `blocked`: a task cannot go on by itself; `terminal`: an agent of a task waits at its terminal. Others as they come.
    pub kind: String,
    /// `pending`, `answered`; of a permission also `cancelled`; of a question set also `rejected`, `timed_out`, `abandoned`, or
    /// `broken` if its files cannot be read.
    pub status: String,
    pub session_id: Option<String>,
    pub harness: Option<String>,
    pub repo_id: Option<String>,
    /// The task that it is about, and the step of its workflow.
    #[serde(default)]
    pub task_id: Option<String>,
    #[serde(default)]
    pub step: Option<String>,
    /// What is asked, in one line.
    pub title: String,
    pub created_at: String,
    pub answered_at: Option<String>,
    /// Who answered: `human`, `rule`, `session:<id>` for a process that runs in that session, or `session` if the request
    /// ended with its turn or session.
    pub answered_by: Option<String>,
    /// A permission's answer: its id among `options`.
    pub answer: Option<String>,
    /// What a permission, a merge or a blocked task may be answered with.
    pub options: Vec<InboxOption>,
    /// Of a permission the tool call as the agent told it. Of a question set its `questions` with their options, `answers` when
    /// there are, `rejectionReason`, `abandonReason`, `workingDirectory`, in the names of its files; `error` if it is broken.
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub detail: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct InboxQuery {
    /// Those that were answered or cancelled too.
    pub all: Option<bool>,
    /// Of this session only: its id.
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxResponse {
    pub items: Vec<InboxItem>,
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
    /// `{"questionIndex":0,"selectedOption":"A"}` each; `selectedOptions` for a multiple choice, `customText` for own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<crate::openapi::Object>>"))]
    pub answers: Option<Vec<Answer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject: Option<Rejection>,
    /// Beside `option` or `decision`: why a task's work is rejected, which has to be said, or why the task is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Nobody will answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Rejection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
