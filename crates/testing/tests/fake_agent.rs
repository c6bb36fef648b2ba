//! The scripted agent itself: a real process and real pipes, with a minimal client.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use coven_testing::{eventually, program};
use serde_json::{Value, json};

/// A client that sends and receives lines.
struct Wire {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
    home: tempfile::TempDir,
}

impl Wire {
    fn new(env: &[(&str, &str)]) -> Self {
        Self::in_home(tempfile::tempdir().expect("a folder"), env)
    }

    fn in_home(home: tempfile::TempDir, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program::fake_agent());
        command.arg("--acp").env_clear().env("FAKE_AGENT_HOME", home.path()).envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("agent starts");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Self { child, input, output: BufReader::new(output), asked: 0, home }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("agent reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line
    }

    /// Returns the next message.
    #[track_caller]
    fn next(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }));
        self.asked
    }

    /// Sends a request; returns the messages before the response, and the response.
    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.ask(method, params);
        self.until_answer(id)
    }

    #[track_caller]
    fn until_answer(&mut self, id: u64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            match message["id"] == id && message.get("method").is_none() {
                true => return (before, message),
                false => before.push(message),
            }
        }
    }

    #[track_caller]
    fn open(&mut self) -> String {
        let (_, hello) = self.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        assert_eq!(hello["result"]["protocolVersion"], 1);
        let (_, answer) = self.call("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        answer["result"]["sessionId"].as_str().expect("an id").to_owned()
    }

    fn start_turn(&mut self, session: &str, text: &str) -> u64 {
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }))
    }

    /// Runs a turn; returns its updates and the response.
    #[track_caller]
    fn turn(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        let id = self.start_turn(session, text);
        let (before, answer) = self.until_answer(id);
        (before.into_iter().map(|it| it["params"]["update"].clone()).collect(), answer)
    }

    fn end(mut self) -> (Option<i32>, tempfile::TempDir) {
        self.input = None;
        let code = eventually("the agent exits", || self.child.try_wait().expect("child process")).code();
        (code, std::mem::replace(&mut self.home, tempfile::tempdir().expect("a folder")))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn texts(updates: &[Value]) -> String {
    updates.iter().filter_map(|it| it["content"]["text"].as_str()).collect()
}

fn text_chunk(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

#[test]
fn the_agent_introduces_itself_and_runs_the_commands_of_a_prompt() {
    let mut wire = Wire::new(&[]);
    let (_, hello) = wire.call("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(hello["result"]["agentCapabilities"]["loadSession"], true);
    assert_eq!(hello["result"]["agentInfo"]["name"], "fake-agent");
    let session = wire.open();

    let (updates, answer) = wire.turn(&session, "say one;; chunks 3 ;; think hm ;; stop refusal");

    let thought = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } });
    assert_eq!(updates, [text_chunk("one"), text_chunk("0 "), text_chunk("1 "), text_chunk("2 "), thought]);
    assert_eq!(answer["result"], json!({ "stopReason": "refusal" }));
    let (updates, answer) = wire.turn(&session, "what now?");
    assert_eq!((texts(&updates).as_str(), &answer["result"]["stopReason"]), ("prompt:what now?", &json!("end_turn")));
    let (_, answer) = wire.turn(&session, "error 400 the model is not there ;; say never");
    assert_eq!(answer["error"], json!({ "code": 400, "message": "the model is not there" }));
    let (_, answer) = wire.call("session/nonsense", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(wire.end().0, Some(0));
}

#[test]
fn a_turn_that_hangs_ends_when_it_is_cancelled() {
    for (behaviour, reason) in [("", "cancelled"), ("end_turn_after_cancel", "end_turn")] {
        let mut wire = Wire::new(&[("FAKE_ACP", behaviour)]);
        let session = wire.open();
        let turn = wire.start_turn(&session, "say here ;; hang ;; say never");
        assert_eq!(wire.next()["params"]["update"], text_chunk("here"));
        let (_, second) = wire.call("session/prompt", json!({ "sessionId": session, "prompt": [] }));
        assert_eq!(second["error"]["code"], -32600, "one turn at a time");

        wire.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));

        assert_eq!(wire.until_answer(turn).1["result"]["stopReason"], reason);
        // The cancellation is ignored, and the prompt is never answered.
        wire.start_turn(&session, "hang_forever");
        wire.send(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
        let (_, second) = wire.call("session/prompt", json!({ "sessionId": session, "prompt": [] }));
        assert_eq!(second["error"]["code"], -32600);
    }
}

