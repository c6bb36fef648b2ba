//! The scripted agent over ACP: hand-written JSON-RPC, one object per line, so that it can also misbehave.
//!
//! `FAKE_ACP` controls its start (see [`behaviour`]), and the prompt controls a turn (see [`script`]). The agent records
//! its input in `$FAKE_AGENT_HOME`, else in `$HOME/.fake-agent`.

mod behaviour;
mod client;
mod excess;
mod memory;
mod script;
mod session;
mod wire;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use behaviour::{Behaviour, Trait};
use memory::Memory;
use session::Agent;
use wire::{Failure, Wire};

pub use behaviour::takes_workspace;

pub fn run(words: &[String]) -> ExitCode {
    if words.iter().any(|word| word == "--workspace") && !takes_workspace() {
        eprintln!("fake-agent: unknown argument: workspace");
        return ExitCode::FAILURE;
    }
    let behaviour = Behaviour::from_environment();
    if behaviour.has(Trait::ExitsAtOnce) {
        eprintln!("fake-agent: no key was found, good bye");
        return ExitCode::from(3);
    }
    if behaviour.has(Trait::IgnoreSigterm) && super::ignore_signals().is_err() {
        return ExitCode::from(74);
    }
    if behaviour.has(Trait::StderrOnly) {
        (1..=3).for_each(|nth| eprintln!("fake-agent: warning {nth}"));
    }
    let wire = Wire::new(behaviour.has(Trait::StringIds));
    if behaviour.has(Trait::GarbageFirst) {
        wire.raw(b"Welcome to fake-agent!\n\n\x1b[32mready\x1b[0m\n");
    }
    let agent = Arc::new(Agent::new(behaviour, wire, Memory::at_home()));
    read_all(&agent);
    if agent.behaviour.has(Trait::IgnoreEof) {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

/// Answers all messages until the input ends.
fn read_all(agent: &Arc<Agent>) {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        agent.memory.received(&line);
        if !agent.behaviour.is_mute()
            && let Ok(message) = serde_json::from_slice::<Value>(&line)
        {
            handle(agent, message);
        }
        line.clear();
    }
}

/// Handles one message of the client: a request, a notification or a response.
fn handle(agent: &Arc<Agent>, message: Value) {
    let params = message.get("params").cloned().unwrap_or(Value::Null);
    match (message.get("method").and_then(Value::as_str), message.get("id")) {
        (Some("session/prompt"), Some(id)) => {
            let (agent, id) = (agent.clone(), id.clone());
            match agent.open_turn(&params) {
                Ok(turn) => {
                    let deaf_until = script::deafness(&turn.text);
                    drop(std::thread::spawn(move || script::run(&turn, &id)));
                    // Blocks the only thread that reads the input.
                    deaf_until.iter().for_each(|gate| super::wait_for_file(gate));
                }
                Err(failure) => agent.wire.answer(&id, Err(failure)),
            }
        }
        (Some("session/load"), Some(id)) => load(agent, id, &params),
        (Some(method), Some(id)) => {
            if method == "session/new" && agent.behaviour.has(Trait::SilentNew) {
                return;
            }
            let answer = answer(agent, method, &params);
            agent.wire.answer(id, answer);
            if method == "session/new" && agent.behaviour.has(Trait::RefuseAndExit) {
                end(0, "");
            }
        }
        (Some("session/cancel"), None) => agent.cancel(&params),
        // Unknown notifications are ignored.
        (Some(_), None) => {}
        (None, _) => agent.wire.answered(&message),
    }
}

fn answer(agent: &Agent, method: &str, params: &Value) -> Result<Value, Failure> {
    match method {
        "initialize" => Ok(initialize(agent, params)),
        "authenticate" => agent.authenticate(params),
        "session/new" => agent.new_session(params),
        "session/resume" if agent.behaviour.can_resume() => agent.known_session(params),
        "session/set_mode" => agent.set_mode(params),
        "session/set_config_option" => agent.set_config_option(params),
        _ => Err(Failure::new(-32601, format!("method not found: {method}"))),
    }
}

fn initialize(agent: &Agent, params: &Value) -> Value {
    behaviour::wait_at_the_gate();
    agent.introduced(params);
    let version = if agent.behaviour.has(Trait::WrongVersion) { 99 } else { 1 };
    let auth = agent.behaviour.asks_for_auth().then(
        || json!([{ "id": "token", "name": "A token", "description": null }, { "id": "browser", "name": "A browser" }]),
    );
    json!({
        "protocolVersion": version,
        "agentCapabilities": agent.behaviour.capabilities(),
        "agentInfo": { "name": "fake-agent", "title": "Fake agent", "version": "1.0.0" },
        "authMethods": auth.unwrap_or(json!([])),
    })
}

/// Replays the messages of the session and then answers, or the other way round.
fn load(agent: &Agent, id: &Value, params: &Value) {
    let is_late = agent.behaviour.has(Trait::LoadUpdatesLate);
    let found = match agent.behaviour.can_load() {
        true => agent.known_session(params),
        false => Err(Failure::new(-32601, "method not found: session/load")),
    };
    let replay = || {
        let session = params["sessionId"].as_str().unwrap_or_default();
        for update in agent.memory.transcript(session) {
            agent.wire.update(session, update);
        }
    };
    match found {
        Ok(result) if is_late => {
            agent.wire.answer(id, Ok(result));
            // Late enough that a client may take the answer for the end.
            std::thread::park_timeout(Duration::from_millis(20));
            replay();
        }
        Ok(result) => {
            replay();
            agent.wire.answer(id, Ok(result));
        }
        Err(failure) => agent.wire.answer(id, Err(failure)),
    }
}

/// Exits immediately after writing a message to stderr.
fn end(code: u8, message: &str) -> ! {
    let _ = io::stderr().write_all(message.as_bytes());
    std::process::exit(i32::from(code))
}
