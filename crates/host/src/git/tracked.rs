//! Which files of a folder the surrounding repository tracks.

use std::collections::BTreeSet;
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

/// The tracked files below `folder`, of those named.
pub fn tracked(folder: &Path, names: &[&str]) -> Tracked {
    let mut command = git(folder);
    command.args(["ls-files", "-z", "--"]).args(names);
    match run::output(&mut command) {
        Ok(output) if output.status.success() => {
            let listed = String::from_utf8_lossy(&output.stdout).into_owned();
            let paths = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
            Tracked { is_unknown: false, paths }
        }
        _ => Tracked { is_unknown: true, paths: BTreeSet::new() },
    }
}
