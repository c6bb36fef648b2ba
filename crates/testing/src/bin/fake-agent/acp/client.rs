//! Requests to the client: tool calls, permissions, files and terminals.

use serde_json::{Value, json};

use super::behaviour::Trait;
use super::session::Turn;
use super::wire::Failure;

impl Turn {
    /// Sends a complete tool call: `tool NAME [ARGS JSON]`.
    pub fn tool(&self, rest: &str) {
        let (name, args) = rest.split_once(' ').unwrap_or((rest, "{}"));
        let input: Value = serde_json::from_str(args).unwrap_or_else(|_| json!({ "text": args }));
        let id = self.new_call();
        self.update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": name,
            "kind": "execute",
            "status": "in_progress",
            "rawInput": input,
        }));
        self.update(json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id,
            "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": format!("{name} is done") } }],
            "rawOutput": { "code": 0 },
        }));
    }

    /// Reports a change of a file without making it.
    pub fn diff(&self, path: &str) {
        let id = self.new_call();
        self.update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": format!("edit {path}"),
            "kind": "edit",
            "status": "completed",
            "content": [{ "type": "diff", "path": path, "oldText": "old\n", "newText": "new\n" }],
            "locations": [{ "path": path, "line": 1 }],
        }));
    }

    /// Requests permission with options of these kinds, and sends a message with the choice.
    pub fn permit(&self, kinds: &str, title: &str) {
        let behaviour = &self.agent.behaviour;
        let id = self.new_call();
        let call = json!({
            "toolCallId": id,
            "title": title,
            "kind": "execute",
            "status": "pending",
            "rawInput": { "command": title },
        });
        if !behaviour.has(Trait::PermitWithoutToolCall) {
            let mut update = call.clone();
            update["sessionUpdate"] = json!("tool_call");
            self.update(update);
        }
        let call = if behaviour.has(Trait::PermitBare) { json!({ "toolCallId": id }) } else { call };
        // The ids differ from the kinds, so that a mix-up shows.
        let option =
            |(nth, kind): (usize, &str)| json!({ "optionId": format!("o{nth}-{kind}"), "name": kind, "kind": kind });
        let options: Vec<Value> = kinds.split(',').filter(|kind| !kind.is_empty()).enumerate().map(option).collect();
        let params = json!({ "sessionId": self.session, "toolCall": call, "options": options });
        let chosen = match self.agent.wire.ask("session/request_permission", params) {
            Ok(answer) if answer["outcome"]["outcome"] == "selected" => {
                answer["outcome"]["optionId"].as_str().unwrap_or_default().to_owned()
            }
            Ok(answer) => answer["outcome"]["outcome"].as_str().unwrap_or("nothing").to_owned(),
            Err(Failure { code, message }) => format!("error {code} {message}"),
        };
        let is_allowed = chosen.contains("allow");
        // Like some agents: a tool call that was not sent before is not sent after a refusal either.
        if is_allowed || !behaviour.has(Trait::PermitWithoutToolCall) {
            let status = if is_allowed { "completed" } else { "failed" };
            self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status }));
        }
        self.send_text(&format!("chose:{chosen}"));
    }

    pub fn read(&self, path: &str) {
        let answer = self.ask("fs/read_text_file", json!({ "path": path }));
        self.send_result("read", answer.map(|it| it["content"].as_str().unwrap_or_default().to_owned()));
    }

    /// `write PATH TEXT`.
    pub fn write(&self, rest: &str) {
        let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let answer = self.ask("fs/write_text_file", json!({ "path": path, "content": text }));
        self.send_result("wrote", answer.map(|_| path.to_owned()));
    }

    /// Runs a command in a terminal of the client until it exits.
    pub fn terminal(&self, words: Vec<String>, is_killed: bool) {
        self.send_result("terminal", self.try_terminal(&words, is_killed));
    }

    fn try_terminal(&self, words: &[String], is_killed: bool) -> Result<String, Failure> {
        let (program, args) = words.split_first().ok_or_else(|| Failure::invalid_params("no command"))?;
        let made = self.ask("terminal/create", json!({ "command": program, "args": args }))?;
        let terminal = json!({ "terminalId": made["terminalId"] });
        let id = self.new_call();
        self.update(json!({
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "title": words.join(" "),
            "kind": "execute",
            "status": "in_progress",
            "content": [{ "type": "terminal", "terminalId": made["terminalId"] }],
        }));
        if is_killed {
            self.ask("terminal/kill", terminal.clone())?;
        }
        let exit = self.ask("terminal/wait_for_exit", terminal.clone())?;
        let shown = self.ask("terminal/output", terminal.clone())?;
        self.ask("terminal/release", terminal)?;
        self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" }));
        let output = shown["output"].as_str().unwrap_or_default();
        Ok(format!("exit={} signal={} output={output:?}", exit["exitCode"], exit["signal"]))
    }

    pub fn ask(&self, method: &str, mut params: Value) -> Result<Value, Failure> {
        params["sessionId"] = json!(self.session);
        self.agent.wire.ask(method, params)
    }

    pub fn send_result(&self, what: &str, result: Result<String, Failure>) {
        match result {
            Ok(text) => self.send_text(&format!("{what}:{text}")),
            Err(Failure { code, message }) => self.send_text(&format!("{what} error {code}: {message}")),
        }
    }

    fn new_call(&self) -> String {
        format!("call-{}", uuid::Uuid::new_v4())
    }
}
