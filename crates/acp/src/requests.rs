//! Requests from the agent: permission, files and terminals.

use agent_client_protocol_schema::v1::{
    AgentRequest, CLIENT_METHOD_NAMES, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome,
};
use coven_domain::RequestId;
use coven_domain::request::PermissionOption;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::call::{Call, CallKind};
use crate::effects::{Effects, PermissionRequest};
use crate::machine::Machine;
use crate::wire::{self, Envelope, RpcError};

/// Maximum number of requests of an agent that may be unanswered.
const MAX_CALLS: usize = 1000;
/// Maximum number of requests that may wait for a human.
const MAX_ASKS: usize = 100;
/// The option that permits a call.
const ALLOW: &str = "allow";

/// Parses a request by its method. The schema's own enum distinguishes requests by their fields, which is ambiguous.
fn request(method: &str, params: &Value) -> Result<AgentRequest, RpcError> {
    let names = &CLIENT_METHOD_NAMES;
    let parsed = if method == names.session_request_permission {
        parse(params).map(AgentRequest::RequestPermissionRequest)
    } else if method == names.fs_read_text_file {
        parse(params).map(AgentRequest::ReadTextFileRequest)
    } else if method == names.fs_write_text_file {
        parse(params).map(AgentRequest::WriteTextFileRequest)
    } else if method == names.terminal_create {
        parse(params).map(AgentRequest::CreateTerminalRequest)
    } else if method == names.terminal_output {
        parse(params).map(AgentRequest::TerminalOutputRequest)
    } else if method == names.terminal_wait_for_exit {
        parse(params).map(AgentRequest::WaitForTerminalExitRequest)
    } else if method == names.terminal_kill {
        parse(params).map(AgentRequest::KillTerminalRequest)
    } else if method == names.terminal_release {
        parse(params).map(AgentRequest::ReleaseTerminalRequest)
    } else {
        return Err(RpcError::method_not_found(method));
    };
    parsed.map_err(|error| RpcError::invalid_params(format!("{method}: {error}")))
}

fn parse<T: DeserializeOwned>(params: &Value) -> serde_json::Result<T> {
    T::deserialize(params)
}

impl Machine {
    pub(crate) fn asked(&mut self, method: &str, id: Value, envelope: &Envelope<'_>, effects: &mut Effects) {
        let params = envelope.params_value();
        let request = match request(method, &params) {
            Ok(request) => request,
            Err(error) => return effects.lines.push(wire::answer(&id, Err(error))),
        };
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let kind = match request {
            AgentRequest::RequestPermissionRequest(request) => return self.ask(id, &request, &params, effects),
            AgentRequest::ReadTextFileRequest(it) => {
                CallKind::Read { path: path(&it.path), line: it.line, limit: it.limit }
            }
            AgentRequest::WriteTextFileRequest(it) => CallKind::Write { path: path(&it.path), content: it.content },
            AgentRequest::CreateTerminalRequest(it) => {
                self.state.next_terminal += 1;
                CallKind::CreateTerminal {
                    terminal: format!("t{}", self.state.next_terminal),
                    command: it.command,
                    args: it.args,
                    env: it.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
                    cwd: it.cwd.as_deref().map(path),
                    output_limit: it.output_byte_limit,
                }
            }
            AgentRequest::TerminalOutputRequest(it) => {
                CallKind::TerminalOutput { terminal: it.terminal_id.to_string() }
            }
            AgentRequest::WaitForTerminalExitRequest(it) => {
                CallKind::WaitForExit { terminal: it.terminal_id.to_string() }
            }
            AgentRequest::KillTerminalRequest(it) => CallKind::KillTerminal { terminal: it.terminal_id.to_string() },
            AgentRequest::ReleaseTerminalRequest(it) => {
                CallKind::ReleaseTerminal { terminal: it.terminal_id.to_string() }
            }
            _ => return effects.lines.push(wire::answer(&id, Err(RpcError::method_not_found(method)))),
        };
        if self.state.calls.len() >= MAX_CALLS {
            let error = RpcError::internal("too many requests are pending; wait for their responses first");
            return effects.lines.push(wire::answer(&id, Err(error)));
        }
        let call = Call { id, kind, is_permitted: false };
        self.state.calls.push(call.clone());
        effects.calls.push(call);
        effects.has_new_state = true;
    }

