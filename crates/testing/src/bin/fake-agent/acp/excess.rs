//! Excessive requests that no agent should send.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::session::Turn;
use super::wire::{Failure, outcome};

impl Turn {
    /// `terminals N COMMAND…`: requests all terminals before it waits for any, and reports how many were opened.
    pub fn terminals(&self, rest: &str) {
        let (count, words) = counted(rest);
        let (program, args) = words.split_once(' ').unwrap_or((words, ""));
        let args: Vec<&str> = args.split_whitespace().collect();
        let params = json!({ "command": program, "args": args });
        self.send_summary("opened", &self.ask_many(count, "terminal/create", &params), |_| String::new());
    }

    /// `waits N SCRIPT`: runs a shell in a terminal, sends N requests that wait for its exit, and reports the responses.
    pub fn waits(&self, rest: &str) {
        let (count, script) = counted(rest);
        let made = self.ask("terminal/create", json!({ "command": "/bin/sh", "args": ["-c", script] }));
        let terminal = match made {
            Ok(made) => json!({ "terminalId": made["terminalId"] }),
            Err(failure) => return self.send_result("waited", Err(failure)),
        };
        let answers = self.ask_many(count, "terminal/wait_for_exit", &terminal);
        self.send_text("waiting ");
        self.send_summary("waited", &answers, |exit| format!("{}/{}", exit["exitCode"], exit["signal"]));
    }

    /// `released COMMAND…`: releases a terminal and reports the responses to later requests with its id.
    pub fn released(&self, rest: &str) {
        let (program, args) = rest.split_once(' ').unwrap_or((rest, ""));
        let args: Vec<&str> = args.split_whitespace().collect();
        let asked = self.ask("terminal/create", json!({ "command": program, "args": args })).and_then(|made| {
            let terminal = json!({ "terminalId": made["terminalId"] });
            self.ask("terminal/release", terminal.clone())?;
            Ok(terminal)
        });
        match asked {
            Ok(terminal) => {
                for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
                    let answer = self.ask(method, terminal.clone());
                    self.send_result(method, answer.map(|it| it.to_string()));
                    self.send_text(" ");
                }
            }
            Err(failure) => self.send_result("released", Err(failure)),
        }
    }

    /// `shown LIMIT SCRIPT`: runs a shell script in a terminal and reports how much of its output was returned.
    pub fn shown(&self, rest: &str) {
        let (limit, script) = counted(rest);
        let params = json!({ "command": "/bin/sh", "args": ["-c", script], "outputByteLimit": limit });
        let shown = self.ask("terminal/create", params).and_then(|made| {
            let terminal = json!({ "terminalId": made["terminalId"] });
            self.ask("terminal/wait_for_exit", terminal.clone())?;
            self.ask("terminal/output", terminal)
        });
        let brief = |it: Value| format!("{} {}", it["output"].as_str().unwrap_or_default().len(), it["truncated"]);
        self.send_result("shown", shown.map(brief));
    }

    /// `reads N PATH`: requests the file N times before it waits for a response.
    pub fn reads(&self, rest: &str) {
        let (count, path) = counted(rest);
        let answers = self.ask_many(count, "fs/read_text_file", &json!({ "path": path }));
        self.send_text("asked ");
        let length = |it: &Value| it["content"].as_str().map_or_else(String::new, |text| text.len().to_string());
        self.send_summary("read", &answers, length);
    }

    /// Starts the tool calls `tool-0`, `tool-1` and so on, each with this many bytes of content.
    pub fn tools(&self, count: u64, bytes: u64) {
        let text = "y".repeat(usize::try_from(bytes).unwrap_or(0));
        for nth in 0..count {
            let call = json!({
                "sessionUpdate": "tool_call",
                "toolCallId": format!("tool-{nth}"),
                "title": format!("edit {nth}"),
                "kind": "edit",
                "status": "in_progress",
                "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
            });
            self.agent.wire.update_soon(&self.session, call);
        }
        self.agent.wire.flush();
    }

    /// Completes these tool calls without sending their content again.
    pub fn tools_done(&self, count: u64) {
        for nth in 0..count {
            let id = format!("tool-{nth}");
            let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" });
            self.agent.wire.update_soon(&self.session, update);
        }
        self.agent.wire.flush();
    }

    /// Writes this many bytes to stderr, between a first and a last line.
    pub fn stderr_flood(&self, bytes: u64) {
        let mut stderr = io::stderr().lock();
        let line = [b'e'; 1 << 10];
        let _ = stderr.write_all(b"first line\n");
        for _ in 0..bytes / line.len() as u64 {
            let _ = stderr.write_all(&line);
        }
        let _ = stderr.write_all(b"\nlast line\n");
    }

    fn ask_many(&self, count: usize, method: &str, params: &Value) -> Vec<Receiver<Value>> {
        let mut params = params.clone();
        params["sessionId"] = json!(self.session);
        (0..count).map(|_| self.agent.wire.start_request(method, params.clone())).collect()
    }

    /// Reports each response and how often it came, as JSON.
    fn send_summary(&self, what: &str, answers: &[Receiver<Value>], brief: impl Fn(&Value) -> String) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for answer in answers {
            let key = match outcome(answer) {
                Ok(answer) => format!("ok {}", brief(&answer)),
                Err(Failure { code, message }) => format!("error {code} {message}"),
            };
            *seen.entry(key).or_default() += 1;
        }
        self.send_text(&format!("{what}:{}", json!(seen)));
    }
}

/// Splits a text into a leading number and the rest.
fn counted(rest: &str) -> (usize, &str) {
    let (count, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    (count.parse().unwrap_or(1), rest)
}
