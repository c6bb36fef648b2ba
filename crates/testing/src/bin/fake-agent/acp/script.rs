//! Turns: runs the commands in the prompt one after the other, and answers the prompt.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::behaviour::Trait;
use super::session::Turn;

/// The response to a prompt, and whether an update follows it.
struct TurnOutcome {
    stop_reason: String,
    error: Option<Value>,
    late: bool,
}

pub fn run(turn: &Turn, id: &Value) {
    let outcome = turn.run_commands();
    let stop_reason = match turn.cancel.is_set() {
        true if turn.agent.behaviour.has(Trait::EndTurnAfterCancel) => "end_turn".to_owned(),
        true => "cancelled".to_owned(),
        false => outcome.stop_reason,
    };
    // The next prompt may come as soon as the response is sent.
    turn.agent.close_turn(&turn.session);
    match outcome.error {
        Some(error) => turn.agent.wire.fail(id, &error),
        None => turn.agent.wire.answer(id, Ok(json!({ "stopReason": stop_reason }))),
    }
    if outcome.late {
        turn.update(chunk("agent_message_chunk", "late"));
    }
}

pub fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn commands(text: &str) -> impl Iterator<Item = &str> {
    text.split(";;").map(str::trim).filter(|command| !command.is_empty())
}

/// `deaf PATH`: the agent reads no input until the file exists.
pub fn deafness(text: &str) -> Option<PathBuf> {
    commands(text).find_map(|command| command.strip_prefix("deaf ")).map(PathBuf::from)
}

impl Turn {
    fn run_commands(&self) -> TurnOutcome {
        let mut outcome = TurnOutcome { stop_reason: "end_turn".to_owned(), error: None, late: false };
        self.agent.memory.remember(&self.session, &chunk("user_message_chunk", &self.text));
        if self.agent.behaviour.has(Trait::EchoPrompt) {
            self.agent.wire.update(&self.session, chunk("user_message_chunk", &self.text));
        }
        for command in commands(&self.text) {
            let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
            // `hang_forever` ignores the cancellation even if it came earlier.
            if (self.cancel.is_set() && verb != "hang_forever") || outcome.error.is_some() {
                break;
            }
            match verb {
                "stop" => outcome.stop_reason = rest.to_owned(),
                "late_update" => outcome.late = true,
                "error" => {
                    let (code, message) = rest.split_once(' ').unwrap_or((rest, "internal error"));
                    outcome.error = Some(json!({ "code": code.parse().unwrap_or(-32603), "message": message }));
                }
                // Any JSON value, or else a string, in place of the error object.
                "error_odd" => outcome.error = Some(serde_json::from_str(rest).unwrap_or_else(|_| json!(rest))),
                _ => self.run_command(verb, rest, command),
            }
        }
        outcome
    }

