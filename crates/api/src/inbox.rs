//! The inbox: everything that waits for a human, in one list with one way to answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxItem {
    pub id: String,
    /// `permission`; others as they come.
    pub kind: String,
    /// `pending`, `answered` or `cancelled`.
    pub status: String,
    pub session_id: Option<String>,
    pub harness: Option<String>,
    pub repo_id: Option<String>,
    /// What is asked, in one line.
    pub title: String,
    pub created_at: String,
    pub answered_at: Option<String>,
    /// `rule`, `human`, `session`: who answered.
    pub answered_by: Option<String>,
    /// The answer's id among `options`.
    pub answer: Option<String>,
    pub options: Vec<InboxOption>,
    /// What the agent wants to do, as it told it: for a permission the tool call.
    #[schema(value_type = Object)]
    pub detail: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InboxQuery {
    /// Those that were answered or cancelled too.
    pub all: Option<bool>,
    /// Of this session only: its id.
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InboxResponse {
    pub items: Vec<InboxItem>,
}

/// `POST /api/v1/inbox/:id/answer`: an option by its id, or `allow` / `deny` for the first option that means it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// `allow` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}
