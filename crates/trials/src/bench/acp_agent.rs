//! A minimal ACP agent: answers immediately, or streams as the prompt specifies.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::BenchResult;

/// Serves ACP on standard input and output. Prompts are `ok`, `chunks <count> <per second, 0 for no limit> <bytes>` or
/// `talk <messages>`.
pub fn run() -> BenchResult<()> {
    let (stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    for line in stdin.lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let result = match request["method"].as_str() {
            Some("initialize") => json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true } }),
            Some("session/new") => json!({ "sessionId": "s" }),
            Some("session/prompt") => {
                let text = request["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                run_prompt(&text, &mut stdout)?;
                json!({ "stopReason": "end_turn" })
            }
            _ => continue,
        };
        writeln!(stdout, "{}", json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }))?;
        stdout.flush()?;
    }
    Ok(())
}

fn run_prompt(text: &str, out: &mut impl Write) -> BenchResult<()> {
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["chunks", count, rate, bytes] => stream(count.parse()?, rate.parse()?, bytes.parse()?, out),
        ["talk", messages] => {
            for number in 0..messages.parse::<u64>()? / 2 {
                writeln!(out, "{}", chunk(&format!("a message of some length, as agents write them: {number}")))?;
                let call = json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{number}"), "title": "ls", "kind": "execute",
                    "status": "completed", "rawInput": { "command": "ls" },
                    "content": [{ "type": "content", "content": { "type": "text", "text": "a.txt b.txt" } }] });
                writeln!(out, "{}", update(&call))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Writes numbered chunks at an even pace.
fn stream(count: u64, rate: u64, bytes: usize, out: &mut impl Write) -> BenchResult<()> {
    let start = Instant::now();
    for number in 0..count {
        writeln!(out, "{}", chunk(&chunk_text(number, bytes)))?;
        if rate > 0 && number % 10 == 9 {
            out.flush()?;
            let due = start + Duration::from_secs_f64((number + 1) as f64 / rate as f64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

pub fn chunk_text(number: u64, bytes: usize) -> String {
    format!("{number:0bytes$}")
}

fn chunk(text: &str) -> Value {
    update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
}

fn update(update: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } })
}
