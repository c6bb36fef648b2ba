//! Input from agents: ACP and MCP lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coven_acp::{Effects, Lines, Machine, Opening, RpcError, State, Taken};
use coven_host::config::QuestionsConfig;
use coven_interop::questions::QuestionFolder;
use coven_mcp::{Options, serve_on};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uuid::Uuid;

use crate::outcome::{saw, saw_message};
use crate::scratch;

pub const ACP_WORDS: &[&str] = &[
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s\"}}\n",
    "\"method\":\"session/update\"",
    "\"method\":\"session/request_permission\"",
    "\"method\":\"fs/read_text_file\"",
    "\"method\":\"fs/write_text_file\"",
    "\"method\":\"terminal/create\"",
    "\"sessionUpdate\":\"agent_message_chunk\"",
    "\"sessionUpdate\":\"tool_call\"",
    "\"sessionUpdate\":\"tool_call_update\"",
    "\"sessionUpdate\":\"plan\"",
    "\"toolCallId\":\"t\"",
    "\"content\":{\"type\":\"text\",\"text\":\"x\"}",
    "\"stopReason\":\"end_turn\"",
    "\"error\":{\"code\":-32000,\"message\":\"x\"}",
    "\"options\":[]",
    "\"_meta\":{",
    "null",
    "\n",
];

pub const MCP_WORDS: &[&str] = &[
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"list_sessions\",\"arguments\":{}}}\n",
    "\"name\":\"ask_user_questions\"",
    "\"name\":\"get_answered_questions\"",
    "\"name\":\"read_session\"",
    "\"questions\":[",
    "\"options\":[{\"label\":\"A\"},{\"label\":\"B\"}]",
    "\"nonBlocking\":true",
    "\"multiSelect\":true",
    "\"session_id\":\"",
    "\"method\":\"notifications/cancelled\"",
    "\"_meta\":{\"progressToken\":1}",
    "null",
    "\n",
];

fn new_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Feeds an agent's output to the ACP state machine. The state must survive a round trip through the store.
pub fn acp_lines(data: &[u8]) {
    let (piece, data) = data.split_first().map_or((64, data), |(first, rest)| (1 + usize::from(*first) * 16, rest));
    let opening = Opening { cwd: "/repo".into(), client_version: "1".into(), ..Opening::default() };
    let (mut machine, mut effects) = (Machine::new(opening), Effects::new(new_id));
    machine.open(&mut effects);
    machine.prompt("go", &mut effects);
    let mut lines = Lines::default();
    let mut count = 0;
    for piece in data.chunks(piece) {
        lines.feed(piece, |taken| match taken {
            Taken::Line(line) => {
                machine.line(line, &mut effects);
                react(&mut machine, &mut effects, count);
                count += 1;
            }
            Taken::TooLong(head) => machine.too_long(head, &mut effects),
        });
    }
    machine.cancel_turn(&mut effects);
    machine.begin_shutdown(Some("over"), &mut effects);
    machine.end(&mut effects);
    assert_restores(&machine);
}

/// Answers requests as the daemon would and reports all outcomes of the line.
fn react(machine: &mut Machine, effects: &mut Effects, count: usize) {
    let done = std::mem::replace(effects, Effects::new(new_id));
    for line in &done.lines {
        let sent: Value = serde_json::from_str(line).expect("sent lines are JSON");
        saw(("sent", sent["method"].as_str().map(str::to_owned)));
    }
    for message in &done.messages {
        saw(std::mem::discriminant(message));
    }
    done.warnings.iter().for_each(|warning| saw_message(warning));
    done.turns.iter().for_each(|turn| saw(std::mem::discriminant(turn)));
    saw((done.failed.is_some(), machine.state().is_turn_running(), machine.state().waits_for_human()));
    for ask in &done.permission_requests {
        let option = ask.options.first().map(|option| option.id.clone());
        assert!(machine.decide(ask.id, option.as_deref(), effects), "an open request accepts an answer");
        assert!(!machine.decide(ask.id, None, effects), "an open request accepts only one answer");
    }
    for call in &done.calls {
        saw(std::mem::discriminant(&call.kind));
        match count % 2 {
            0 => machine.reply(call, Ok(json!({ "content": "x", "terminalId": "t" })), effects),
            _ => machine.reply(call, Err(RpcError::internal("no")), effects),
        }
    }
    machine.terminal_shown("t", &json!({ "output": "x", "truncated": false }), effects);
    // Only for the first lines: on every line, long inputs would take quadratic time.
    if count < 16 {
        assert_restores(machine);
    }
}

/// Checks that the state can be stored, restored and stored again.
fn assert_restores(machine: &Machine) {
    let text = serde_json::to_string(machine.state()).expect("a state can be serialized");
    let state: State = serde_json::from_str(&text).expect("a stored state can be parsed");
    let restored = Machine::restore(state, String::new(), |_| None);
    serde_json::to_string(restored.state()).expect("a state can be serialized");
}

const END: &str = "fuzz-end";

/// Feeds a client's input to the MCP server. Afterwards the server must answer a ping or have closed the connection.
pub fn mcp_lines(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = scratch::fresh("mcp");
    let options = Options {
        folder: QuestionFolder::at(folder.join("sessions")),
        questions: QuestionsConfig::default(),
        home: None,
        may_control: true,
        session: None,
        progress_every: Duration::from_secs(60),
        min_human_response: Duration::ZERO,
        version: "0",
    };
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\
                 \"capabilities\":{},\"clientInfo\":{\"name\":\"fuzz\",\"version\":\"0\"}}}\n\
                 {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    let ping = format!("\n{{\"jsonrpc\":\"2.0\",\"id\":\"{END}\",\"method\":\"ping\"}}\n");
    let input = [hello.as_bytes(), data, ping.as_bytes()].concat();
    let output = runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (mut from_server, mut to_server) = tokio::io::split(ours);
        let exchange = async {
            let write = async {
                // The server may close the connection after an invalid message.
                let _ = to_server.write_all(&input).await;
            };
            let read = async {
                let (mut output, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
                while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                    output.extend_from_slice(&buffer[..count]);
                    if output.windows(END.len()).rev().take(count + END.len()).any(|piece| piece == END.as_bytes()) {
                        break;
                    }
                }
                output
            };
            tokio::join!(write, read).1
        };
        let served = serve_on(options, tokio::io::split(theirs), std::future::pending());
        tokio::select! {
            output = exchange => output,
            served = served => {
                if let Err(error) = served {
                    saw_message(&error.to_string());
                }
                Vec::new()
            }
        }
    });
    runtime.shutdown_background();
    for line in output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let reply: Value = serde_json::from_slice(line).expect("the server writes JSON");
        saw((reply["result"].is_object(), reply["error"]["code"].as_i64(), reply["result"]["isError"].as_bool()));
        if let Some(message) = reply["error"]["message"].as_str() {
            saw_message(message);
        }
    }
}
