//! Tests the state machine's output, and that it can be stopped and restored at every line.

use std::sync::atomic::{AtomicU64, Ordering};

use coven_acp::{Effects, Machine, Opening, State, TurnChange};
use coven_domain::MessageId;
use coven_domain::message::Activity;
use coven_domain::message::{MessageChange, Role};
use serde_json::{Value, json};
use uuid::Uuid;

fn new_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn opening() -> Opening {
    Opening { cwd: "/repo".into(), client_version: "1".into(), ..Opening::default() }
}

/// A machine with all its output, and its messages as a store would keep them.
struct Fixture {
    machine: Machine,
    sent: Vec<Value>,
    /// Complete messages and chunks (`true`), in order.
    messages: Vec<(MessageId, Role, Value, bool)>,
    turns: Vec<TurnChange>,
    failed: Option<String>,
    asked: Vec<coven_acp::PermissionRequest>,
    calls: Vec<coven_acp::Call>,
}

impl Fixture {
    fn new(opening: Opening) -> Self {
        let mut fixture = Self {
            machine: Machine::new(opening),
            sent: Vec::new(),
            messages: Vec::new(),
            turns: Vec::new(),
            failed: None,
            asked: Vec::new(),
            calls: Vec::new(),
        };
        fixture.with(|machine, effects| machine.open(effects));
        fixture
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Machine, &mut Effects) -> T) -> T {
        let mut effects = Effects::new(new_id);
        let result = act(&mut self.machine, &mut effects);
        self.sent.extend(effects.lines.iter().map(|line| serde_json::from_str(line).expect("sent lines are JSON")));
        for change in effects.messages {
            match change {
                MessageChange::Added(it) => {
                    self.messages.push((it.id, it.role, serde_json::from_str(&it.content).expect("JSON"), false));
                }
                MessageChange::Replaced(it) => {
                    self.messages.retain(|(id, ..)| *id != it.id);
                    self.messages.push((it.id, it.role, serde_json::from_str(&it.content).expect("JSON"), false));
                }
                MessageChange::Chunk(it) => self.messages.push((it.message_id, it.role, it.content(), true)),
            }
        }
        self.turns.extend(effects.turns);
        self.failed = self.failed.take().or(effects.failed);
        self.asked.extend(effects.permission_requests);
        self.calls.extend(effects.calls);
        result
    }

    fn receive(&mut self, line: &Value) {
        let line = line.to_string();
        self.with(|machine, effects| machine.line(line.as_bytes(), effects));
    }

    fn update(&mut self, update: Value) {
        self.receive(
            &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } }),
        );
    }

    fn opened() -> Self {
        let mut fixture = Self::new(opening());
        fixture.receive(
            &json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true } } }),
        );
        fixture.receive(&json!({ "id": 2, "result": { "sessionId": "s" } }));
        fixture
    }

    /// Stores and restores the machine, as a restarted daemon does.
    fn restart(&mut self) {
        let stored = serde_json::to_string(self.machine.state()).expect("a state can be serialized");
        let state: State = serde_json::from_str(&stored).expect("a stored state can be parsed");
        let text = match state.open_message() {
            Some(open) => self
                .messages
                .iter()
                .filter(|(id, _, _, chunk)| *id == open && *chunk)
                .map(|it| it.2["text"].as_str().expect("text"))
                .collect(),
            None => String::new(),
        };
        let messages = self.messages.clone();
        let content = |id| messages.iter().find(|(known, ..)| *known == id).map(|it| it.2.clone());
        self.machine = Machine::restore(state, text, content);
    }

    fn contents(&self) -> Vec<Value> {
        self.messages.iter().map(|(_, role, content, _)| json!([role, content])).collect()
    }
}

