//! Saves the work that exists only in a worktree to a ref before the worktree is deleted.

use std::path::Path;

use super::worktree::Worktree;
use super::{GitError, Repository, set_fallback_author, succeeded};

const REFS: &str = "refs/coven/rescue/";

/// Result of deleting a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rescued {
    /// The base already contained everything.
    Nothing,
    /// The remaining work was saved to this ref.
    Under(String),
}

/// Saved work of a deleted worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    /// Name of the ref below `refs/coven/rescue/`: the task and the time.
    pub name: String,
    pub commit: String,
    /// Unix time in seconds.
    pub at: i64,
    pub subject: String,
}

impl Worktree {
    /// Saves everything that `base` does not contain, including new files that are not ignored, then deletes the folder
    /// and the branch. `name` is the name of the ref: the task and the time.
    pub fn put_away(&self, base: &str, name: &str) -> Result<Rescued, GitError> {
        match self.exists() {
            true => self.refuse_submodules()?,
            // Without a `.git` file in the folder, git cannot save its files.
            false => self.clear_place()?,
        }
        let rescued = self.rescue(base, name)?;
        self.remove()?;
        self.delete_branch()?;
        Ok(rescued)
    }

    fn rescue(&self, base: &str, name: &str) -> Result<Rescued, GitError> {
        let repository = &self.repository;
        let base = repository.commit_of(base)?.ok_or_else(|| GitError::UnknownBranch(base.to_owned()))?;
        let message = format!("work left in {}", self.branch);
        let mut tips = Vec::new();
        if self.exists() {
            let head = super::run_in(&self.folder, ["rev-parse", "HEAD"])?;
            tips.push(match self.snapshot(&message)? {
                Some(commit) => commit,
                None => head.trim().to_owned(),
            });
        }
        // The agent may have switched to another branch.
        tips.extend(repository.commit_of(&format!("refs/heads/{}", self.branch))?);
        let mut kept: Vec<String> = Vec::new();
        for tip in tips {
            let mut is_known = repository.is_ancestor(&tip, &base)?;
            for other in &kept {
                is_known |= repository.is_ancestor(&tip, other)?;
            }
            if !is_known {
                kept.push(tip);
            }
        }
        let commit = match &kept[..] {
            [] => return Ok(Rescued::Nothing),
            [only] => only.clone(),
            [first, rest @ ..] => {
                let mut command = repository.git(repository.top())?;
                command.args(["commit-tree", &format!("{first}^{{tree}}"), "-m", &message, "-p", first]);
                for other in rest {
                    command.args(["-p", other]);
                }
                set_fallback_author(&mut command, repository.top());
                succeeded(&mut command)?.trim().to_owned()
            }
        };
        let reference = format!("{REFS}{name}");
        repository.run(["update-ref", "-m", "coven: rescue", &reference, &commit])?;
        Ok(Rescued::Under(reference))
    }

    fn delete_branch(&self) -> Result<(), GitError> {
        let reference = format!("refs/heads/{}", self.branch);
        match self.repository.commit_of(&reference)? {
            Some(commit) => self.repository.run(["update-ref", "-d", &reference, &commit]).map(drop),
            None => Ok(()),
        }
    }
}

impl Repository {
    /// Returns the saved work of this repository, newest first.
    pub fn rescues(&self) -> Result<Vec<Rescue>, GitError> {
        let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents:subject)";
        let listed = self.run(["for-each-ref", "--sort=-committerdate", format, REFS])?;
        let read = |line: &str| {
            let mut parts = line.split('\0');
            let name = parts.next()?.strip_prefix(REFS)?.to_owned();
            let (commit, at) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            Some(Rescue { name, commit, at, subject: parts.next().unwrap_or_default().to_owned() })
        };
        Ok(listed.lines().filter_map(read).collect())
    }

    /// Creates a branch for saved work, without touching a checkout.
    pub fn restore_rescue(&self, rescue: &Rescue, branch: &str) -> Result<(), GitError> {
        self.run(["check-ref-format", "--branch", branch])
            .map_err(|_| GitError::Refused(format!("{branch:?} is not a valid branch name")))?;
        // The empty old value makes git fail if the branch exists.
        let created = self.run(["update-ref", &format!("refs/heads/{branch}"), &rescue.commit, ""]);
        created.map(drop).map_err(|error| match self.commit_of(&format!("refs/heads/{branch}")) {
            Ok(Some(_)) => GitError::Refused(format!("branch {branch:?} already exists; choose another name")),
            Ok(None) | Err(_) => error,
        })
    }

    /// Returns the worktree of this repository at a folder, which need not exist.
    pub fn worktree(&self, folder: &Path, branch: &str) -> Worktree {
        Worktree { repository: self.clone(), folder: folder.to_owned(), branch: branch.to_owned() }
    }
}
