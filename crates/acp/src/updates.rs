//! Session updates from the agent: each becomes a message or part of the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, SessionUpdate};
use coven_domain::message::{Chunk, Message, Role, TextKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::effects::Effects;
use crate::machine::Machine;
use crate::state::{Open, PendingRequest};
use crate::tool::{TerminalOutput, Tool};
use crate::wire::Envelope;

/// Maximum text of one message. Longer text continues in the next message.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Maximum number of tool calls of a turn that can receive later updates.
const MAX_TOOLS: usize = 512;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    update: &'a RawValue,
}

impl Machine {
    pub(crate) fn notified(&mut self, method: &str, envelope: &Envelope<'_>, effects: &mut Effects) {
        match method {
            "session/update" => {
                let params = envelope.params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
                match params {
                    Some(params) => self.updated(params.update.get(), effects),
                    None => effects.warnings.push("a session/update without an update".to_owned()),
                }
            }
            "$/cancel_request" => {
                let params = envelope.params_value();
                self.withdraw(&params["requestId"], effects);
            }
            // Agents send custom notifications; the log contains them.
            other => effects.warnings.push(format!("an unknown notification: {other:.80}")),
        }
    }

    fn updated(&mut self, raw: &str, effects: &mut Effects) {
        let Ok(update) = serde_json::from_str::<SessionUpdate>(raw) else { return self.keep(raw, effects) };
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => self.spoken(Role::Agent, TextKind::Text, &chunk, raw, effects),
            SessionUpdate::AgentThoughtChunk(chunk) => {
                self.spoken(Role::Agent, TextKind::Thought, &chunk, raw, effects)
            }
            SessionUpdate::UserMessageChunk(chunk) => {
                // Some agents echo each prompt, which is already stored.
                if self.is_replaying() {
                    self.spoken(Role::User, TextKind::Text, &chunk, raw, effects);
                }
            }
            SessionUpdate::ToolCall(_) | SessionUpdate::ToolCallUpdate(_) => {
                let fields: Map<String, Value> = serde_json::from_str(raw).unwrap_or_default();
                self.tool_told(&fields, effects);
            }
            SessionUpdate::Plan(_) => {
                let value: Value = serde_json::from_str(raw).unwrap_or_default();
                self.planned(&value["entries"], effects);
            }
            SessionUpdate::AvailableCommandsUpdate(_) => self.remember(raw, "availableCommands", effects),
            SessionUpdate::CurrentModeUpdate(mode) => {
                self.set_current_mode(json!(mode.current_mode_id));
                effects.has_new_state = true;
            }
            SessionUpdate::ConfigOptionUpdate(_) => self.remember(raw, "configOptions", effects),
            SessionUpdate::SessionInfoUpdate(_) => self.remember(raw, "title", effects),
            SessionUpdate::UsageUpdate(_) => self.remember(raw, "", effects),
            _ => self.keep(raw, effects),
        }
    }

    /// Reports whether updates are replayed history: in a resumed session, everything before the first prompt.
    fn is_replaying(&self) -> bool {
        self.state.opening.resume.is_some() && !self.state.has_prompted
    }

    fn spoken(&mut self, role: Role, kind: TextKind, chunk: &ContentChunk, raw: &str, effects: &mut Effects) {
        let ContentBlock::Text(text) = &chunk.content else {
            // An image, audio or a link becomes a separate message.
            self.close_message(false, effects);
            let value: Value = serde_json::from_str(raw).unwrap_or_default();
            effects.add_message(role, &json!({ "type": "content", "content": value["content"] }));
            return;
        };
        if text.text.is_empty() {
            return;
        }
        let agent_id = chunk.message_id.as_ref().map(ToString::to_string);
        // Replayed prompts are not split: two chunks without an id are two prompts.
        let continues = role != Role::User || agent_id.is_some();
        let continues = continues
            && self.state.open.as_ref().is_some_and(|open| {
                (open.role, open.kind) == (role, kind)
                    && (agent_id.is_none() || open.agent_id == agent_id)
                    && open.text.len() < MAX_TEXT_BYTES
            });
        if !continues {
            self.close_message(false, effects);
            let (id, is_replayed) = (effects.message_id(), self.is_replaying());
            self.state.open = Some(Open { id, role, kind, is_replayed, agent_id, text: Arc::default() });
            effects.has_new_state = true;
        }
        let open = self.state.open.as_mut().expect("opened above");
        Arc::make_mut(&mut open.text).push_str(&text.text);
        let (message_id, is_replayed) = (open.id, open.is_replayed);
        effects.append_chunk(Chunk {
            id: effects.message_id(),
            message_id,
            role,
            kind,
            text: text.text.clone(),
            is_replayed,
        });
    }

    pub(crate) fn tool_told(&mut self, fields: &Map<String, Value>, effects: &mut Effects) {
        let Some(id) = fields.get("toolCallId").and_then(Value::as_str) else {
            return effects.warnings.push("a tool call without an id".to_owned());
        };
        self.close_message(false, effects);
        let is_replayed = self.is_replaying();
        let message = effects.message_id();
        if self.state.tools.len() >= MAX_TOOLS && !self.state.tools.contains_key(id) {
            // A very long turn: drop finished calls, then give up the first open ones.
            self.state.tools.retain(|_, tool| tool.is_open());
            while self.state.tools.len() >= MAX_TOOLS / 2
                && let Some((_, mut tool)) = self.state.tools.pop_first()
            {
                tool.give_up();
                effects.put(tool.message(&self.state.terminals));
            }
        }
        // An update may be the first message about a call.
        let tool = self.state.tools.entry(id.to_owned()).or_insert_with(|| Tool::new(message, is_replayed));
        let is_changed = tool.learn(fields);
        // Some agents run commands in their own terminals and report the output in `_meta`.
        let has_output = fields.get("_meta").is_some_and(|meta| read_terminal_meta(meta, &mut self.state.terminals));
        if is_changed || has_output {
            effects.put(tool.message(&self.state.terminals));
            effects.has_new_state = true;
        }
    }

    /// Stores the output so far of one of the client's own terminals and updates the tool calls that refer to it.
    pub fn terminal_shown(&mut self, terminal: &str, output: &Value, effects: &mut Effects) {
        let mut shown = TerminalOutput::default();
        shown.push(output["output"].as_str().unwrap_or_default());
        shown.is_truncated |= output["truncated"] == true;
        shown.exit_status = output.get("exitStatus").filter(|status| !status.is_null()).cloned();
        self.state.terminals.insert(terminal.to_owned(), shown);
        effects.has_new_state = true;
        for tool in self.state.tools.values() {
            if tool.terminals().any(|id| id == terminal) {
                effects.put(tool.message(&self.state.terminals));
            }
        }
    }

    /// Closes the tool calls that are still open at the end of a turn.
    pub(crate) fn give_up_tools(&mut self, effects: &mut Effects) {
        for tool in self.state.tools.values_mut() {
            if tool.give_up() {
                effects.put(tool.message(&self.state.terminals));
            }
        }
    }

    pub(crate) fn set_current_mode(&mut self, mode: Value) {
        match self.state.modes.as_object_mut() {
            Some(modes) => drop(modes.insert("currentModeId".to_owned(), mode)),
            // The agent sent no valid modes.
            None => self.state.modes = json!({ "currentModeId": mode }),
        }
    }

    fn planned(&mut self, entries: &Value, effects: &mut Effects) {
        self.close_message(false, effects);
        let id = *self.state.plan.get_or_insert_with(|| effects.message_id());
        let mut content = json!({ "type": "plan", "steps": entries });
        if self.is_replaying() {
            content["replayed"] = Value::Bool(true);
        }
        effects.put(Message::new(id, Role::System, &content));
        effects.has_new_state = true;
    }

    /// Stores an update about the session itself, which is not part of the message history.
    fn remember(&mut self, raw: &str, name: &str, effects: &mut Effects) {
        let mut value: Value = serde_json::from_str(raw).unwrap_or_default();
        let field = if name.is_empty() { value.clone() } else { value[name].take() };
        match name {
            "availableCommands" => self.state.commands = field,
            "configOptions" => self.state.config_options = field,
            "title" => self.state.title = field.as_str().map(str::to_owned).or(self.state.title.take()),
            _ => {
                if let Some(usage) = value.as_object_mut() {
                    usage.remove("sessionUpdate");
                }
                self.state.usage = value;
            }
        }
        effects.has_new_state = true;
    }

    /// Adds an update of an unknown kind to the message history unchanged.
    fn keep(&mut self, raw: &str, effects: &mut Effects) {
        let update: Value = serde_json::from_str(raw).unwrap_or_default();
        self.close_message(false, effects);
        effects.add_message(Role::System, &json!({ "type": "update", "update": update }));
    }

    /// Reports whether a request that opens the session is unanswered.
    pub fn waits_to_open(&self) -> bool {
        self.state.in_flight.values().any(|sent| {
            matches!(
                sent,
                PendingRequest::Initialize
                    | PendingRequest::Authenticate
                    | PendingRequest::NewSession
                    | PendingRequest::LoadSession
                    | PendingRequest::ResumeSession
            )
        })
    }
}

/// Reads the output and exit status of the agent's own terminals, which several agents put into `_meta`. Returns
/// whether there were any.
fn read_terminal_meta(meta: &Value, terminals: &mut BTreeMap<String, TerminalOutput>) -> bool {
    let mut is_changed = false;
    for name in ["terminal_output", "terminal_output_delta", "terminal_exit"] {
        let report = &meta[name];
        let Some(id) = report["terminal_id"].as_str() else { continue };
        let shown = terminals.entry(id.to_owned()).or_default();
        is_changed = true;
        match name {
            "terminal_exit" => {
                shown.exit_status = Some(json!({ "exitCode": report["exit_code"], "signal": report["signal"] }));
            }
            _ => shown.push(report["data"].as_str().unwrap_or_default()),
        }
    }
    is_changed
}
