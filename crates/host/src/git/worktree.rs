//! A task's own work tree: a folder and a branch beside the user's checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{GitError, Repository, as_somebody, git, run_in, succeeded};

/// Adding, pruning and removing are done one at a time: to git's prune, a worktree that is being added is one that is gone.
static TURN: Mutex<()> = Mutex::new(());

pub(super) fn turn() -> MutexGuard<'static, ()> {
    // Nothing is kept in it that could be left half done.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder with a branch of its own, cut from a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub repository: Repository,
    pub folder: PathBuf,
    pub branch: String,
}

/// What lies in a work tree beside its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorktreeState {
    /// Changes that are in no commit, in tracked files or in new ones that are not ignored.
    pub is_dirty: bool,
    /// Commits that the base does not have.
    pub is_ahead: bool,
}

impl Worktree {
    /// The folder is there and git knows it as a work tree.
    pub fn exists(&self) -> bool {
        self.folder.join(".git").exists()
    }

    /// Makes the folder, or takes it as it is; the branch is taken up where it stands, or cut from `base`.
    pub fn ensure(&self, base: &str) -> Result<(), GitError> {
        if self.exists() {
            return Ok(());
        }
        let _turn = turn();
        // What git remembers of a folder that somebody removed is in the way.
        self.repository.run(["worktree", "prune"])?;
        if self.folder.exists() {
            // Only an empty one may go: what is in another is somebody's.
            fs::remove_dir(&self.folder).map_err(|error| {
                let folder = self.folder.display();
                GitError::Refused(format!("{folder} is there, holds files and is no work tree ({error}); move it away"))
            })?;
        }
        let is_there = self.repository.commit_of(&format!("refs/heads/{}", self.branch))?.is_some();
        let folder = self.folder.as_os_str();
        let mut command = git(self.repository.top());
        command.args(["worktree", "add", "--quiet"]);
        match is_there {
            true => command.arg(folder).arg(&self.branch),
            false => command.args(["-b", &self.branch]).arg(folder).arg(base),
        };
        succeeded(&mut command).map(drop)
    }

    /// `base` is a branch or a commit.
    pub fn state(&self, base: &str) -> Result<WorktreeState, GitError> {
        let status = run_in(&self.folder, ["status", "--porcelain", "--untracked-files=normal"])?;
        let ahead = run_in(&self.folder, ["rev-list", "--count", "HEAD", &format!("^{base}")])?;
        Ok(WorktreeState { is_dirty: !status.trim().is_empty(), is_ahead: ahead.trim() != "0" })
    }

    /// Puts what is not committed onto the branch; nothing of it is lost if this stops half-way. Hooks are not run: nobody
    /// is there to read what they say.
    pub fn commit_rest(&self, message: &str) -> Result<bool, GitError> {
        let Some(commit) = self.snapshot(message)? else { return Ok(false) };
        let head = run_in(&self.folder, ["rev-parse", "HEAD"])?;
        run_in(&self.folder, ["update-ref", "-m", "coven: the rest", "HEAD", &commit, head.trim()])?;
        run_in(&self.folder, ["reset", "--quiet"])?;
        Ok(true)
    }

    /// A commit on top of HEAD with everything in the folder that is not ignored; nothing where that is what HEAD has.
    pub(super) fn snapshot(&self, message: &str) -> Result<Option<String>, GitError> {
        let folder = tempfile::tempdir().map_err(|error| GitError::Refused(format!("no temporary folder: {error}")))?;
        let index = folder.path().join("index");
        let with_index = |args: &[&str]| {
            let mut command = git(&self.folder);
            command.args(args).env("GIT_INDEX_FILE", &index);
            succeeded(&mut command)
        };
        with_index(&["read-tree", "HEAD"])?;
        with_index(&["add", "--all"])?;
        let tree = with_index(&["write-tree"])?.trim().to_owned();
        if run_in(&self.folder, ["rev-parse", "HEAD^{tree}"])?.trim() == tree {
            return Ok(None);
        }
        self.refuse_nested(&tree)?;
        let mut command = git(&self.folder);
        command.args(["commit-tree", &tree, "-p", "HEAD", "-m", message]);
        as_somebody(&mut command, &self.folder);
        Ok(Some(succeeded(&mut command)?.trim().to_owned()))
    }

    /// Of a repository inside the folder git would keep the number of a commit and not one file.
    fn refuse_nested(&self, tree: &str) -> Result<(), GitError> {
        let links = |tree: &str| -> Result<Vec<String>, GitError> {
            let listed = run_in(&self.folder, ["ls-tree", "-r", tree])?;
            let lines = listed.lines().filter(|line| line.starts_with("160000 "));
            Ok(lines.filter_map(|line| line.split('\t').nth(1)).map(str::to_owned).collect())
        };
        let known = links("HEAD")?;
        match links(tree)?.into_iter().find(|path| !known.contains(path)) {
            Some(path) => Err(GitError::Refused(format!(
                "{} is a repository of its own inside the work tree; move it away, or its files would be lost",
                self.folder.join(path).display()
            ))),
            None => Ok(()),
        }
    }

    /// Takes the folder away; whoever calls has seen to it that nothing in it is lost.
    pub(super) fn remove(&self) -> Result<(), GitError> {
        let _turn = turn();
        if self.folder.exists() {
            let mut command = git(self.repository.top());
            command.args(["worktree", "remove", "--force", "--force"]).arg(&self.folder);
            if let Err(error) = succeeded(&mut command) {
                // A folder that git does not know, or only half: its files are kept under a ref by now.
                remove_all(&self.folder).map_err(|_| error)?;
            }
        }
        self.repository.run(["worktree", "prune"]).map(drop)
    }
}

fn remove_all(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
