//! What the agent asked the stub model.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Requests<'a> {
    /// The folder of the trial.
    pub folder: &'a Path,
}

impl Requests<'_> {
    /// The bodies that are there by now.
    pub fn bodies(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.folder.join("stub-bodies")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Whether one request since then had all of these words in it.
    pub fn hold_since(&self, before: &BTreeSet<PathBuf>, words: &[&str]) -> bool {
        let holds = |file: &PathBuf| {
            let body = fs::read_to_string(file).unwrap_or_default();
            words.iter().all(|word| body.contains(word))
        };
        self.bodies().difference(before).any(holds)
    }
}
