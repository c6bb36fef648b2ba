//! Where a human sits: the questions that wait, as `coven questions` and the files show them, and the answers.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::coven::Coven;
use super::super::{Outcome, eventually, seconds};

/// Some agents need most of a minute to start on a busy machine.
const ASKED: Duration = Duration::from_secs(120);
/// Longer than the look every five seconds that finds what no watch tells.
const ENDED: Duration = Duration::from_secs(15);

pub struct Desk<'a> {
    coven: &'a Coven,
    folder: PathBuf,
}

/// A set that waits for an answer.
pub struct Waiting {
    pub id: String,
    /// The session of coven that the asker runs in.
    pub session: Option<String>,
}

impl<'a> Desk<'a> {
    pub fn new(coven: &'a Coven, home: PathBuf) -> Self {
        Self { coven, folder: home.join(".local/share/auq/sessions") }
    }

    /// Waits until this is asked; `trouble` may know sooner that it never will be.
    pub fn asked(&self, prompt: &str, trouble: impl Fn() -> Option<String>) -> Outcome<Waiting> {
        let waiting = eventually(ASKED, || match self.find(prompt) {
            Ok(None) => trouble().map(|trouble| Err(trouble.into())),
            Ok(Some(waiting)) => Some(Ok(waiting)),
            Err(error) => Some(Err(error)),
        });
        waiting.unwrap_or_else(|| Err(format!("nobody asks {prompt:?} within {} s", ASKED.as_secs()).into()))
    }

    fn find(&self, prompt: &str) -> Outcome<Option<Waiting>> {
        let sets: Vec<Value> = self.coven.json(&["questions", "list", "--json"])?;
        let set = sets.into_iter().find(|set| set["questions"][0]["prompt"] == prompt);
        Ok(set.map(|set| {
            let text = |key: &str| set[key].as_str().map(str::to_owned);
            Waiting { id: text("id").unwrap_or_default(), session: text("covenSessionId") }
        }))
    }

    pub fn answer(&self, id: &str, words: &str) -> Outcome<()> {
        self.coven.call(&["answer", id, "--text", words]).map(drop)
    }

    /// As its file has it, so that nobody is made to look after the set by the question.
    pub fn status(&self, id: &str) -> Outcome<String> {
        Ok(self.file(id, "status.json")?["status"].as_str().ok_or("a set has a status")?.to_owned())
    }

    pub fn request(&self, id: &str) -> Outcome<Value> {
        self.file(id, "request.json")
    }

    fn file(&self, id: &str, name: &str) -> Outcome<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(self.folder.join(id).join(name))?)?)
    }

    /// Waits until the set has been given up by whoever asked, and says how long that took.
    pub fn abandoned(&self, id: &str) -> Outcome<String> {
        let started = Instant::now();
        let is_abandoned = || self.status(id).is_ok_and(|status| status == "abandoned").then_some(());
        match eventually(ENDED, is_abandoned) {
            Some(()) => Ok(format!("abandoned in {}", seconds(started))),
            None => Err(format!("the set is {} after {} s", self.status(id)?, ENDED.as_secs()).into()),
        }
    }
}
