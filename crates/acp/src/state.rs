//! The complete state of an ACP session, stored as one value.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent_client_protocol_schema::v1::AGENT_METHOD_NAMES;
use coven_domain::message::{Activity, Role, TextKind};
use coven_domain::{MessageId, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Call;
use crate::tool::{TerminalOutput, Tool};

/// How to open the session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Opening {
    pub cwd: String,
    /// The agent's own id of a session to resume.
    pub resume: Option<String>,
    /// The authentication method to use if the agent requires authentication.
    pub auth_method: Option<String>,
    pub client_version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Opening,
    Ready,
    Failed,
}

/// A request that the agent has not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingRequest {
    Initialize,
    Authenticate,
    NewSession,
    LoadSession,
    ResumeSession,
    Prompt,
    /// With the requested mode.
    SetMode(String),
    SetConfigOption,
}

impl PendingRequest {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Initialize => AGENT_METHOD_NAMES.initialize,
            Self::Authenticate => AGENT_METHOD_NAMES.authenticate,
            Self::NewSession => AGENT_METHOD_NAMES.session_new,
            Self::LoadSession => AGENT_METHOD_NAMES.session_load,
            Self::ResumeSession => AGENT_METHOD_NAMES.session_resume,
            Self::Prompt => AGENT_METHOD_NAMES.session_prompt,
            Self::SetMode(_) => AGENT_METHOD_NAMES.session_set_mode,
            Self::SetConfigOption => AGENT_METHOD_NAMES.session_set_config_option,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub message: MessageId,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Id of the `session/prompt` request.
    pub request: u64,
    pub is_cancelled: bool,
}

/// A message that is still being written. Its chunks are stored as they arrive, so the text is not part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub id: MessageId,
    pub role: Role,
    pub kind: TextKind,
    pub is_replayed: bool,
    /// The agent's own id of the message, if it has one.
    pub agent_id: Option<String>,
    /// Shared, so that cloning the state for a possible rollback is cheap.
    #[serde(skip)]
    pub text: Arc<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub(crate) opening: Opening,
    pub(crate) phase: Phase,
    pub(crate) next_request: u64,
    pub(crate) in_flight: BTreeMap<u64, PendingRequest>,
    pub(crate) has_authenticated: bool,
    pub(crate) has_prompted: bool,
    /// The session is about to end: no new turn starts.
    pub(crate) is_ending: bool,
    /// Why the session could not be opened.
    pub(crate) failure: Option<String>,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) turn: Option<Turn>,
    pub(crate) open: Option<Open>,
    /// Tool calls of this turn, by the agent's id.
    pub(crate) tools: BTreeMap<String, Tool>,
    /// Output of this turn's terminals by id: the client's own, and terminals that the agent runs and reports on.
    #[serde(skip)]
    pub(crate) terminals: BTreeMap<String, TerminalOutput>,
    pub(crate) plan: Option<MessageId>,
    /// Open permission requests, with the agent's id of each. Stored under its first name.
    #[serde(rename = "asks")]
    pub(crate) permission_requests: BTreeMap<RequestId, Value>,
    pub(crate) calls: Vec<Call>,
    pub(crate) next_terminal: u64,
    pub agent_session_id: Option<String>,
    pub agent: Value,
    pub capabilities: Value,
    pub auth_methods: Value,
    pub modes: Value,
    pub config_options: Value,
    pub commands: Value,
    pub usage: Value,
    pub title: Option<String>,
    pub stop_reason: Option<String>,
}

impl State {
    pub fn activity(&self) -> Activity {
        match self.phase {
            Phase::Opening => Activity::Opening,
            Phase::Failed => Activity::Ended,
            Phase::Ready if !self.permission_requests.is_empty() => Activity::Waiting,
            Phase::Ready if self.turn.is_some() => Activity::Working,
            Phase::Ready => Activity::Idle,
        }
    }

    /// Returns the number of queued prompts.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Reports whether a permission request waits for a human.
    pub fn waits_for_human(&self) -> bool {
        !self.permission_requests.is_empty()
    }

    pub fn is_turn_running(&self) -> bool {
        self.turn.is_some()
    }

    /// Reports whether the session accepts no more prompts.
    pub fn is_ending(&self) -> bool {
        self.is_ending || self.phase == Phase::Failed
    }

    /// Returns why the session could not be opened, if it failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the messages of this turn's tool calls, which may still change.
    pub fn tool_messages(&self) -> impl Iterator<Item = MessageId> {
        self.tools.values().map(|tool| tool.message)
    }

    /// Returns the message that is being written, if any.
    pub fn open_message(&self) -> Option<MessageId> {
        self.open.as_ref().map(|open| open.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_requests_are_stored_under_their_first_name() {
        let stored = r#"{"asks":{"00000000-0000-4000-8000-000000000001":7}}"#;
        let state: State = serde_json::from_str(stored).expect("a state that an earlier version stored");
        assert!(state.waits_for_human());
        let again = serde_json::to_value(&state).expect("JSON");
        assert_eq!(again["asks"]["00000000-0000-4000-8000-000000000001"], 7);
    }
}
