//! A process that drives the client of an official SDK: takes commands and reports events as JSON lines.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::coven::Coven;
use super::super::{TrialResult, process_table};
use super::sdk_client::{Script, SdkClient};

const TYPESCRIPT: &str = include_str!("client.mjs");
const PYTHON: &str = include_str!("client.py");

/// Timeout for a client and its server on a busy machine.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Client {
    child: Child,
    input: ChildStdin,
    /// Unbounded: a trial has few events, and all of them are needed.
    events: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    /// Number of progress notifications.
    pub progress: usize,
}

impl Client {
    /// Starts a client and opens a connection. Returns the client and its `opened` event.
    pub fn open(sdk: &SdkClient, folder: &Path, coven: &Coven, takes_forms: bool) -> TrialResult<(Self, Value)> {
        let mut client = Self::start(sdk, folder, coven)?;
        client.send_command(&json!({ "do": "open", "form": takes_forms, "modern": sdk.revision }))?;
        let opened = client.wait_for_event("opened")?;
        Ok((client, opened))
    }

    fn start(sdk: &SdkClient, folder: &Path, coven: &Coven) -> TrialResult<Self> {
        let mut command = match sdk.script {
            Script::TypeScript { line } => {
                let script = coven.home.join("client.mjs");
                fs::write(&script, TYPESCRIPT)?;
                let mut command = Command::new("node");
                command.arg(script).arg(folder).arg(line);
                command
            }
            Script::Python => {
                let script = coven.home.join("client.py");
                fs::write(&script, PYTHON)?;
                let mut command = Command::new(folder.join("bin/python"));
                command.arg(script);
                command
            }
        };
        let errors = fs::OpenOptions::new().create(true).append(true).open(coven.home.join("client-errors"))?;
        let mut child = command
            .arg(&coven.program)
            .env_clear()
            .envs(coven.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&coven.project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the client's process has no pipes".into());
        };
        let (sender, events) = channel();
        // Ends with the output; joined when the client is dropped.
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "error": line }));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, events, reader: Some(reader), progress: 0 })
    }

    pub fn send_command(&mut self, command: &Value) -> TrialResult<()> {
        Ok(writeln!(self.input, "{command}")?)
    }

    pub fn call(&mut self, name: &str, arguments: &Value) -> TrialResult<()> {
        self.send_command(&json!({ "do": "call", "name": name, "arguments": arguments }))
    }

    pub fn answer_form(&mut self, answer: &Value) -> TrialResult<()> {
        self.send_command(&json!({ "do": "say", "said": answer }))
    }

    /// Waits for the next event of this kind. Fails if the call ends with another event.
    pub fn wait_for_event(&mut self, kind: &str) -> TrialResult<Value> {
        self.wait_for_event_within(kind, EVENT_TIMEOUT)
    }

    pub fn wait_for_event_within(&mut self, kind: &str, within: Duration) -> TrialResult<Value> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut event = match self.events.recv_timeout(left) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => return Err(format!("no {kind} within {} s", within.as_secs()).into()),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("the client exited before {kind}").into()),
            };
            if event.get("progress").is_some() {
                self.progress += 1;
            }
            if let Some(value) = event.get_mut(kind) {
                return Ok(value.take());
            }
            // Skip other events, except the end of the call.
            if let Some(end) = event.get("error").or_else(|| event.get("result")) {
                return Err(format!("expected {kind}, got {end}").into());
            }
        }
    }

    pub fn kill(&self) {
        process_table::kill(self.child.id());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
        // Fails only if the process was already reaped.
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            // The MCP server does not hold this pipe, so the output ends with the client.
            let _ = reader.join();
        }
    }
}