fn text(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

/// One message of every kind that agents send.
fn script() -> Vec<Value> {
    let update =
        |update: Value| json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } });
    vec![
        json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true }, "agentInfo": { "name": "a", "version": "2" } } }),
        json!({ "id": 2, "result": { "sessionId": "s", "modes": { "currentModeId": "ask", "availableModes": [] } } }),
        update(
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": [{ "name": "x", "description": "y" }] }),
        ),
        update(json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } })),
        update(text("one ")),
        update(text("two")),
        update(
            json!({ "sessionUpdate": "plan", "entries": [{ "content": "a", "priority": "high", "status": "pending" }] }),
        ),
        update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "touch x", "kind": "execute", "status": "pending", "rawInput": { "command": "touch x" } }),
        ),
        json!({ "id": "q-1", "method": "session/request_permission", "params": { "sessionId": "s", "toolCall": { "toolCallId": "c" },
            "options": [{ "optionId": "y", "name": "Yes", "kind": "allow_once" }, { "optionId": "n", "name": "No", "kind": "reject_once" }] } }),
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": [{ "type": "content", "content": { "type": "text", "text": "ok" } }] }),
        ),
        json!({ "id": 7, "method": "fs/read_text_file", "params": { "sessionId": "s", "path": "/repo/a" } }),
        json!({ "id": 8, "method": "craft/unknown", "params": {} }),
        update(
            json!({ "sessionUpdate": "plan", "entries": [{ "content": "a", "priority": "high", "status": "completed" }] }),
        ),
        update(json!({ "sessionUpdate": "something_new", "x": 1 })),
        update(json!({ "sessionUpdate": "usage_update", "used": 5, "size": 10 })),
        update(text("three")),
        json!({ "id": 3, "result": { "stopReason": "end_turn" } }),
        update(text("late")),
        json!({ "id": 4, "error": { "code": 400, "message": "no model" } }),
    ]
}

fn run(restart_at: Option<usize>) -> Fixture {
    let mut fixture = Fixture::new(opening());
    fixture.with(|machine, effects| machine.prompt("first", effects));
    fixture.with(|machine, effects| machine.prompt("second", effects));
    for (number, line) in script().into_iter().enumerate() {
        if restart_at == Some(number) {
            fixture.restart();
        }
        fixture.receive(&line);
        if let Some(ask) = fixture.asked.pop() {
            assert_eq!((ask.title.as_str(), &ask.tool_call["rawInput"]["command"]), ("touch x", &json!("touch x")));
            assert!(fixture.with(|machine, effects| machine.decide(ask.id, Some("y"), effects)));
        }
        if let Some(call) = fixture.calls.pop() {
            fixture.with(|machine, effects| machine.reply(&call, Ok(json!({ "content": "text" })), effects));
        }
    }
    fixture
}

#[test]
fn a_complete_session_becomes_messages_in_order() {
    let fixture = run(None);
    let system = |content: Value| json!(["system", content]);
    let expected = vec![
        json!(["user", { "type": "text", "text": "first" }]),
        json!(["agent", { "type": "thought", "text": "hm", "partial": false }]),
        json!(["agent", { "type": "text", "text": "one two", "partial": false }]),
        system(
            json!({ "type": "tool", "tool": "touch x", "args": { "command": "touch x" }, "status": "completed", "kind": "execute", "toolCallId": "c",
            "result": { "content": [{ "type": "content", "content": { "type": "text", "text": "ok" } }] } }),
        ),
        system(json!({ "type": "plan", "steps": [{ "content": "a", "priority": "high", "status": "completed" }] })),
        system(json!({ "type": "update", "update": { "sessionUpdate": "something_new", "x": 1 } })),
        json!(["agent", { "type": "text", "text": "three", "partial": false }]),
        json!(["user", { "type": "text", "text": "second" }]),
        json!(["agent", { "type": "text", "text": "late", "partial": false }]),
        system(json!({ "type": "error", "message": "no model", "code": 400 })),
    ];
    assert_eq!(fixture.contents(), expected);
    let ended = |reason: &str| TurnChange::Ended { stop_reason: reason.to_owned() };
    assert_eq!(fixture.turns, [TurnChange::Started, ended("end_turn"), TurnChange::Started, ended("error")]);
    assert_eq!(fixture.machine.state().activity(), Activity::Idle);
    assert_eq!(fixture.machine.state().usage, json!({ "used": 5, "size": 10 }));
}