    fn ask(&mut self, id: Value, request: &RequestPermissionRequest, params: &Value, effects: &mut Effects) {
        if self.state.permission_requests.len() >= MAX_ASKS {
            let cancelled = RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled);
            effects.warnings.push("too many pending permission requests".to_owned());
            return effects.lines.push(wire::answer(&id, Ok(json!(cancelled))));
        }
        let fields: Map<String, Value> = params["toolCall"].as_object().cloned().unwrap_or_default();
        // Some agents describe the call only here; others have described it before and send only its id.
        self.tool_told(&fields, effects);
        let tool = self.state.tools.get(&request.tool_call.tool_call_id.to_string());
        let (title, tool_call) = match tool {
            Some(tool) => (tool.question(), tool.whole()),
            None => ("a tool call".to_owned(), Value::Object(fields)),
        };
        let options = request
            .options
            .iter()
            .map(|option| PermissionOption {
                id: option.option_id.to_string(),
                name: option.name.clone(),
                kind: json!(option.kind).as_str().unwrap_or("other").to_owned(),
            })
            .collect();
        let ask = PermissionRequest { id: effects.permission_id(), title, options, tool_call };
        self.state.permission_requests.insert(ask.id, id);
        effects.permission_requests.push(ask);
        effects.has_new_state = true;
    }

    /// Asks a human before a call is executed. The answer goes to `decide`, which then returns the call for execution
    /// or rejects it.
    pub fn ask_before(&mut self, call: &Call, title: &str, tool_call: Value, effects: &mut Effects) {
        if self.state.permission_requests.len() >= MAX_ASKS {
            effects.warnings.push("too many pending permission requests".to_owned());
            return self.reply(call, Err(RpcError::internal("too many permission requests are pending")), effects);
        }
        let option = |id: &str, name: &str, kind: &str| PermissionOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: kind.to_owned(),
        };
        let options = vec![option(ALLOW, "Allow once", "allow_once"), option("reject", "Reject", "reject_once")];
        let ask = PermissionRequest { id: effects.permission_id(), title: title.to_owned(), options, tool_call };
        self.state.permission_requests.insert(ask.id, call.id.clone());
        effects.permission_requests.push(ask);
        effects.has_new_state = true;
    }

    /// Sends the decision of a human or a rule to the agent. Returns false if the request has been closed.
    pub fn decide(&mut self, permission: RequestId, option: Option<&str>, effects: &mut Effects) -> bool {
        let Some(id) = self.state.permission_requests.remove(&permission) else { return false };
        effects.has_new_state = true;
        if let Some(call) = self.state.calls.iter_mut().find(|call| call.id == id) {
            if option == Some(ALLOW) {
                call.is_permitted = true;
                effects.calls.push(call.clone());
            } else {
                let call = call.clone();
                self.reply(&call, Err(RpcError::new(-32000, "the user did not permit this call")), effects);
            }
            return true;
        }
        let outcome = match option {
            Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned())),
            None => RequestPermissionOutcome::Cancelled,
        };
        effects.lines.push(wire::answer(&id, Ok(json!(RequestPermissionResponse::new(outcome)))));
        true
    }

    pub(crate) fn withdraw_asks(&mut self, effects: &mut Effects) {
        for permission in self.state.permission_requests.keys().copied().collect::<Vec<_>>() {
            self.decide(permission, None, effects);
            effects.withdrawn.push(permission);
        }
    }

    /// Handles `$/cancel_request`, with which the agent withdraws a permission request.
    pub(crate) fn withdraw(&mut self, request: &Value, effects: &mut Effects) {
        let found =
            self.state.permission_requests.iter().find(|(_, id)| *id == request).map(|(permission, _)| *permission);
        if let Some(permission) = found {
            self.state.permission_requests.remove(&permission);
            self.state.calls.retain(|call| call.id != *request);
            effects.withdrawn.push(permission);
            effects.lines.push(wire::answer(request, Err(RpcError::new(-32800, "the request was cancelled"))));
            effects.has_new_state = true;
        }
    }

    /// Sends the result of a call to the agent.
    pub fn reply(&mut self, call: &Call, outcome: Result<Value, RpcError>, effects: &mut Effects) {
        let before = self.state.calls.len();
        self.state.calls.retain(|known| known.id != call.id);
        if self.state.calls.len() < before {
            effects.lines.push(wire::answer(&call.id, outcome));
            effects.has_new_state = true;
        }
    }

    /// Returns the unanswered calls that a restarted daemon must execute. Calls that wait for a human are left out,
    /// because `decide` returns them.
    pub fn open_calls(&self) -> Vec<Call> {
        let waits = |call: &&Call| self.state.permission_requests.values().any(|id| *id == call.id);
        self.state.calls.iter().filter(|call| !waits(call)).cloned().collect()
    }
}
