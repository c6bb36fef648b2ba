//! The human's side: finds pending questions with `coven questions` and in the files, and answers them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use coven_api::List;
use serde_json::Value;

use super::super::coven::Coven;
use super::super::{TrialResult, eventually, seconds};

/// Some agents need almost a minute to start on a busy machine.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Longer than the five-second poll that finds changes which a watch missed.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(15);

pub struct Desk<'a> {
    coven: &'a Coven,
    folder: PathBuf,
}

/// A pending question set.
pub struct Waiting {
    pub id: String,
    /// The coven session of the asker.
    pub session: Option<String>,
}

impl<'a> Desk<'a> {
    pub fn new(coven: &'a Coven, home: PathBuf) -> Self {
        Self { coven, folder: home.join(".local/share/auq/sessions") }
    }

    /// Waits for the question; fails early if `trouble` returns a reason.
    pub fn asked(&self, prompt: &str, trouble: impl Fn() -> Option<String>) -> TrialResult<Waiting> {
        let waiting = eventually(QUESTION_TIMEOUT, || match self.find(prompt) {
            Ok(None) => trouble().map(|trouble| Err(trouble.into())),
            Ok(Some(waiting)) => Some(Ok(waiting)),
            Err(error) => Some(Err(error)),
        });
        waiting.unwrap_or_else(|| {
            Err(format!("question {prompt:?} did not appear within {} s", QUESTION_TIMEOUT.as_secs()).into())
        })
    }

    fn find(&self, prompt: &str) -> TrialResult<Option<Waiting>> {
        let sets: List<Value> = self.coven.json(&["questions", "list", "--json"])?;
        let set = sets.items.into_iter().find(|set| set["questions"][0]["prompt"] == prompt);
        Ok(set.map(|set| {
            let text = |key: &str| set[key].as_str().map(str::to_owned);
            Waiting { id: text("id").unwrap_or_default(), session: text("session_id") }
        }))
    }

    pub fn answer(&self, id: &str, words: &str) -> TrialResult<()> {
        self.coven.call(&["answer", id, "--text", words]).map(drop)
    }

    /// Reads the status from the file: a command could change it, because commands check for orphaned sets.
    pub fn status(&self, id: &str) -> TrialResult<String> {
        Ok(self.file(id, "status.json")?["status"].as_str().ok_or("status.json has no status")?.to_owned())
    }

    pub fn request(&self, id: &str) -> TrialResult<Value> {
        self.file(id, "request.json")
    }

    fn file(&self, id: &str, name: &str) -> TrialResult<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(self.folder.join(id).join(name))?)?)
    }

    /// Waits until the set is abandoned. Returns how long that took.
    pub fn abandoned(&self, id: &str) -> TrialResult<String> {
        let started = Instant::now();
        let is_abandoned = || self.status(id).is_ok_and(|status| status == "abandoned").then_some(());
        match eventually(ABANDON_TIMEOUT, is_abandoned) {
            Some(()) => Ok(format!("abandoned in {}", seconds(started))),
            None => Err(format!("the set is {} after {} s", self.status(id)?, ABANDON_TIMEOUT.as_secs()).into()),
        }
    }
}