#[test]
fn sends_exactly_the_messages_that_the_protocol_requires() {
    let fixture = run(None);
    let sent: Vec<Value> = fixture
        .sent
        .iter()
        .map(|line| match line["method"].as_str() {
            Some(method) => json!([method, line["id"]]),
            None => json!([line["id"], line.get("result"), line["error"]["code"]]),
        })
        .collect();
    assert_eq!(
        sent,
        [
            json!(["initialize", 1]),
            json!(["session/new", 2]),
            json!(["session/prompt", 3]),
            json!(["q-1", { "outcome": { "outcome": "selected", "optionId": "y" } }, null]),
            json!([7, { "content": "text" }, null]),
            json!([8, null, -32601]),
            json!(["session/prompt", 4]),
        ]
    );
    assert_eq!(
        fixture.sent[0]["params"]["clientCapabilities"]["fs"],
        json!({ "readTextFile": true, "writeTextFile": true })
    );
    assert_eq!(fixture.sent[1]["params"], json!({ "cwd": "/repo", "mcpServers": [] }));
    assert_eq!(fixture.sent[2]["params"], json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": "first" }] }));
}

#[test]
fn a_session_restored_at_any_line_continues_unchanged() {
    let uninterrupted = run(None);
    for cut in 0..script().len() {
        let restored = run(Some(cut));
        assert_eq!(restored.contents(), uninterrupted.contents(), "restored before line {cut}");
        assert_eq!(restored.sent, uninterrupted.sent, "restored before line {cut}");
        assert_eq!(restored.turns, uninterrupted.turns, "restored before line {cut}");
    }
}

#[test]
fn cancelling_a_turn_answers_open_requests_and_drops_queued_prompts() {
    let mut fixture = Fixture::opened();
    fixture.with(|machine, effects| machine.prompt("go", effects));
    fixture.with(|machine, effects| machine.prompt("later", effects));
    fixture.receive(&json!({ "id": 0, "method": "session/request_permission", "params": { "sessionId": "s", "toolCall": { "toolCallId": "c" }, "options": [] } }));
    assert_eq!(fixture.machine.state().activity(), Activity::Waiting);

    assert!(fixture.with(|machine, effects| machine.cancel_turn(effects)));

    let last: Vec<&Value> = fixture.sent.iter().rev().take(2).collect();
    assert_eq!(last[1]["method"], "session/cancel");
    assert_eq!(last[0], &json!({ "jsonrpc": "2.0", "id": 0, "result": { "outcome": { "outcome": "cancelled" } } }));
    // Some agents send `end_turn` after a cancel, others an error.
    fixture.receive(&json!({ "id": 3, "error": { "code": -32800, "message": "cancelled" } }));
    assert_eq!(fixture.machine.state().stop_reason.as_deref(), Some("cancelled"));
    assert_eq!((fixture.machine.state().queued(), fixture.machine.state().activity()), (0, Activity::Idle));
    assert!(!fixture.with(|machine, effects| machine.cancel_turn(effects)), "no turn is left to cancel");
}

#[test]
fn authenticates_once_if_the_agent_requires_it() {
    let mut fixture = Fixture::new(opening());
    let methods = json!([{ "id": "login", "name": "Log in", "type": "terminal" }, { "id": "key", "name": "Key" }]);
    fixture.receive(&json!({ "id": 1, "result": { "protocolVersion": 1, "authMethods": methods } }));
    let required = |id: u64| json!({ "id": id, "error": { "code": -32000, "message": "Authentication required" } });
    fixture.receive(&required(2));
    assert_eq!(fixture.sent[2]["params"], json!({ "methodId": "key" }));
    fixture.receive(&json!({ "id": 3, "result": {} }));
    assert_eq!(fixture.sent[3]["method"], "session/new");
    fixture.receive(&required(4));
    let failed = fixture.failed.expect("a second error fails the session");
    assert!(failed.contains("Authentication required") && failed.contains("log in"), "{failed}");
    assert_eq!(fixture.sent.len(), 4);
}

#[test]
fn loads_or_resumes_a_session_as_supported_and_marks_replayed_history() {
    let resume = || Opening { resume: Some("old".into()), ..opening() };
    let with = |capabilities: Value| {
        let mut fixture = Fixture::new(resume());
        fixture.receive(&json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": capabilities } }));
        fixture
    };
    let resumed = with(json!({ "sessionCapabilities": { "resume": {} } }));
    assert_eq!(resumed.sent[1]["method"], "session/resume");
    assert!(with(json!({})).failed.expect("the session fails").contains("neither load nor resume"));

    let mut loaded = with(json!({ "loadSession": true }));
    assert_eq!(loaded.sent[1]["method"], "session/load");
    loaded.update(json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "hi" } }));
    loaded.receive(&json!({ "id": 2, "result": {} }));
    // Some agents continue to replay after the response.
    loaded.update(text("ho"));
    loaded.with(|machine, effects| machine.prompt("new", effects));
    // Others echo each prompt, which is already stored.
    loaded.update(json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "new" } }));
    loaded.update(text("yes"));
    loaded.receive(&json!({ "id": 3, "result": { "stopReason": "end_turn" } }));
    assert_eq!(
        loaded.contents(),
        [
            json!(["user", { "type": "text", "text": "hi", "replayed": true }]),
            json!(["agent", { "type": "text", "text": "ho", "partial": false, "replayed": true }]),
            json!(["user", { "type": "text", "text": "new" }]),
            json!(["agent", { "type": "text", "text": "yes", "partial": false }]),
        ]
    );
}

