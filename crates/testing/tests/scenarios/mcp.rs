//! `coven mcp` as a process with pipes, and its entry in the settings of agents.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};

use coven_testing::{TestHome, TestTerminal, eventually, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A server and the pipes to it.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    calls: u64,
}

impl Server {
    fn start(home: &TestHome) -> Self {
        let mut command = home.command(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("coven runs");
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let mut server = Self { child, input, output, calls: 0 };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        assert_eq!(server.line()["result"]["serverInfo"]["name"], "coven");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("server reads");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.as_mut().expect("open").read_line(&mut line).expect("server writes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn start_call(&mut self, tool: &str, arguments: &Value) {
        self.calls += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let id = self.calls;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn end(&mut self) -> Value {
        let mut answer = self.line();
        assert_eq!(answer["id"], self.calls, "{answer}");
        answer["result"].take()
    }

    /// Calls a tool, asserts success and returns the text.
    fn text(&mut self, tool: &str, arguments: &Value) -> String {
        self.start_call(tool, arguments);
        let result = self.end();
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().expect("text").to_owned()
    }

    /// Calls a tool, asserts success and returns the data.
    fn data(&mut self, tool: &str, arguments: &Value) -> Value {
        self.start_call(tool, arguments);
        let mut result = self.end();
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].take()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("child process");
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("child process")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn question() -> Value {
    json!({"questions": [{"prompt": "Which?", "title": "T", "options": [{"label": "A"}, {"label": "B"}], "multiSelect": false}]})
}

/// Waits for a pending set and returns its id.
fn waiting(home: &TestHome) -> String {
    eventually("a set is pending", || {
        let sets: Vec<Value> = home.items(&["questions", "list", "--json"]);
        sets.first().map(|set| set["id"].as_str().expect("an id").to_owned())
    })
}

fn status(home: &TestHome, id: &str) -> Value {
    let mut set: Value = home.json(&["questions", "show", id, "--json"]);
    set["status"].take()
}

#[test]
fn an_agent_in_a_session_asks_and_gets_the_answer() {
    let mut home = TestHome::new();
    home.env.push(("COVEN_SESSION_ID".to_owned(), "0c7e49a2-1111-4222-8333-444455556666".to_owned()));
    let mut server = Server::start(&home);
    server.start_call("ask_user_questions", &question());
    let id = waiting(&home);
    let set: Value = home.json(&["questions", "show", &id, "--json"]);
    assert_eq!(set["session_id"], "0c7e49a2-1111-4222-8333-444455556666");
    home.coven(&["answer", &id[..8], "--option", "B"]).expect_success();
    let text = format!("[Session: {} | Questions: 1]\n\nHere are the user's answers:\n\n1. Which?\n→ B", &id[..8]);
    assert_eq!(server.end()["content"], json!([{"type": "text", "text": text}]));
}

#[test]
fn ask_08_no_set_stays_pending_regardless_of_how_the_client_disconnects() {
    let home = TestHome::new();
    type Go = fn(&mut Server);
    let ways: [(&str, Go); 6] = [
        ("end of input", |server| drop(server.input.take())),
        ("output unread", |server| drop(server.output.take())),
        ("killed: both ends", |server| drop((server.input.take(), server.output.take()))),
        ("SIGTERM", |server| server.signal(Signal::TERM)),
        ("SIGINT", |server| server.signal(Signal::INT)),
        ("SIGHUP", |server| server.signal(Signal::HUP)),
    ];
    for (how, go) in ways {
        let mut server = Server::start(&home);
        server.start_call("ask_user_questions", &question());
        let id = waiting(&home);
        go(&mut server);
        assert!(server.wait().success(), "{how}");
        let stored = fs::read_to_string(home.user().join(format!(".local/share/auq/sessions/{id}/status.json")));
        assert!(stored.expect("a file").contains("\"abandoned\""), "{how}: the server itself has abandoned the set");
    }
}

#[test]
fn ask_08_the_next_command_abandons_the_sets_of_a_killed_server() {
    let home = TestHome::new();
    let mut server = Server::start(&home);
    server.start_call("ask_user_questions", &question());
    let id = waiting(&home);
    server.signal(Signal::KILL);
    server.wait();
    assert_eq!(home.items::<Value>(&["questions", "list", "--json"]), [Value::Null; 0]);
    assert_eq!(status(&home, &id), "abandoned");
    let refusal = home.coven(&["answer", &id, "--option", "A"]).expect_failure(4);
    assert!(refusal.contains("abandoned"), "{refusal}");
}

#[test]
fn input_that_ends_immediately_leaves_no_pending_set() {
    let home = TestHome::new();
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ask_user_questions", "arguments": question()}}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for _ in 0..20 {
        home.coven_with_input(&["mcp"], input.as_bytes()).expect_success();
    }
    let sets: Vec<Value> = home.items(&["questions", "list", "--all", "--json"]);
    assert!(sets.iter().all(|set| set["status"] == "abandoned"), "{sets:?}");
}

#[test]
fn invalid_input_does_not_block_the_server() {
    let home = TestHome::new();
    for input in ["", "not json\n", "{}\n", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}\n"] {
        let ran = home.coven_with_input(&["mcp"], input.as_bytes());
        assert!(ran.code <= 1, "{input:?}: {ran:?}");
    }
}

#[test]
fn an_agent_can_list_other_sessions_and_control_them_only_if_allowed() {
    let home = TestHome::started();
    let id: Value = home.json(&["run", "claude", "ask hello ;; hang", "--json", "--title", "Neighbour"]);
    let id = id["id"].as_str().expect("an id");
    let mut server = Server::start(&home);
    let listed = server.text("list_sessions", &json!({"status": "running"}));
    assert!(listed.starts_with("1 of 1 sessions") && listed.contains("Neighbour"), "{listed}");
    wait_until("the screen shows the prompt", || {
        server.text("read_session", &json!({"session_id": &id[..8]})).contains("hello")
    });
    server.start_call("send_input", &json!({"session_id": id, "text": "x"}));
    assert!(server.end()["content"][0]["text"].as_str().expect("text").contains("mcp.allowControl"));

    home.configure(json!({"mcp": {"allowControl": true}, "sessions": {"killGraceSeconds": 2.0}}));
    let mut server = Server::start(&home);
    server.text("send_input", &json!({"session_id": id, "text": "typed"}));
    wait_until("the input has arrived", || {
        server.text("read_session", &json!({"session_id": id})).contains("answer:typed")
    });
    let started =
        server.text("start_session", &json!({"harness": "claude", "prompt": "say second ;; hang", "title": "Second"}));
    assert!(started.starts_with("started: ") && started.ends_with("Second"), "{started}");
    server.start_call("read_session", &json!({"session_id": "deadbeef"}));
    let missing = server.end();
    assert!(missing["isError"] == true && missing["content"][0]["text"].as_str().expect("text").contains("deadbeef"));
}

#[test]
fn an_agent_reads_sessions_and_messages_page_by_page() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("repo");
    let session = home.open(&repo).id;
    for number in 0..4 {
        home.turn(&session, &format!("say answer {number}"));
    }
    let mut expected = vec![session.clone()];
    expected.extend((0..3).map(|_| home.open(&repo).id));
    let mut server = Server::start(&home);

    let (mut listed, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = server.data("list_sessions", &json!({"limit": 2, "cursor": cursor}));
        let items = page["items"].as_array().expect("a list");
        assert!(items.len() <= 2, "{page}");
        listed.extend(items.iter().map(|it| it["id"].as_str().expect("an id").to_owned()));
        if listed.len() == 2 {
            home.open(&repo);
        }
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    listed.reverse();
    assert_eq!(listed, expected);

    let all = home.read::<Value>(&format!("/api/v1/sessions/{session}/messages?limit=1000"));
    let all: Vec<u64> =
        all["items"].as_array().expect("a list").iter().filter_map(|it| it["number"].as_u64()).collect();
    assert!(all.len() > 6, "{all:?}");
    let (mut read, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = server.data("read_session", &json!({"session_id": session, "limit": 3, "cursor": cursor}));
        assert_eq!(page["session"]["id"], json!(session));
        let items = page["items"].as_array().expect("a list");
        let numbers: Vec<u64> = items.iter().filter_map(|it| it["number"].as_u64()).collect();
        assert!(numbers.len() <= 3 && numbers.is_sorted(), "{page}");
        if read.is_empty() {
            home.turn(&session, "say while it is read");
        }
        read.splice(0..0, numbers);
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(read, all, "the newest page first, then back to the start");
    server.start_call("read_session", &json!({"session_id": session, "cursor": "x"}));
    assert_eq!(server.end()["isError"], true);
}

#[test]
fn on_a_terminal_the_server_explains_its_purpose() {
    let home = TestHome::new();
    let mut terminal = TestTerminal::open(&home, &["mcp"]);
    terminal.wait_for_text("coven mcp install <agent>");
    assert_eq!(terminal.wait(), 2);
}

#[test]
fn the_server_is_added_to_and_removed_from_the_settings_of_an_agent() {
    let home = TestHome::new();
    let file = home.user().join(".gemini/settings.json");
    let shown = home.coven(&["mcp", "install", "gemini", "--dry-run"]).expect_success();
    assert!(shown.contains("settings.json:") && shown.contains("\"mcpServers\""), "{shown}");
    assert_eq!(
        home.coven(&["mcp", "install", "gemini", "--print"]).expect_success(),
        shown,
        "the earlier name of the flag"
    );
    let refusal = home.coven(&["mcp", "install", "gemini"]).expect_failure(2);
    assert!(refusal.contains("--yes") && !file.exists(), "without a terminal to ask on: {refusal}");

    fs::create_dir_all(file.parent().expect("a folder")).expect("disk has space");
    let before = "{\n  // mine\n  \"theme\": \"dark\"\n}\n";
    fs::write(&file, before).expect("disk has space");
    home.coven(&["mcp", "install", "gemini", "--yes"]).expect_success();
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("// mine") && text.contains("\"coven\""), "{text}");
    assert!(home.coven(&["mcp", "install", "gemini", "--yes"]).expect_success().contains("already installed"));
    let out: Value = home.json(&["mcp", "uninstall", "gemini", "--yes", "--json"]);
    assert_eq!((&out["outcome"], &out["agent"]), (&json!("uninstalled"), &json!("gemini")));
    let text = fs::read_to_string(&file).expect("a file");
    assert!(!text.contains("coven") && text.contains("// mine") && text.contains("dark"), "{text}");

    fs::write(&file, "{ broken").expect("disk has space");
    let refusal = home.coven(&["mcp", "install", "gemini", "--yes"]).expect_failure(2);
    assert!(refusal.contains("settings.json"), "{refusal}");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "{ broken");
    let unknown = home.coven(&["mcp", "install", "emacs"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("claude, codex"), "{unknown:?}");
}