#[test]
fn the_agent_requests_permission_and_reports_the_choice() {
    for (behaviour, has_call, has_title) in
        [("", true, true), ("permit_without_tool_call", false, true), ("permit_bare,string_ids", true, false)]
    {
        let mut wire = Wire::new(&[("FAKE_ACP", behaviour)]);
        let session = wire.open();
        let turn = wire.start_turn(&session, "permit touch x");

        let mut request = wire.next();
        if has_call {
            assert_eq!(request["params"]["update"]["title"], "touch x");
            request = wire.next();
        }
        assert_eq!(request["method"], "session/request_permission");
        assert_eq!(request["params"]["toolCall"].get("title").is_some(), has_title);
        assert_eq!(request["id"].is_string(), behaviour.contains("string_ids"));
        let kinds: Vec<&str> = request["params"]["options"]
            .as_array()
            .expect("options")
            .iter()
            .filter_map(|it| it["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["allow_always", "allow_once", "reject_once"]);
        let outcome = json!({ "outcome": "selected", "optionId": request["params"]["options"][1]["optionId"] });
        wire.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "outcome": outcome } }));

        let (updates, _) = wire.until_answer(turn);
        assert_eq!(updates.last().expect("update")["params"]["update"], text_chunk("chose:o1-allow_once"));
    }
}

#[test]
fn the_agent_uses_files_and_terminals_of_the_client() {
    let mut wire = Wire::new(&[]);
    let session = wire.open();
    let turn = wire.start_turn(&session, "read /a ;; terminal ls -l ;; unknown_request");

    let mut answered = Vec::new();
    let (_, end) = loop {
        let message = wire.next();
        let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) else {
            match message["id"] == turn {
                true => break (answered.len(), message),
                false => continue,
            }
        };
        answered.push(method.to_owned());
        let result = match method {
            "fs/read_text_file" => Ok(json!({ "content": "text" })),
            "terminal/create" => Ok(json!({ "terminalId": "t1" })),
            "terminal/wait_for_exit" => Ok(json!({ "exitCode": 0, "signal": null })),
            "terminal/output" => Ok(json!({ "output": "a\n", "truncated": false })),
            "terminal/release" => Ok(json!({})),
            _ => Err(json!({ "code": -32601, "message": "method not found" })),
        };
        wire.send(&match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
        });
    };

    assert_eq!(end["result"]["stopReason"], "end_turn");
    assert_eq!(
        answered,
        [
            "fs/read_text_file",
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/output",
            "terminal/release",
            "craft/drainMidTurnQueue",
        ]
    );
    let loaded = wire.call("session/load", json!({ "sessionId": session, "cwd": "/", "mcpServers": [] })).0;
    let replayed: Vec<Value> = loaded.into_iter().map(|it| it["params"]["update"].clone()).collect();
    assert!(replayed.contains(&text_chunk("read:text")), "{replayed:?}");
    assert!(replayed.contains(&text_chunk("terminal:exit=0 signal=null output=\"a\\n\"")), "{replayed:?}");
    assert!(replayed.contains(&text_chunk("code=-32601")), "{replayed:?}");
}

#[test]
fn another_process_loads_the_messages_of_a_session() {
    for (behaviour, answers_first) in [("", false), ("load_updates_late", true)] {
        let mut first = Wire::new(&[]);
        let session = first.open();
        first.turn(&session, "say hello ;; chunks 2 x");
        let (_, home) = first.end();

        let mut second = Wire::in_home(home, &[("FAKE_ACP", behaviour)]);
        let load = second.ask("session/load", json!({ "sessionId": session, "cwd": "/", "mcpServers": [] }));
        let mut texts_seen = Vec::new();
        let mut order = Vec::new();
        while texts_seen.len() < 3 || order.len() < 4 {
            let message = second.next();
            order.push(message["id"] == load);
            texts_seen.extend(message["params"]["update"]["content"]["text"].as_str().map(str::to_owned));
        }

        assert_eq!(texts_seen, ["say hello ;; chunks 2 x", "hello", "xx"]);
        assert_eq!(order.first() == Some(&true), answers_first);
        let (updates, _) = second.turn(&session, "say again");
        assert_eq!(texts(&updates), "again");
    }
}

