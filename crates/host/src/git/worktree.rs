//! A task's own work tree: a folder and a branch beside the user's checkout.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{GitError, Repository, as_somebody, ask_in, git, run_in, succeeded};

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
        self.clear_place()?;
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

    /// A folder that is no work tree goes if it is empty: what is in another is somebody's.
    pub(super) fn clear_place(&self) -> Result<(), GitError> {
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let folder = self.folder.display();
                Err(GitError::Refused(format!("{folder} holds files and is no work tree ({error}); move it away")))
            }
            _ => Ok(()),
        }
    }

    /// Puts all that is in the folder onto the task's branch, also what is not committed, and also if whoever worked there went
    /// to another branch. Nothing of it is lost if this stops half-way. Hooks are not run: nobody is there to read what they say.
    pub fn gather(&self, message: &str) -> Result<(), GitError> {
        self.refuse_unfinished()?;
        let head = run_in(&self.folder, ["rev-parse", "HEAD"])?.trim().to_owned();
        let rest = self.snapshot(message)?;
        let own = format!("refs/heads/{}", self.branch);
        let is_there = self.is_on(&own)?;
        let tip = match is_there {
            true => Some(head.clone()),
            false => self.repository.commit_of(&own)?,
        };
        let is_dirty = rest.is_some();
        let all = rest.unwrap_or_else(|| head.clone());
        if let Some(tip) = &tip
            && !self.repository.is_ancestor(tip, &all)?
        {
            if !is_dirty && self.repository.is_ancestor(&all, tip)? {
                return Ok(());
            }
            return Err(GitError::Refused(format!(
                "{} is not on its branch {} any more, and both have commits of their own; put them together there",
                self.folder.display(),
                self.branch
            )));
        }
        if tip.as_ref() != Some(&all) {
            self.repository.run([
                "update-ref",
                "-m",
                "coven: the rest",
                &own,
                &all,
                tip.as_deref().unwrap_or_default(),
            ])?;
        }
        if !is_there {
            run_in(&self.folder, ["symbolic-ref", "-m", "coven: back on its branch", "HEAD", &own])?;
        }
        if is_dirty || !is_there {
            run_in(&self.folder, ["reset", "--quiet"])?;
        }
        Ok(())
    }

    fn is_on(&self, reference: &str) -> Result<bool, GitError> {
        Ok(ask_in(&self.folder, ["symbolic-ref", "--quiet", "HEAD"])?.as_deref() == Some(reference))
    }

    /// In the middle of a merge the folder holds both sides and the marks between them.
    fn refuse_unfinished(&self) -> Result<(), GitError> {
        const MARKS: [(&str, &str); 5] = [
            ("MERGE_HEAD", "merge"),
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
        ];
        let folder = run_in(&self.folder, ["rev-parse", "--absolute-git-dir"])?;
        match MARKS.iter().find(|(mark, _)| Path::new(folder.trim()).join(mark).exists()) {
            Some((_, what)) => Err(GitError::Refused(format!(
                "a {what} is not finished in {}; finish or abort it there",
                self.folder.display()
            ))),
            None => Ok(()),
        }
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
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
