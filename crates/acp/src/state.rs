//! Everything a conversation must remember, as one value that is stored.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agent_client_protocol_schema::v1::AGENT_METHOD_NAMES;
use coven_domain::message::{Role, TextKind};
use coven_domain::{MessageId, PermissionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Call;
use crate::tool::{Shown, Tool};

/// How the session is to be opened.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Opening {
    pub cwd: String,
    /// The agent's own id of a session to go on with.
    pub resume: Option<String>,
    /// The authentication method to use if the agent asks for one.
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

/// A request of ours that the agent has not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    Initialize,
    Authenticate,
    NewSession,
    LoadSession,
    ResumeSession,
    Prompt,
    /// With the mode that was asked for.
    SetMode(String),
    SetConfigOption,
}

impl Sent {
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
    /// The id of the prompt's request.
    pub request: u64,
    pub is_cancelled: bool,
}

/// A text that is still being written. Its pieces are stored as they come, so the text itself is not part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub id: MessageId,
    pub role: Role,
    pub kind: TextKind,
    pub is_replayed: bool,
    /// The agent's own id of the message, where it gives one.
    pub agent_id: Option<String>,
    /// Shared with whoever may have to go back to an earlier state.
    #[serde(skip)]
    pub text: Arc<String>,
}

/// What the agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    Opening,
    Idle,
    Working,
    Waiting,
    Failed,
}

impl Activity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Failed => "ended",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub(crate) opening: Opening,
    pub(crate) phase: Phase,
    pub(crate) next_request: u64,
    pub(crate) in_flight: BTreeMap<u64, Sent>,
    pub(crate) has_authenticated: bool,
    pub(crate) has_prompted: bool,
    /// The session is about to end: nothing new is begun.
    pub(crate) is_ending: bool,
    /// Why no session could be opened.
    pub(crate) failure: Option<String>,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) turn: Option<Turn>,
    pub(crate) open: Option<Open>,
    /// Tool calls of this turn, by the agent's id.
    pub(crate) tools: BTreeMap<String, Tool>,
    /// What terminals of this turn showed, by id: ours, and those that an agent only tells of.
    #[serde(skip)]
    pub(crate) terminals: BTreeMap<String, Shown>,
    pub(crate) plan: Option<MessageId>,
    /// Requests for permission that wait, with the agent's id of each.
    pub(crate) asks: BTreeMap<PermissionId, Value>,
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
            Phase::Failed => Activity::Failed,
            Phase::Ready if !self.asks.is_empty() => Activity::Waiting,
            Phase::Ready if self.turn.is_some() => Activity::Working,
            Phase::Ready => Activity::Idle,
        }
    }

    /// Prompts that wait for their turn.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// A human is asked something: the session waits for them, not they for it.
    pub fn waits_for_human(&self) -> bool {
        !self.asks.is_empty()
    }

    pub fn is_turn_running(&self) -> bool {
        self.turn.is_some()
    }

    /// It takes no more prompts.
    pub fn is_ending(&self) -> bool {
        self.is_ending || self.phase == Phase::Failed
    }

    /// Why no session could be opened, if that is so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The messages of the tool calls that may still change.
    pub fn tool_messages(&self) -> impl Iterator<Item = MessageId> {
        self.tools.values().map(|tool| tool.message)
    }

    /// The message that is being written, if there is one.
    pub fn open_message(&self) -> Option<MessageId> {
        self.open.as_ref().map(|open| open.id)
    }
}
