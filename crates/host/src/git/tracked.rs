//! Lists the files of a folder that a Git repository tracks.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::{GitError, git, run};

/// Tracked paths, relative to the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tracked {
    /// Whether git failed, so that every file may be tracked.
    is_unknown: bool,
    paths: BTreeSet<String>,
}

impl Tracked {
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns the first tracked file.
    pub fn first(&self) -> Option<&str> {
        self.paths.first().map(String::as_str)
    }

    /// Returns whether the file, or a link above it, is tracked.
    pub fn has(&self, file: &str) -> bool {
        self.is_unknown
            || Path::new(file).ancestors().any(|path| path.to_str().is_some_and(|it| self.paths.contains(it)))
    }
}

/// Returns the tracked files among `names` in `folder`, for all repositories in or around it.
pub fn tracked(folder: &Path, names: &[&str]) -> Tracked {
    let mut paths = BTreeSet::new();
    // Git finds only the nearest repository, which hides those further out.
    for top in folder.ancestors().filter(|top| *top == folder || top.join(".git").symlink_metadata().is_ok()) {
        let below = folder.strip_prefix(top).expect("an ancestor of the folder");
        let Some(listed) = listed(top, below, names) else {
            return Tracked { is_unknown: true, paths: BTreeSet::new() };
        };
        paths.extend(listed);
    }
    Tracked { is_unknown: false, paths }
}

/// Lists the tracked files from `top`, as paths relative to `folder`; `None` if git fails.
fn listed(top: &Path, folder: &Path, names: &[&str]) -> Option<Vec<String>> {
    let mut command = git(top);
    // Safe for repositories of other users too, because git reads only the index.
    command.args(["-c", "safe.directory=*", "--literal-pathspecs", "ls-files", "-z", "--"]);
    command.args(names.iter().map(|name| folder.join(name)));
    let output = match run::output(&mut command) {
        Ok(output) => output,
        Err(GitError::NotRun(error)) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    if !output.status.success() {
        let is_none = String::from_utf8_lossy(&output.stderr).starts_with("fatal: not a git repository");
        return is_none.then(Vec::new);
    }
    let prefix = folder.to_string_lossy();
    let below = |path: &str| Some(path.strip_prefix(&*prefix)?.trim_start_matches('/').to_owned());
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(listed.split('\0').filter(|path| !path.is_empty()).filter_map(below).collect())
}
