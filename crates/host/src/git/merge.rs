//! Merges a branch into its base without a checkout, and lists its changes.

use std::path::{Path, PathBuf};

use coven_files::Links;

use super::{GIT_FILE, GitError, Repository, error_summary, run_in, run_optional_in, set_fallback_author, succeeded};

/// Result of an attempt to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeTry {
    /// The base already contains all commits.
    Nothing,
    /// A merge commit that is not on the base yet.
    Ready(Merged),
    /// Files with conflicts.
    Conflicts(Vec<String>),
}

/// A merge commit that still has to be put onto the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub commit: String,
    /// The base's commit at the time of the merge.
    pub onto: String,
}

/// Result of putting a merge onto the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landing {
    Landed,
    /// The base has moved since: merge again.
    BaseMoved,
    /// The base is checked out in this folder, and another git process is using it.
    Busy {
        folder: PathBuf,
    },
    /// The base is checked out in this folder, and the merge would overwrite something there.
    CheckoutInTheWay {
        folder: PathBuf,
        why: String,
    },
}

/// Number of changed lines in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// `None` for a binary file.
    pub added: Option<u64>,
    pub deleted: Option<u64>,
}

impl Repository {
    /// Merges the branch into the base without touching a checkout.
    pub fn try_merge(&self, base: &str, branch: &str, message: &str) -> Result<MergeTry, GitError> {
        self.ensure_trusted()?;
        let unknown = |name: &str| GitError::UnknownBranch(name.to_owned());
        let onto = self.commit_of(&format!("refs/heads/{base}"))?.ok_or_else(|| unknown(base))?;
        let tip = self.commit_of(&format!("refs/heads/{branch}"))?.ok_or_else(|| unknown(branch))?;
        if self.is_ancestor(&tip, &onto)? {
            return Ok(MergeTry::Nothing);
        }
        let output = self.output(["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &onto, &tip])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut parts = text.split('\0').filter(|part| !part.is_empty());
        let tree = parts.next().unwrap_or_default().trim().to_owned();
        match output.status.code() {
            Some(0) => {}
            Some(1) => {
                let mut files: Vec<String> = parts.map(str::to_owned).collect();
                files.sort();
                files.dedup();
                return Ok(MergeTry::Conflicts(files));
            }
            _ => {
                return Err(GitError::Failed { what: "merge-tree".to_owned(), why: error_summary(&output) });
            }
        }
        let mut command = self.git(&self.top)?;
        command.args(["commit-tree", &tree, "-p", &onto, "-p", &tip, "-m", message]);
        set_fallback_author(&mut command, &self.top);
        let commit = succeeded(&mut command)?.trim().to_owned();
        Ok(MergeTry::Ready(Merged { commit, onto }))
    }

    /// Puts a merge onto the base and updates a clean checkout of it. Does nothing if the checkout has changes.
    pub fn land(&self, base: &str, merged: &Merged) -> Result<Landing, GitError> {
        self.ensure_trusted()?;
        let reference = format!("refs/heads/{base}");
        if self.commit_of(&reference)?.as_deref() != Some(&merged.onto) {
            return Ok(Landing::BaseMoved);
        }
        if let Some(obstacle) = self.obstacle(base)? {
            return Ok(obstacle);
        }
        let Some(folder) = self.checkout_of(&reference)? else {
            let moved = self.run(["update-ref", "-m", "coven: merge", &reference, &merged.commit, &merged.onto]);
            return match moved {
                Ok(_) => Ok(Landing::Landed),
                Err(error) => match self.commit_of(&reference)?.as_deref() == Some(&merged.onto) {
                    true => Err(error),
                    false => Ok(Landing::BaseMoved),
                },
            };
        };
        let in_the_way = |why: &str| Landing::CheckoutInTheWay { folder: folder.clone(), why: why.to_owned() };
        // Updates files, index and branch together. Fails if it would overwrite an untracked file, ignored or not.
        let forward = ["merge", "--ff-only", "--quiet", "--no-autostash", "--no-overwrite-ignore", &merged.commit];
        let output = super::run::output(self.git(&folder)?.args(forward))?;
        if output.status.success() {
            return Ok(Landing::Landed);
        }
        if self.commit_of(&reference)?.as_deref() != Some(&merged.onto) {
            return Ok(Landing::BaseMoved);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        if is_locked(&folder)? || text.contains("index.lock") {
            return Ok(Landing::Busy { folder });
        }
        let files: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('\t')).collect();
        Ok(match &files[..] {
            [] => in_the_way(&format!("{}; fix this", error_summary(&output))),
            files => in_the_way(&format!("{} would be overwritten; commit, stash or move them", files.join(", "))),
        })
    }

    /// Returns the reason why no merge can be put onto the base now.
    pub fn obstacle(&self, base: &str) -> Result<Option<Landing>, GitError> {
        if let Some(folder) = self.busy_with(base)? {
            let why = "a rebase or bisect is in progress there; finish or abort it".to_owned();
            return Ok(Some(Landing::CheckoutInTheWay { folder, why }));
        }
        let Some(folder) = self.checkout_of(&format!("refs/heads/{base}"))? else { return Ok(None) };
        // Checked first: an unfinished update by another git process would look like changes.
        if is_locked(&folder)? {
            return Ok(Some(Landing::Busy { folder }));
        }
        // Changes inside a submodule do not matter, and checking for them would run the submodule's filters.
        let status = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
        let status = self.run_in(&folder, status)?;
        let why = "it has uncommitted changes; commit or stash them".to_owned();
        Ok((!status.trim().is_empty()).then_some(Landing::CheckoutInTheWay { folder, why }))
    }

    /// Returns the folder in which a branch is checked out.
    fn checkout_of(&self, reference: &str) -> Result<Option<PathBuf>, GitError> {
        let listed = self.run(["worktree", "list", "--porcelain", "-z"])?;
        let mut folder = None;
        for line in listed.split('\0') {
            if let Some(path) = line.strip_prefix("worktree ") {
                folder = Some(PathBuf::from(path));
            } else if line.strip_prefix("branch ") == Some(reference) {
                return Ok(folder.filter(|folder| folder.exists()));
            }
        }
        Ok(None)
    }

    /// Returns the folder in which a branch is being rebased or bisected. Its HEAD is detached, but git will check the
    /// branch out again.
    fn busy_with(&self, branch: &str) -> Result<Option<PathBuf>, GitError> {
        let listed = self.run(["worktree", "list", "--porcelain", "-z"])?;
        for folder in listed.split('\0').filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from) {
            let Some(git_folder) = run_optional_in(&folder, ["rev-parse", "--absolute-git-dir"])? else { continue };
            let named = |file: &str| {
                coven_files::read_text(&Path::new(&git_folder).join(file), GIT_FILE, Links::Follow).unwrap_or_default()
            };
            let is_named = |text: String| {
                let name = text.trim();
                name.strip_prefix("refs/heads/").unwrap_or(name) == branch
            };
            if ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"].into_iter().map(named).any(is_named)
            {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    /// Returns the files that a branch changed since it diverged from its base.
    pub fn changes(&self, base: &str, branch: &str) -> Result<Vec<FileChange>, GitError> {
        let listed = self.run([
            "diff",
            "--numstat",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            &format!("{base}...{branch}"),
        ])?;
        let read = |entry: &str| {
            let mut parts = entry.splitn(3, '\t');
            let (added, deleted) = (parts.next()?.parse().ok(), parts.next()?.parse().ok());
            Some(FileChange { path: parts.next()?.to_owned(), added, deleted })
        };
        Ok(listed.split('\0').filter(|entry| !entry.is_empty()).filter_map(read).collect())
    }

    /// Returns the same changes as a patch of at most `limit` bytes, and whether the patch is complete.
    pub fn patch(&self, base: &str, branch: &str, limit: usize) -> Result<(String, bool), GitError> {
        let mut command = self.git(&self.top)?;
        command.args(["diff", "--no-color", "--no-ext-diff", "--no-textconv", &format!("{base}...{branch}")]);
        let output = super::run::start(&mut command, limit as u64)?;
        let is_all = output.stdout.len() <= limit;
        if is_all && !output.status.success() {
            return Err(GitError::Failed { what: "diff".to_owned(), why: error_summary(&output) });
        }
        let mut end = output.stdout.len().min(limit);
        // Do not cut in the middle of a character.
        while !is_all && end > 0 && output.stdout[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        Ok((String::from_utf8_lossy(&output.stdout[..end]).into_owned(), is_all))
    }

    /// Checks a commit out into a new folder, with a detached HEAD, for running checks.
    pub fn check_out_at(&self, folder: &Path, commit: &str) -> Result<(), GitError> {
        self.ensure_trusted()?;
        let _lock = super::worktree::worktree_lock();
        self.run(["worktree", "prune"])?;
        let mut command = self.git(&self.top)?;
        command.args(["worktree", "add", "--quiet", "--detach"]).arg(folder).arg(commit);
        succeeded(&mut command).map(drop)
    }

    /// Deletes a folder for checks, with all files that they left in it.
    pub fn drop_check_out(&self, folder: &Path) -> Result<(), GitError> {
        self.worktree(folder, "").remove()
    }
}

/// Returns whether another git process is writing to the index of this checkout.
fn is_locked(folder: &Path) -> Result<bool, GitError> {
    let own = run_in(folder, ["rev-parse", "--absolute-git-dir"])?;
    Ok(Path::new(own.trim_end_matches('\n')).join("index.lock").exists())
}
