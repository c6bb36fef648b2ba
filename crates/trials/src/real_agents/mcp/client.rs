//! A process with the client of an official SDK in it, told what to do and heard line by line.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::coven::Coven;
use super::super::{Outcome, process_table};
use super::sdk_client::{Script, SdkClient};

const TYPESCRIPT: &str = include_str!("client.mjs");
const PYTHON: &str = include_str!("client.py");

/// A client with its server, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

pub struct Client {
    child: Child,
    input: ChildStdin,
    /// No limit: what is said in a trial is little, and all of it is wanted.
    heard: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    /// How many signs of life came.
    pub progress: usize,
}

impl Client {
    /// Starts one and lets it open a connection; what it says of that.
    pub fn open(sdk: &SdkClient, folder: &Path, coven: &Coven, takes_forms: bool) -> Outcome<(Self, Value)> {
        let mut client = Self::start(sdk, folder, coven)?;
        client.tell(&json!({ "do": "open", "form": takes_forms, "modern": sdk.revision }))?;
        let opened = client.hear("opened")?;
        Ok((client, opened))
    }

    fn start(sdk: &SdkClient, folder: &Path, coven: &Coven) -> Outcome<Self> {
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
            return Err("it has no pipes".into());
        };
        let (told, heard) = channel();
        // Ends with the output; joined when the client goes.
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let said = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "error": line }));
                if told.send(said).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, heard, reader: Some(reader), progress: 0 })
    }

    pub fn tell(&mut self, command: &Value) -> Outcome<()> {
        Ok(writeln!(self.input, "{command}")?)
    }

    pub fn call(&mut self, name: &str, arguments: &Value) -> Outcome<()> {
        self.tell(&json!({ "do": "call", "name": name, "arguments": arguments }))
    }

    pub fn say(&mut self, said: &Value) -> Outcome<()> {
        self.tell(&json!({ "do": "say", "said": said }))
    }

    /// The next thing of this kind. An error is one only if nobody waits for it.
    pub fn hear(&mut self, kind: &str) -> Outcome<Value> {
        self.hear_within(kind, SOON)
    }

    pub fn hear_within(&mut self, kind: &str, within: Duration) -> Outcome<Value> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut said = match self.heard.recv_timeout(left) {
                Ok(said) => said,
                Err(RecvTimeoutError::Timeout) => return Err(format!("no {kind} within {} s", within.as_secs()).into()),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("the client ended before its {kind}").into()),
            };
            if said.get("progress").is_some() {
                self.progress += 1;
            }
            if let Some(value) = said.get_mut(kind) {
                return Ok(value.take());
            }
            // What nobody waits for is passed over, but not that the call is over.
            if let Some(end) = said.get("error").or_else(|| said.get("result")) {
                return Err(format!("instead of {kind}: {end}").into());
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
        // It fails only if it has been waited for already.
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            // Its server has the other end of its own pipes only, so the output ends with the client.
            let _ = reader.join();
        }
    }
}
