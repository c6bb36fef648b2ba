//! Files of the agent: transcripts that another process can load, and a record of all input.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

/// Longer updates are not stored, so that a load does not replay 50 MB.
const MAX_UPDATE_BYTES: usize = 1 << 20;

pub struct Memory {
    folder: PathBuf,
    received: Option<File>,
}

impl Memory {
    /// In `$FAKE_AGENT_HOME`, else in `$HOME/.fake-agent`.
    pub fn at_home() -> Self {
        let folder = match (std::env::var_os("FAKE_AGENT_HOME"), std::env::var_os("HOME")) {
            (Some(folder), _) => PathBuf::from(folder),
            (None, Some(home)) => PathBuf::from(home).join(".fake-agent"),
            (None, None) => std::env::temp_dir().join(".fake-agent"),
        };
        let received = folder.join("received");
        let _ = fs::create_dir_all(&received);
        let name = format!("{}.jsonl", std::process::id());
        Self { folder, received: File::options().create(true).append(true).open(received.join(name)).ok() }
    }

    /// Records one received line before it is processed.
    pub fn received(&self, line: &[u8]) {
        if let Some(mut file) = self.received.as_ref() {
            let _ = file.write_all(line);
        }
    }

    fn transcript_file(&self, session: &str) -> PathBuf {
        let name: String = session.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        self.folder.join(format!("{name}.jsonl"))
    }

    pub fn create(&self, session: &str) {
        let _ = fs::write(self.transcript_file(session), "");
    }

    pub fn knows(&self, session: &str) -> bool {
        self.transcript_file(session).is_file()
    }

    pub fn remember(&self, session: &str, update: &Value) {
        let line = format!("{update}\n");
        if line.len() <= MAX_UPDATE_BYTES
            && let Ok(mut file) = File::options().create(true).append(true).open(self.transcript_file(session))
        {
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// Returns the updates of a session, oldest first.
    pub fn transcript(&self, session: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.transcript_file(session)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}
