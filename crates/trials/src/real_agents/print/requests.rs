//! The agent's requests to the stub model.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Requests<'a> {
    /// The trial's folder.
    pub folder: &'a Path,
}

impl Requests<'_> {
    /// Returns the files of all request bodies so far.
    pub fn bodies(&self) -> BTreeSet<PathBuf> {
        let entries = fs::read_dir(self.folder.join("stub-bodies")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Reports whether a request that is not in `before` contains all of these words.
    pub fn hold_since(&self, before: &BTreeSet<PathBuf>, words: &[&str]) -> bool {
        let matches = |file: &PathBuf| {
            let body = fs::read_to_string(file).unwrap_or_default();
            words.iter().all(|word| body.contains(word))
        };
        self.bodies().difference(before).any(matches)
    }
}
