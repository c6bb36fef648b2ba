//! The state machine of an ACP session: prompts and responses in, lines out, one turn at a time.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CancelNotification, ContentBlock, PromptRequest, SetSessionConfigOptionRequest,
    SetSessionModeRequest, TextContent,
};
use coven_domain::MessageId;
use coven_domain::message::{Message, Role, error_content, text_content};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::effects::{Effects, TurnChange};
use crate::lines::MAX_MESSAGE_BYTES;
use crate::state::{Open, Opening, PendingRequest, Phase, Queued, State, Turn};
use crate::wire::{self, Envelope, Head, RpcError};

pub struct Machine {
    pub(crate) state: State,
}

impl Machine {
    pub fn new(opening: Opening) -> Self {
        Self { state: State { opening, ..State::default() } }
    }

    /// Restores a machine from a stored state. The state does not repeat text that is in messages: `open_text` is the
    /// text of the unfinished message, and `content` returns the content of a tool call's message.
    pub fn restore(mut state: State, open_text: String, content: impl Fn(MessageId) -> Option<Value>) -> Self {
        if let Some(open) = &mut state.open {
            open.text = Arc::new(open_text);
        }
        for tool in state.tools.values_mut() {
            if let Some(content) = content(tool.message) {
                tool.recall(&content, &mut state.terminals);
            }
        }
        Self { state }
    }