#[test]
fn unsupported_requests_are_refused() {
    let mut wire = Wire::new(&[("FAKE_ACP", "no_load")]);
    let session = wire.open();
    for method in ["session/load", "session/resume"] {
        let (_, answer) = wire.call(method, json!({ "sessionId": session, "cwd": "/", "mcpServers": [] }));
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
    let mut wire = Wire::new(&[("FAKE_ACP", "resume_only")]);
    let session = wire.open();
    let (_, answer) = wire.call("session/resume", json!({ "sessionId": session, "cwd": "/" }));
    assert_eq!(answer["result"]["modes"]["currentModeId"], "ask");
    let (_, answer) = wire.call("session/set_mode", json!({ "sessionId": session, "modeId": "nonsense" }));
    assert_eq!(answer["error"]["code"], -32602);
    wire.call("session/set_mode", json!({ "sessionId": session, "modeId": "code" }));
    wire.call("session/set_config_option", json!({ "sessionId": session, "configId": "model", "value": "large" }));
    assert_eq!(texts(&wire.turn(&session, "settings").0), "cwd=/ mode=code model=large");
}

#[test]
fn the_agent_opens_no_session_without_authentication() {
    for (behaviour, opens) in [("auth", true), ("auth_never", false)] {
        let mut wire = Wire::new(&[("FAKE_ACP", behaviour)]);
        let (_, hello) = wire.call("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(hello["result"]["authMethods"][0]["id"], "token");
        let (_, answer) = wire.call("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        assert_eq!(answer["error"]["code"], -32000);

        wire.call("authenticate", json!({ "methodId": "token" }));

        let (_, answer) = wire.call("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        assert_eq!(answer.get("result").is_some(), opens, "{answer}");
    }
}

#[test]
fn the_agent_misbehaves_on_command() {
    let mut wire = Wire::new(&[]);
    let session = wire.open();
    wire.start_turn(&session, "invalid_json ;; wrong_id ;; late_update");
    assert!(serde_json::from_str::<Value>(&wire.line()).is_err());
    assert_eq!(wire.next()["id"], 987_654);
    assert_eq!(wire.next()["result"]["stopReason"], "end_turn");
    assert_eq!(wire.next()["params"]["update"], text_chunk("late"));
    let (updates, _) = wire.turn(&session, "big 3000000");
    assert_eq!(texts(&updates).len(), 3_000_000);
    wire.start_turn(&session, "say bye ;; crash 7");
    assert_eq!(wire.next()["params"]["update"], text_chunk("bye"));
    assert_eq!(wire.line(), "");
    let (code, home) = wire.end();
    assert_eq!(code, Some(7));
    assert!(received(home.path()).contains("crash 7"), "the agent records its input");

    let mut wire = Wire::new(&[("FAKE_ACP", "garbage_first,wrong_version")]);
    wire.ask("initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(wire.line(), "Welcome to fake-agent!\n");
    assert_eq!((wire.line(), wire.line()), ("\n".to_owned(), "\x1b[32mready\x1b[0m\n".to_owned()));
    assert_eq!(wire.next()["result"]["protocolVersion"], 99);
    assert_eq!(Wire::new(&[("FAKE_ACP", "exits_at_once")]).end().0, Some(3));
    assert_eq!(Wire::new(&[("FAKE_ACP", "mispelt")]).end().0, Some(64));
}

#[test]
fn the_agent_outlives_the_end_of_its_input_with_ignore_eof() {
    let mut wire = Wire::new(&[("FAKE_ACP", "ignore_eof")]);
    let session = wire.open();
    let gate = wire.home.path().join("gate");
    wire.start_turn(&session, &format!("until {} ;; say still here", gate.display()));
    wire.input = None;

    // The turn waits for a file that appears after the end of the input.
    std::fs::write(&gate, "").expect("disk has space");

    assert_eq!(wire.next()["params"]["update"], text_chunk("still here"));
    assert_eq!(wire.next()["result"]["stopReason"], "end_turn");
    assert!(wire.child.try_wait().expect("child process").is_none());
}

#[test]
fn the_help_lists_the_workspace_flag_only_if_it_is_supported() {
    let run = |args: &[&str], value: &str| {
        let mut command = Command::new(program::fake_agent());
        command.args(args).env_clear().env("FAKE_HELP_WORKSPACE", value).stdin(Stdio::null());
        command.output().expect("agent starts")
    };
    let help = |value: &str| String::from_utf8(run(&["--help"], value).stdout).expect("text");

    assert!(help("1").contains("--workspace"));
    assert!(!help("0").contains("--workspace"));
    assert_eq!(run(&["--acp", "--workspace", "/"], "0").status.code(), Some(1));
    assert_eq!(run(&["--acp", "--workspace", "/"], "1").status.code(), Some(0));
}

/// Returns the recorded input of the agents of this home.
fn received(home: &Path) -> String {
    let files = std::fs::read_dir(home.join("received")).expect("a folder");
    files.flatten().map(|file| std::fs::read_to_string(file.path()).expect("text")).collect()
}