    fn run_command(&self, verb: &str, rest: &str, command: &str) {
        let numbers: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let first = numbers.first().copied().unwrap_or(1);
        match verb {
            "say" => self.send_text(rest),
            "think" => self.update(chunk("agent_thought_chunk", rest)),
            "chunks" => self.chunks(first, rest.split_once(' ').map(|(_, text)| text)),
            "pace" => self.pace(first, numbers.get(1).copied().unwrap_or(100)),
            "big" => self.send_text(&"x".repeat(usize::try_from(first).unwrap_or(0))),
            "plan" => self.plan(rest),
            "tool" => self.tool(rest),
            "diff" => self.diff(rest),
            "permit" => self.permit("allow_always,allow_once,reject_once", rest),
            "permit_of" => {
                let (kinds, title) = rest.split_once(' ').unwrap_or((rest, "something"));
                self.permit(kinds, title);
            }
            "read" => self.read(rest),
            "write" => self.write(rest),
            "terminal" => self.terminal(rest.split_whitespace().map(str::to_owned).collect(), false),
            "shell" => self.terminal(vec!["/bin/sh".into(), "-c".into(), rest.into()], false),
            "terminal_kill" => self.terminal(rest.split_whitespace().map(str::to_owned).collect(), true),
            "usage" => self.update(json!({ "sessionUpdate": "usage_update", "used": first, "size": 200_000 })),
            "mode" => {
                self.agent.mode_changed(&self.session, rest);
                self.update(json!({ "sessionUpdate": "current_mode_update", "currentModeId": rest }));
            }
            "title" => self.update(json!({ "sessionUpdate": "session_info_update", "title": rest })),
            "commands" => {
                let named = |name: &str| json!({ "name": name, "description": format!("does {name}") });
                let commands: Vec<Value> = rest.split(',').map(named).collect();
                self.update(json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands }));
            }
            "settings" => {
                let (cwd, mode, model) = self.agent.settings(&self.session);
                self.send_text(&format!("cwd={cwd} mode={mode} model={model}"));
            }
            "client" => self.send_text(&self.agent.client().to_string()),
            "auth" => self.send_text(&format!("auth={}", self.agent.auth().as_deref().unwrap_or("none"))),
            "args" => self.send_text(&format!("{:?}", std::env::args().skip(1).collect::<Vec<_>>())),
            "cwd" => {
                let here = std::env::current_dir().unwrap_or_default();
                self.send_text(&format!("cwd={}", here.display()));
            }
            "pid" => self.send_text(&format!("pid={}", std::process::id())),
            "env" => self.send_text(&match std::env::var(rest) {
                Ok(value) => format!("{rest}={value}"),
                Err(_) => format!("{rest} unset"),
            }),
            "until" => self.until(Path::new(rest)),
            "touch" => drop(std::fs::write(rest, "")),
            "hang" => self.cancel.wait(),
            "fork_child" => self.fork_child(rest == "holding"),
            // The reading thread has done it when the prompt arrived.
            "deaf" => {}
            "terminals" => self.terminals(rest),
            "waits" => self.waits(rest),
            "shown" => self.shown(rest),
            "released" => self.released(rest),
            "reads" => self.reads(rest),
            "tools" => self.tools(first, numbers.get(1).copied().unwrap_or(0)),
            "tools_done" => self.tools_done(first),
            "stderr_flood" => self.stderr_flood(first),
            _ => self.misbehave(verb, rest, command),
        }
    }

    fn misbehave(&self, verb: &str, rest: &str, command: &str) {
        let wire = &self.agent.wire;
        match verb {
            "hang_forever" => loop {
                std::thread::park();
            },
            "crash" => super::end(rest.parse().unwrap_or(1), "fake-agent: panic in the middle of it\n"),
            "exit_mid" => super::end(0, ""),
            "torn" => {
                wire.raw(br#"{"jsonrpc":"2.0","method":"session/upd"#);
                super::end(1, "");
            }
            "stderr" => eprintln!("{rest}"),
            "invalid_json" => wire.raw(b"{\"jsonrpc\": \"2.0\", \"method\": \n"),
            "invalid_utf8" => wire.raw(b"\xff\xfe not text \xc3\n"),
            "not_an_object" => wire.raw(b"[1,2,3]\n42\nnull\n\"text\"\n\n"),
            "wrong_id" => {
                wire.send(&json!({ "jsonrpc": "2.0", "id": 987_654, "result": { "stopReason": "end_turn" } }))
            }
            "unknown_update" => self.update(json!({ "sessionUpdate": "weather_report", "sky": "clear" })),
            "orphan_update" => self.update(
                json!({ "sessionUpdate": "tool_call_update", "toolCallId": "never-seen", "status": "completed" }),
            ),
            "unknown_request" => {
                let answer = wire.ask("craft/drainMidTurnQueue", json!({ "sessionId": self.session }));
                self.send_text(
                    &answer.map_or_else(|failure| format!("code={}", failure.code), |it| format!("got {it}")),
                );
            }
            "ext_notification" => wire.notify("_auth/status_update", json!({ "status": "ok" })),
            // Any other prompt gets a text message, as from a real agent.
            _ => self.send_text(&format!("prompt:{command}")),
        }
    }

    /// Sends an update and stores it in the transcript.
    pub fn update(&self, update: Value) {
        self.agent.memory.remember(&self.session, &update);
        self.agent.wire.update(&self.session, update);
    }

    pub fn send_text(&self, text: &str) {
        self.update(chunk("agent_message_chunk", text));
    }

    /// Sends chunks as fast as the pipe accepts them, and stores them as one update.
    fn chunks(&self, count: u64, text: Option<&str>) {
        let mut whole = String::new();
        for number in 0..count {
            if self.cancel.is_set() {
                break;
            }
            let piece = text.map_or_else(|| format!("{number} "), str::to_owned);
            self.agent.wire.update_soon(&self.session, chunk("agent_message_chunk", &piece));
            whole.push_str(&piece);
        }
        self.agent.wire.flush();
        self.agent.memory.remember(&self.session, &chunk("agent_message_chunk", &whole));
    }

    fn pace(&self, count: u64, per_second: u64) {
        let (started, mut whole) = (Instant::now(), String::new());
        for number in 0..count {
            let due = Duration::from_secs_f64(number as f64 / per_second.max(1) as f64);
            while let Some(left) = due.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) {
                std::thread::park_timeout(left);
            }
            if self.cancel.is_set() {
                break;
            }
            let piece = format!("{number} ");
            self.agent.wire.update(&self.session, chunk("agent_message_chunk", &piece));
            whole.push_str(&piece);
        }
        self.agent.memory.remember(&self.session, &chunk("agent_message_chunk", &whole));
    }

    /// Sends a plan whose first step is in progress.
    fn plan(&self, rest: &str) {
        let entry = |(nth, content): (usize, &str)| {
            let status = if nth == 0 { "in_progress" } else { "pending" };
            json!({ "content": content, "priority": "medium", "status": status })
        };
        let entries: Vec<Value> = rest.split(',').map(str::trim).enumerate().map(entry).collect();
        self.update(json!({ "sessionUpdate": "plan", "entries": entries }));
    }

    fn until(&self, path: &Path) {
        while !path.exists() && !self.cancel.is_set() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Starts a hanging child in the same process group; `holding` keeps the pipes open too.
    fn fork_child(&self, is_holding: bool) {
        let Ok(this) = std::env::current_exe() else { return self.send_text("no child") };
        let mut command = Command::new(this);
        command.args(["--", "hang"]).stdin(Stdio::null());
        if !is_holding {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        match command.spawn() {
            Ok(child) => self.send_text(&format!("child={}", child.id())),
            Err(error) => self.send_text(&format!("no child: {error}")),
        }
    }
}
