//! Git repositories on the disk, asked through git itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git cannot be run: {0}; install git")]
    NotRun(#[source] std::io::Error),
    #[error("{} is not inside a Git repository with a work tree; make one with `git init`", .0.display())]
    NotARepository(PathBuf),
}

/// The top folder of the work tree that holds `path`, canonical.
pub fn top_of(path: &Path) -> Result<PathBuf, GitError> {
    let not_one = || GitError::NotARepository(path.to_owned());
    let output = Command::new("git")
        .arg("-C")
        .arg(path)
        .args(["rev-parse", "--show-toplevel"])
        // The caller's own repository must not be taken for the one that is asked about.
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        // Whoever owns the folder: nothing of it is run.
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(GitError::NotRun)?;
    let top = String::from_utf8(output.stdout).ok().map(|text| text.trim_end_matches('\n').to_owned());
    match top.filter(|top| output.status.success() && !top.is_empty()) {
        Some(top) => std::fs::canonicalize(top).map_err(|_| not_one()),
        None => Err(not_one()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_inside_a_repository_stands_for_its_top() {
        let dir = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(dir.path()).expect("there");
        assert!(matches!(top_of(&base), Err(GitError::NotARepository(_))));
        let made = Command::new("git").arg("-C").arg(&base).args(["init", "-q"]).status().expect("git");
        assert!(made.success());
        std::fs::create_dir_all(base.join("a/b")).expect("folders");
        assert_eq!(top_of(&base.join("a/b")).expect("a repository"), base);
        assert!(matches!(top_of(&base.join("none")), Err(GitError::NotARepository(_))));
    }
}
