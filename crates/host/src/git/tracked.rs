//! Which files of a folder the surrounding repository tracks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use super::{git, run};

/// Paths below the folder that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tracked {
    /// Git could not be asked: every file may be tracked.
    is_unknown: bool,
    paths: BTreeSet<String>,
}

impl Tracked {
    /// Whether the file, or a link above it, is tracked.
    pub fn has(&self, file: &str) -> bool {
        self.is_unknown
            || Path::new(file).ancestors().any(|path| path.to_str().is_some_and(|it| self.paths.contains(it)))
    }
}

impl Tracked {
    /// What is tracked, or nothing if git could not be asked.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// The tracked files below `folder`, of those named.
pub fn tracked(folder: &Path, names: &[&str]) -> Tracked {
    let inner = listed(folder, names);
    // A repository inside the folder hides the one around it. Both count.
    let outer = match (folder.parent(), folder.file_name().and_then(OsStr::to_str)) {
        (Some(parent), Some(name)) if has_repository(parent) => {
            let names: Vec<String> = names.iter().map(|it| format!("{name}/{it}")).collect();
            let prefix = format!("{name}/");
            listed(parent, &names)
                .map(|paths| paths.iter().filter_map(|path| path.strip_prefix(&prefix)).map(str::to_owned).collect())
        }
        (Some(parent), None) if has_repository(parent) => None,
        _ => Some(BTreeSet::new()),
    };
    match inner.zip(outer) {
        Some((inner, outer)) => Tracked { is_unknown: false, paths: inner.into_iter().chain(outer).collect() },
        None => Tracked { is_unknown: true, paths: BTreeSet::new() },
    }
}

fn has_repository(folder: &Path) -> bool {
    folder.ancestors().any(|above| above.join(".git").exists())
}

/// What git lists as tracked, by paths below `folder`; nothing if git could not be asked.
fn listed(folder: &Path, names: &[impl AsRef<OsStr>]) -> Option<BTreeSet<String>> {
    let mut command = git(folder);
    command.args(["--literal-pathspecs", "ls-files", "-z", "--"]).args(names);
    let output = run::output(&mut command).ok().filter(|output| output.status.success())?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}
