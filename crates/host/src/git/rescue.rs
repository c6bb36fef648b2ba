//! Before a work tree goes, what is only there is kept under a ref of its own.

use std::path::Path;

use super::worktree::Worktree;
use super::{GitError, Repository, as_somebody, succeeded};

const REFS: &str = "refs/coven/rescue/";

/// What was done with a work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rescued {
    /// Everything in it was in the base already.
    Nothing,
    /// What was not is under this ref now.
    Under(String),
}

/// Work that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescue {
    /// What stands behind `refs/coven/rescue/`: the task and when it was.
    pub name: String,
    pub commit: String,
    /// In seconds since 1970.
    pub at: i64,
    pub subject: String,
}

impl Worktree {
    /// Keeps everything that `base` does not have, tracked or new and not ignored, then takes folder and branch away.
    /// `name` is the task and a moment, for the ref.
    pub fn put_away(&self, base: &str, name: &str) -> Result<Rescued, GitError> {
        match self.exists() {
            true => self.refuse_submodules()?,
            // Without git's mark in it there is nobody who could keep what is in it.
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
        let message = format!("work that was left in {}", self.branch);
        let mut tips = Vec::new();
        if self.exists() {
            let head = super::run_in(&self.folder, ["rev-parse", "HEAD"])?;
            tips.push(match self.snapshot(&message)? {
                Some(commit) => commit,
                None => head.trim().to_owned(),
            });
        }
        // Whoever worked there may have gone to another branch.
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
                as_somebody(&mut command, repository.top());
                succeeded(&mut command)?.trim().to_owned()
            }
        };
        let reference = format!("{REFS}{name}");
        repository.run(["update-ref", "-m", "coven: kept", &reference, &commit])?;
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
    /// Newest first.
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

    /// Gives kept work a branch; no checkout is touched.
    pub fn restore_rescue(&self, rescue: &Rescue, branch: &str) -> Result<(), GitError> {
        self.run(["check-ref-format", "--branch", branch])
            .map_err(|_| GitError::Refused(format!("{branch:?} cannot be the name of a branch")))?;
        // With the empty old value: a branch that is there stays as it is.
        let made = self.run(["update-ref", &format!("refs/heads/{branch}"), &rescue.commit, ""]);
        made.map(drop).map_err(|error| match self.commit_of(&format!("refs/heads/{branch}")) {
            Ok(Some(_)) => GitError::Refused(format!("there is a branch {branch:?} already; give another name")),
            Ok(None) | Err(_) => error,
        })
    }

    /// A worktree of this repository at a folder.
    pub fn worktree(&self, folder: &Path, branch: &str) -> Worktree {
        Worktree { repository: self.clone(), folder: folder.to_owned(), branch: branch.to_owned() }
    }
}
