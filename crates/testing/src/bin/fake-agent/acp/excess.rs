//! What no agent should do: far too much of it, all at once.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

use serde_json::{Value, json};

use super::session::Turn;
use super::wire::{Failure, outcome};

impl Turn {
    /// `terminals N COMMAND…`: asks for all of them before it waits for any; says how many it got.
    pub fn terminals(&self, rest: &str) {
        let (count, words) = counted(rest);
        let (program, args) = words.split_once(' ').unwrap_or((words, ""));
        let args: Vec<&str> = args.split_whitespace().collect();
        let params = json!({ "command": program, "args": args });
        self.tell_answers("opened", &self.ask_many(count, "terminal/create", &params), |_| String::new());
    }

    /// `waits N SCRIPT`: a shell in a terminal, and N that wait for its end; says what they heard.
    pub fn waits(&self, rest: &str) {
        let (count, script) = counted(rest);
        let made = self.ask("terminal/create", json!({ "command": "/bin/sh", "args": ["-c", script] }));
        let terminal = match made {
            Ok(made) => json!({ "terminalId": made["terminalId"] }),
            Err(failure) => return self.tell("waited", Err(failure)),
        };
        let answers = self.ask_many(count, "terminal/wait_for_exit", &terminal);
        self.say("waiting ");
        self.tell_answers("waited", &answers, |exit| format!("{}/{}", exit["exitCode"], exit["signal"]));
    }

    /// `released COMMAND…`: what becomes of a terminal's id once it was let go.
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
                    self.tell(method, answer.map(|it| it.to_string()));
                    self.say(" ");
                }
            }
            Err(failure) => self.tell("released", Err(failure)),
        }
    }

    /// `shown LIMIT SCRIPT`: runs a shell script in a terminal to its end; says how much of its output came back.
    pub fn shown(&self, rest: &str) {
        let (limit, script) = counted(rest);
        let params = json!({ "command": "/bin/sh", "args": ["-c", script], "outputByteLimit": limit });
        let shown = self.ask("terminal/create", params).and_then(|made| {
            let terminal = json!({ "terminalId": made["terminalId"] });
            self.ask("terminal/wait_for_exit", terminal.clone())?;
            self.ask("terminal/output", terminal)
        });
        let brief = |it: Value| format!("{} {}", it["output"].as_str().unwrap_or_default().len(), it["truncated"]);
        self.tell("shown", shown.map(brief));
    }

    /// `reads N PATH`: asks for the file so often before it waits for an answer.
    pub fn reads(&self, rest: &str) {
        let (count, path) = counted(rest);
        let answers = self.ask_many(count, "fs/read_text_file", &json!({ "path": path }));
        self.say("asked ");
        let length = |it: &Value| it["content"].as_str().map_or_else(String::new, |text| text.len().to_string());
        self.tell_answers("read", &answers, length);
    }

    /// Calls `tool-0` and on that have begun, each with so much to show.
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

    /// They are done; that is all there is to say.
    pub fn tools_done(&self, count: u64) {
        for nth in 0..count {
            let id = format!("tool-{nth}");
            let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed" });
            self.agent.wire.update_soon(&self.session, update);
        }
        self.agent.wire.flush();
    }

    /// Between its first and its last words, so many bytes.
    pub fn stderr_flood(&self, bytes: u64) {
        let mut stderr = io::stderr().lock();
        let line = [b'e'; 1 << 10];
        let _ = stderr.write_all(b"first words\n");
        for _ in 0..bytes / line.len() as u64 {
            let _ = stderr.write_all(&line);
        }
        let _ = stderr.write_all(b"\nlast words\n");
    }

    fn ask_many(&self, count: usize, method: &str, params: &Value) -> Vec<Receiver<Value>> {
        let mut params = params.clone();
        params["sessionId"] = json!(self.session);
        (0..count).map(|_| self.agent.wire.begin(method, params.clone())).collect()
    }

    /// How often each answer came, as JSON.
    fn tell_answers(&self, what: &str, answers: &[Receiver<Value>], brief: impl Fn(&Value) -> String) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for answer in answers {
            let key = match outcome(answer) {
                Ok(answer) => format!("ok {}", brief(&answer)),
                Err(Failure { code, message }) => format!("error {code} {message}"),
            };
            *seen.entry(key).or_default() += 1;
        }
        self.say(&format!("{what}:{}", json!(seen)));
    }
}

/// A number and what stands behind it.
fn counted(rest: &str) -> (usize, &str) {
    let (count, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    (count.parse().unwrap_or(1), rest)
}