#[test]
fn ignores_invalid_messages() {
    let mut fixture = Fixture::opened();
    let before = fixture.machine.state().clone();
    for line in [
        "",
        "   ",
        "not json",
        "[]",
        "{}",
        "null",
        "7",
        r#"{"id":99,"result":{}}"#,
        r#"{"id":"x","result":1}"#,
        r#"{"method":"session/update"}"#,
        r#"{"method":"session/update","params":{"update":7}}"#,
        r#"{"method":"_auth/status_update","params":{}}"#,
    ] {
        fixture.with(|machine, effects| machine.line(line.as_bytes(), effects));
    }
    let mut after = fixture.machine.state().clone();
    assert_eq!(after.activity(), before.activity());
    after.usage = before.usage.clone();
    assert_eq!(after, before);
    assert_eq!(fixture.failed, None);
    // An invalid request is still answered.
    fixture.receive(&json!({ "id": 5, "method": "fs/read_text_file", "params": { "nothing": true } }));
    assert_eq!(fixture.sent.last().expect("a response")["error"]["code"], -32602);
}

#[test]
fn a_tool_call_contains_the_output_of_client_and_agent_terminals() {
    let mut fixture = Fixture::opened();
    fixture.with(|machine, effects| machine.prompt("go", effects));
    // One terminal belongs to the client, the other to the agent.
    fixture.receive(&json!({ "id": 1, "method": "terminal/create", "params": { "sessionId": "s", "command": "ls" } }));
    let call = fixture.calls.pop().expect("a terminal");
    fixture.with(|machine, effects| machine.reply(&call, Ok(json!({ "terminalId": "t1" })), effects));
    let ours = json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "title": "ls", "content": [{ "type": "terminal", "terminalId": "t1" }] });
    fixture.update(ours);
    fixture.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "b", "title": "pwd", "content": [{ "type": "terminal", "terminalId": "x" }] }));

    let shown = json!({ "output": "a.txt\n", "truncated": false, "exitStatus": { "exitCode": 0, "signal": null } });
    fixture.with(|machine, effects| machine.terminal_shown("t1", &shown, effects));
    for meta in [
        json!({ "terminal_output": { "terminal_id": "x", "data": "/re" } }),
        json!({ "terminal_output_delta": { "terminal_id": "x", "data": "po\n" } }),
        json!({ "terminal_exit": { "terminal_id": "x", "exit_code": 3, "signal": null } }),
    ] {
        fixture.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "b", "_meta": meta }));
    }

    let shown: Vec<Value> = fixture.contents().iter().skip(1).map(|it| it[1]["result"]["terminals"].clone()).collect();
    let exited = |code: u32| json!({ "exitCode": code, "signal": null });
    assert_eq!(
        shown[0],
        json!([{ "terminalId": "t1", "output": "a.txt\n", "truncated": false, "exitStatus": exited(0) }])
    );
    assert_eq!(
        shown[1],
        json!([{ "terminalId": "x", "output": "/repo\n", "truncated": false, "exitStatus": exited(3) }])
    );
}