    /// Creates a machine from an earlier state in memory, to undo later changes.
    pub fn from_state(state: State) -> Self {
        Self { state }
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Handles a line from the agent.
    pub fn line(&mut self, line: &[u8], effects: &mut Effects) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let envelope: Envelope<'_> = match serde_json::from_slice(line) {
            Ok(envelope) => envelope,
            // Other output of the agent; the log contains it.
            Err(error) => return effects.warnings.push(format!("a line that is not a valid message: {error}")),
        };
        match (&envelope.method, envelope.id) {
            (Some(method), None) => self.notified(method, &envelope, effects),
            (Some(method), Some(id)) => {
                let id = serde_json::from_str(id.get()).unwrap_or(Value::Null);
                self.asked(method, id, &envelope, effects);
            }
            (None, Some(id)) => self.answered(id.get(), &envelope, effects),
            (None, None) => effects.warnings.push("a message with neither method nor id".to_owned()),
        }
    }

    /// Handles a message that is too long to read; `head` is its start. The message history reports it. A request is
    /// rejected and a response counts as an error, so that neither side waits forever.
    pub fn too_long(&mut self, head: &[u8], effects: &mut Effects) {
        let limit = MAX_MESSAGE_BYTES >> 20;
        let error = RpcError::new(-32600, format!("the message is larger than {limit} MiB and was dropped"));
        self.close_message(false, effects);
        match wire::head(head) {
            Head { id: Some(id), is_request: true } => effects.lines.push(wire::answer(&id, Err(error.clone()))),
            Head { id: Some(id), is_request: false } => {
                // The handler of this response reports the error.
                let failed = wire::answer(&id, Err(error));
                return self.line(failed.as_bytes(), effects);
            }
            Head { id: None, .. } => {}
        }
        let report = format!("the agent sent a message that is too large: {}", error.message);
        effects.add_message(Role::System, &error_of(&report, &error));
    }

    /// Sends a prompt, or queues it until the current turn ends.
    pub fn prompt(&mut self, text: &str, effects: &mut Effects) -> MessageId {
        let waits = self.state.phase != Phase::Ready || self.state.turn.is_some();
        if !waits {
            // An open message precedes the prompt, so close it first.
            self.close_message(false, effects);
        }
        let message = effects.add_message(Role::User, &user_content(text));
        effects.has_new_state = true;
        let queued = Queued { message, text: text.to_owned() };
        match self.state.agent_session_id.clone().filter(|_| !waits) {
            Some(session) => self.start_turn(session, queued, effects),
            None => self.state.queue.push_back(queued),
        }
        message
    }

    pub(crate) fn next_turn(&mut self, effects: &mut Effects) {
        if self.state.phase != Phase::Ready || self.state.turn.is_some() || self.state.is_ending {
            return;
        }
        let Some(session) = self.state.agent_session_id.clone() else { return };
        let Some(queued) = self.state.queue.pop_front() else { return };
        self.close_message(false, effects);
        // Store the prompt again so that the history shows it here, directly before its answer.
        effects.put(Message::new(queued.message, Role::User, &user_content(&queued.text)));
        self.start_turn(session, queued, effects);
    }

    fn start_turn(&mut self, session: String, queued: Queued, effects: &mut Effects) {
        self.state.tools.clear();
        self.state.terminals.clear();
        self.state.plan = None;
        self.state.has_prompted = true;
        self.state.stop_reason = None;
        let block = ContentBlock::Text(TextContent::new(queued.text));
        self.request(PendingRequest::Prompt, &PromptRequest::new(session, vec![block]), effects);
        self.state.turn = Some(Turn { request: self.state.next_request, is_cancelled: false });
        effects.turns.push(TurnChange::Started);
    }

    /// Cancels the running turn and drops queued prompts. Returns false if no turn is running.
    pub fn cancel_turn(&mut self, effects: &mut Effects) -> bool {
        let Some(turn) = &mut self.state.turn else { return false };
        turn.is_cancelled = true;
        effects.has_new_state = true;
        self.drop_queue(effects);
        self.push_cancel(effects);
        true
    }

    fn drop_queue(&mut self, effects: &mut Effects) {
        let waiting = self.state.queue.len();
        self.state.queue.clear();
        if waiting > 0 {
            let reason = format!("prompts that were not sent: {waiting}");
            effects.add_message(Role::System, &json!({ "type": "cancelled", "reason": reason }));
        }
    }

    /// Prepares the end of the session: cancels the turn and starts no new one. `reason` is added to the history.
    pub fn begin_shutdown(&mut self, reason: Option<&str>, effects: &mut Effects) {
        self.state.is_ending = true;
        effects.has_new_state = true;
        self.drop_queue(effects);
        self.push_cancel(effects);
        if let Some(reason) = reason {
            effects.add_message(Role::System, &json!({ "type": "cancelled", "reason": reason }));
        }
    }

    /// Sends `session/cancel` and withdraws open permission requests.
    fn push_cancel(&mut self, effects: &mut Effects) {
        if let Some(session) = self.state.agent_session_id.clone() {
            effects
                .lines
                .push(wire::notification(AGENT_METHOD_NAMES.session_cancel, &CancelNotification::new(session)));
        }
        // The protocol requires answers to open permission requests before the turn ends.
        self.withdraw_asks(effects);
    }

    pub fn set_mode(&mut self, mode: &str, effects: &mut Effects) -> bool {
        let Some(session) = self.state.agent_session_id.clone() else { return false };
        self.request(
            PendingRequest::SetMode(mode.to_owned()),
            &SetSessionModeRequest::new(session, mode.to_owned()),
            effects,
        );
        true
    }

    pub fn set_config_option(&mut self, option: &str, value: &str, effects: &mut Effects) -> bool {
        let Some(session) = self.state.agent_session_id.clone() else { return false };
        let request = SetSessionConfigOptionRequest::new(session, option.to_owned(), value);
        self.request(PendingRequest::SetConfigOption, &request, effects);
        true
    }

    /// Prevents new turns; output of the agent is still handled.
    pub fn begin_end(&mut self) {
        self.state.is_ending = true;
    }

    /// Ends the session: closes all open messages, tool calls and requests.
    pub fn end(&mut self, effects: &mut Effects) {
        self.close_message(true, effects);
        self.give_up_tools(effects);
        for (id, _) in std::mem::take(&mut self.state.permission_requests) {
            effects.withdrawn.push(id);
        }
        self.state.calls.clear();
        self.drop_queue(effects);
        if self.state.turn.take().is_some() {
            effects.turns.push(TurnChange::Ended { stop_reason: "session_over".to_owned() });
        }
        self.state.phase = Phase::Failed;
        effects.has_new_state = true;
    }

    pub(crate) fn request(&mut self, what: PendingRequest, params: &impl Serialize, effects: &mut Effects) {
        self.state.next_request += 1;
        let id = self.state.next_request;
        effects.lines.push(wire::request(id, what.method(), params));
        self.state.in_flight.insert(id, what);
        effects.has_new_state = true;
    }

    /// Handles the response to one of our requests.
    fn answered(&mut self, id: &str, envelope: &Envelope<'_>, effects: &mut Effects) {
        let known = id.trim_matches('"').parse().ok().and_then(|id: u64| Some((id, self.state.in_flight.remove(&id)?)));
        let Some((id, what)) = known else {
            return effects.warnings.push(format!("a response to an unknown request: {id:.64}"));
        };
        effects.has_new_state = true;
        let result = || match envelope.result {
            Some(result) => serde_json::from_str(result.get()).unwrap_or(Value::Null),
            None => Value::Null,
        };
        let error = envelope.error();
        match (&what, &error) {
            (PendingRequest::Prompt, error) => self.turn_ended(id, result(), error.as_ref(), effects),
            (PendingRequest::Initialize, None) => self.initialized(&result(), effects),
            (PendingRequest::Authenticate, None) => self.authenticated(effects),
            (PendingRequest::NewSession | PendingRequest::LoadSession | PendingRequest::ResumeSession, None) => {
                self.session_opened(&result(), effects)
            }
            (
                PendingRequest::Initialize
                | PendingRequest::Authenticate
                | PendingRequest::NewSession
                | PendingRequest::LoadSession
                | PendingRequest::ResumeSession,
                Some(error),
            ) => self.opening_refused(&what, error, effects),
            (PendingRequest::SetConfigOption, None) => {
                if let Some(options) = result().get("configOptions").filter(|options| !options.is_null()) {
                    self.state.config_options = options.clone();
                }
            }
            (PendingRequest::SetMode(mode), None) => {
                // Not every agent sends an update for a mode that the client set.
                self.set_current_mode(json!(mode));
            }
            (PendingRequest::SetMode(_) | PendingRequest::SetConfigOption, Some(error)) => {
                let report = format!("the agent rejected the change: {}", error.sentence());
                effects.add_message(Role::System, &error_of(&report, error));
            }
        }
    }

    fn turn_ended(&mut self, request: u64, result: Value, error: Option<&RpcError>, effects: &mut Effects) {
        if self.state.turn.is_none_or(|turn| turn.request != request) {
            return;
        }
        let turn = self.state.turn.take();
        self.close_message(false, effects);
        self.give_up_tools(effects);
        self.withdraw_asks(effects);
        let stop_reason = match error {
            Some(_) if turn.is_some_and(|turn| turn.is_cancelled) => "cancelled".to_owned(),
            Some(error) => {
                effects.add_message(Role::System, &error_of(&error.sentence(), error));
                "error".to_owned()
            }
            None => result["stopReason"].as_str().unwrap_or("end_turn").to_owned(),
        };
        if !matches!(stop_reason.as_str(), "end_turn" | "error") {
            effects.add_message(Role::System, &json!({ "type": "turn", "stopReason": stop_reason }));
        }
        if let Some(usage) = result.get("usage").filter(|usage| !usage.is_null()) {
            self.state.usage = usage.clone();
        }
        effects.turns.push(TurnChange::Ended { stop_reason: stop_reason.clone() });
        self.state.stop_reason = Some(stop_reason);
        self.next_turn(effects);
    }

    /// Closes the message that is being written.
    pub(crate) fn close_message(&mut self, is_interrupted: bool, effects: &mut Effects) {
        let Some(Open { id, role, kind, is_replayed, text, .. }) = self.state.open.take() else { return };
        effects.has_new_state = true;
        let mut content = text_content(kind, &text, false, is_replayed);
        if role == Role::User {
            // Messages of a user have no `partial` field.
            content.as_object_mut().expect("text content is an object").remove("partial");
        }
        if is_interrupted {
            content["interrupted"] = Value::Bool(true);
        }
        effects.put(Message::new(id, role, &content));
    }
}

fn user_content(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

pub(crate) fn error_of(message: &str, error: &RpcError) -> Value {
    error_content(message, Map::from_iter([("code".to_owned(), json!(error.code))]))
}
