//! Checks that coven's hooks leave the repository and the user's settings and hooks as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::super::stage::Stage;
use super::super::{TrialResult, eventually};
use super::step::Step;

/// How long after a turn the user's hook may take.
const HOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Files with their content.
pub struct Snapshot {
    settings: BTreeMap<PathBuf, Vec<u8>>,
    repository: BTreeMap<PathBuf, Vec<u8>>,
}

impl Snapshot {
    pub fn take(stage: &Stage) -> TrialResult<Self> {
        let settings = stage.settings.iter().filter_map(|file| Some((file.clone(), fs::read(file).ok()?))).collect();
        let mut repository = BTreeMap::new();
        read_folder(&stage.coven.project, &mut repository)?;
        Ok(Self { settings, repository })
    }

    /// Compares both with now, byte for byte. The agent created the files in `made`. It rewrites those in `rewrites`, with and
    /// without coven: they must keep what the user wrote and not mention coven's program.
    pub fn compare(&self, stage: &Stage, rewrites: &[&str], made: &[&str]) -> TrialResult<Step> {
        let now = Self::take(stage)?;
        let program = stage.coven.program.to_string_lossy().into_owned();
        let (rewritten, kept): (Vec<_>, Vec<_>) =
            self.settings.keys().partition(|file| rewrites.iter().any(|name| file.ends_with(name)));
        let mut wrong: Vec<String> = Vec::new();
        for file in &kept {
            if self.settings.get(*file) != now.settings.get(*file) {
                wrong.push(format!("{} changed", file.display()));
            }
        }
        for file in &rewritten {
            let text = |settings: &BTreeMap<PathBuf, Vec<u8>>| {
                settings.get(*file).map(|content| String::from_utf8_lossy(content).into_owned()).unwrap_or_default()
            };
            let (before, after) = (text(&self.settings), text(&now.settings));
            if after.contains(&program) {
                wrong.push(format!("{} has coven's hooks", file.display()));
            }
            if !keeps(&before, &after) {
                wrong.push(format!("{} lost settings", file.display()));
            }
        }
        let files: BTreeSet<_> = self.repository.keys().chain(now.repository.keys()).collect();
        for file in files {
            let is_made = made.iter().any(|name| stage.coven.project.join(name) == *file);
            if !is_made && self.repository.get(file) != now.repository.get(file) {
                wrong.push(format!("{} changed", file.display()));
            }
        }
        let observed = if wrong.is_empty() { "unchanged".to_owned() } else { wrong.join(", ") };
        let mut step = Step::checked("settings", "unchanged", observed, wrong.is_empty());
        step.note = format!("{} settings files, {} files of the repository", kept.len(), self.repository.len());
        if !rewritten.is_empty() {
            step.note.push_str(&format!("; the agent itself rewrites {}", rewrites.join(", ")));
        }
        Ok(step)
    }
}

/// Reports whether a rewritten file has everything that it had: all values of a JSON file, all lines of another one.
fn keeps(before: &str, after: &str) -> bool {
    let json = |text: &str| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        serde_json::from_str(&lines.collect::<String>())
    };
    match (json(before), json(after)) {
        (Ok(before), Ok(after)) => has_values(&after, &before),
        _ => before.lines().all(|line| after.lines().any(|kept| kept == line)),
    }
}

fn has_values(all: &Value, some: &Value) -> bool {
    match (all, some) {
        (Value::Object(all), Value::Object(some)) => {
            some.iter().all(|(key, value)| all.get(key).is_some_and(|kept| has_values(kept, value)))
        }
        (all, some) => all == some,
    }
}

/// Waits for the marker of the user's own hook.
pub fn own_hook(stage: &Stage) -> Step {
    let fired = eventually(HOOK_TIMEOUT, || stage.marker.exists().then_some(())).is_some();
    let observed = if fired { "ran" } else { "did not run" };
    Step::checked("own hook", "ran", observed.to_owned(), fired)
}

/// Reads every file below a folder except the home of coven.
fn read_folder(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> TrialResult<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_symlink() {
            files.insert(path.clone(), fs::read_link(&path)?.into_os_string().into_encoded_bytes());
        } else if path.is_dir() {
            if path.file_name().is_none_or(|name| name != ".coven") {
                read_folder(&path, files)?;
            }
        } else {
            files.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_file_must_keep_what_the_user_wrote() {
        assert!(keeps(r#"{"a":{"b":[1]}}"#, "// Managed.\n{\n  \"a\": {\"b\": [1], \"c\": 2}\n}"));
        assert!(!keeps(r#"{"a":{"b":[1]}}"#, r#"{"a":{"b":[1,2]}}"#));
        assert!(keeps("model = \"x\"\n", "model = \"x\"\n[tui]\n"));
        assert!(!keeps("model = \"x\"\n", "model = \"y\"\n"));
    }
}