#[test]
fn tool_calls_close_with_their_turn_but_accept_late_updates() {
    let mut fixture = Fixture::opened();
    fixture.with(|machine, effects| machine.prompt("go", effects));
    fixture.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "title": "ls", "status": "in_progress" }));
    fixture.receive(&json!({ "id": 3, "result": { "stopReason": "cancelled" } }));
    let status = |fixture: &Fixture| {
        fixture.contents().iter().find(|it| it[1]["type"] == "tool").expect("a tool")[1]["status"].clone()
    };
    assert_eq!(status(&fixture), "cancelled");
    fixture.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed" }));
    assert_eq!(status(&fixture), "completed");
}

#[test]
fn a_permission_request_shows_the_command_if_its_title_does_not() {
    let mut fixture = Fixture::opened();
    fixture.with(|machine, effects| machine.prompt("go", effects));
    fixture.receive(
        &json!({ "id": 0, "method": "session/request_permission", "params": { "sessionId": "s", "options": [],
        "toolCall": { "toolCallId": "c", "title": "Bash", "rawInput": { "command": "touch\nx" } } } }),
    );
    assert_eq!(fixture.asked[0].title, "Bash: touch x");
}

#[test]
fn empty_chunks_create_no_message_and_replayed_prompts_stay_separate() {
    let mut fixture = Fixture::new(Opening { resume: Some("old".into()), ..opening() });
    fixture
        .receive(&json!({ "id": 1, "result": { "protocolVersion": 1, "agentCapabilities": { "loadSession": true } } }));
    for prompt in ["one", "two"] {
        fixture.update(json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": prompt } }));
    }
    fixture.update(text(""));
    fixture.receive(&json!({ "id": 2, "result": {} }));
    fixture.with(|machine, effects| machine.end(effects));
    let texts: Vec<Value> = fixture.contents().iter().map(|it| it[1]["text"].clone()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn an_overlong_message_leaves_no_request_unanswered() {
    let mut fixture = Fixture::opened();
    fixture.with(|machine, effects| machine.prompt("go", effects));
    let heads = [
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"update":{"text":"xxx"#,
        r#"{"jsonrpc":"2.0", "id": 7, "method":"fs/write_text_file","params":{"content":"xxx"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","_meta":"xxx"#,
        "not a message",
    ];
    for head in heads {
        fixture.with(|machine, effects| machine.too_long(head.as_bytes(), effects));
    }
    let refused = fixture.sent.last().expect("a response");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32600)));
    assert_eq!(fixture.turns.last(), Some(&TurnChange::Ended { stop_reason: "error".to_owned() }));
    let reported = fixture.contents().iter().filter(|it| it[1]["type"] == "error").count();
    assert_eq!(reported, heads.len(), "each is reported: {:?}", fixture.contents());
}

#[test]
fn a_call_that_needs_permission_is_executed_or_rejected() {
    for (option, is_allowed) in [(Some("allow"), true), (Some("reject"), false), (None, false)] {
        let mut fixture = Fixture::opened();
        fixture.with(|machine, effects| machine.prompt("go", effects));
        fixture.receive(
            &json!({ "id": 7, "method": "fs/read_text_file", "params": { "sessionId": "s", "path": "/repo/.git/x" } }),
        );
        let call = fixture.calls.pop().expect("a call");
        fixture.with(|machine, effects| machine.ask_before(&call, "read it", json!({}), effects));
        let ask = fixture.asked.pop().expect("a question");
        fixture.restart();
        assert_eq!(fixture.machine.state().activity(), Activity::Waiting);
        assert_eq!(fixture.machine.open_calls(), [], "the call waits for permission");

        assert!(fixture.with(|machine, effects| machine.decide(ask.id, option, effects)));

        assert_eq!(fixture.calls.pop().map(|call| call.is_permitted), is_allowed.then_some(true));
        let refusal = fixture.sent.last().filter(|line| line["id"] == 7).map(|line| line["error"]["code"].clone());
        assert_eq!(refusal, (!is_allowed).then(|| json!(-32000)));
        assert_eq!(fixture.machine.open_calls().len(), usize::from(is_allowed));
    }
}
