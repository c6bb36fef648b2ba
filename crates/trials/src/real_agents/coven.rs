//! Runs coven's command line in the environment of one trial.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use coven_api::harness::HarnessRecord;
use coven_api::session::SessionRecord;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{IS_INTERRUPTED, TrialResult};

pub struct Coven {
    pub program: PathBuf,
    pub home: PathBuf,
    pub project: PathBuf,
    pub env: Vec<(&'static str, OsString)>,
}

impl Coven {
    pub fn launch(&self, harness: &str, prompt: Option<&str>) -> TrialResult<SessionRecord> {
        let mut args = vec!["run", harness, "--background", "--json"];
        // A prompt may start with a dash.
        args.extend(prompt.into_iter().flat_map(|prompt| ["--prompt", prompt]));
        self.json(&args)
    }

    /// Launches an agent with these arguments.
    pub fn launch_with(&self, harness: &str, prompt: Option<&str>, args: &[&str]) -> TrialResult<SessionRecord> {
        let mut all = vec!["run", harness, "--background", "--json"];
        all.extend(prompt.into_iter().flat_map(|prompt| ["--prompt", prompt]));
        all.push("--");
        all.extend(args);
        self.json(&all)
    }

    /// Runs any command in a session.
    pub fn launch_command(&self, command: &[&str]) -> TrialResult<SessionRecord> {
        let mut args = vec!["run", "--background", "--json", "--"];
        args.extend(command);
        self.json(&args)
    }

    pub fn screen(&self, id: &str) -> TrialResult<String> {
        self.call(&["screen", id, "--format", "text"])
    }

    pub fn input(&self, id: &str, data: &str) -> TrialResult<()> {
        self.call(&["input", id, data]).map(drop)
    }

    pub fn kill(&self, id: &str) -> TrialResult<()> {
        self.call(&["kill", id]).map(drop)
    }

    pub fn session(&self, id: &str) -> TrialResult<SessionRecord> {
        let sessions: Vec<SessionRecord> = self.list(&["sessions", "--json"], "items")?;
        sessions
            .into_iter()
            .find(|session| session.id.to_string() == id)
            .ok_or_else(|| format!("session {id} is gone").into())
    }

    /// Returns the doctor's record of a harness, which includes the program's version.
    pub fn harness(&self, name: &str) -> TrialResult<HarnessRecord> {
        let harnesses: Vec<HarnessRecord> = self.list(&["harness", "doctor", "--json"], "items")?;
        harnesses.into_iter().find(|harness| harness.id == name).ok_or_else(|| format!("no harness {name}").into())
    }

    pub fn daemon_pid(&self) -> TrialResult<u32> {
        let health: Value = self.json(&["daemon", "status", "--json"])?;
        let pid = health["pid"].as_u64().ok_or_else(|| format!("no pid in {health}"))?;
        Ok(u32::try_from(pid)?)
    }

    pub fn start(&self) -> TrialResult<()> {
        self.call(&["daemon", "start"]).map(drop)
    }

    /// Returns the agent's output, byte for byte.
    pub fn replay(&self, id: &str) -> TrialResult<String> {
        self.call(&["replay", id])
    }

    pub fn stop(&self) -> TrialResult<()> {
        self.call(&["daemon", "stop", "--kill-sessions"]).map(drop)
    }

    /// Returns the size of a session's log from its files, which does not need a daemon.
    pub fn log_length(&self, id: &str) -> TrialResult<u64> {
        let mut length = 0;
        for file in fs::read_dir(self.home.join("sessions").join(id))? {
            let file = file?;
            if file.path().extension().is_some_and(|extension| extension == "log") {
                length += file.metadata()?.len();
            }
        }
        Ok(length)
    }

    /// Parses a list that is either an array or a field of an object.
    fn list<T: DeserializeOwned>(&self, args: &[&str], name: &str) -> TrialResult<Vec<T>> {
        let mut output: Value = self.json(args)?;
        let list = if output.is_array() { output } else { output[name].take() };
        Ok(serde_json::from_value(list)?)
    }

    pub fn json<T: DeserializeOwned>(&self, args: &[&str]) -> TrialResult<T> {
        let text = self.call(args)?;
        serde_json::from_str(&text).map_err(|error| format!("coven {}: {error} in {text:?}", args.join(" ")).into())
    }

    pub fn call(&self, args: &[&str]) -> TrialResult<String> {
        if IS_INTERRUPTED.load(Ordering::SeqCst) {
            return Err("interrupted".into());
        }
        let output = Command::new(&self.program)
            .arg("--home")
            .arg(&self.home)
            .args(args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.project)
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!("`coven {}` ended with {}: {}", args.join(" "), output.status, errors.trim()).into())
    }
}
