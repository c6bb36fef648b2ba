//! Merging a branch into its base without a checkout, and what would change by it.

use std::path::{Path, PathBuf};

use coven_files::Links;

use super::{GIT_FILE, GitError, Repository, as_somebody, ask_in, run_in, said, succeeded};

/// What came of the try to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeTry {
    /// The base has everything already.
    Nothing,
    /// A commit that stands on the base as it was, and is not on it yet.
    Ready(Merged),
    /// These files cannot be put together.
    Conflicts(Vec<String>),
}

/// A merge that only has to be put onto the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub commit: String,
    /// The base's commit that it was made with.
    pub onto: String,
}

/// What came of putting it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landing {
    Landed,
    /// The base went on in the meantime: try again from there.
    BaseMoved,
    /// The base is checked out here, and another git is at work in it.
    Busy {
        folder: PathBuf,
    },
    /// The base is checked out here, and something in it would be overwritten.
    CheckoutInTheWay {
        folder: PathBuf,
        why: String,
    },
}

/// How much of a file is different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    /// Nothing for what is no text.
    pub added: Option<u64>,
    pub deleted: Option<u64>,
}

impl Repository {
    /// Puts branch and base together beside every checkout.
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
                return Err(GitError::Failed { what: "merge-tree".to_owned(), why: said(&output) });
            }
        }
        let mut command = self.git(&self.top)?;
        command.args(["commit-tree", &tree, "-p", &onto, "-p", &tip, "-m", message]);
        as_somebody(&mut command, &self.top);
        let commit = succeeded(&mut command)?.trim().to_owned();
        Ok(MergeTry::Ready(Merged { commit, onto }))
    }

    /// Puts a merge onto the base. A checkout of the base is brought along if it is clean; if not, nothing is done.
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
        // Brings files, index and branch along at once, and refuses where a file that git does not know would be overwritten,
        // ignored or not.
        let along = ["merge", "--ff-only", "--quiet", "--no-autostash", "--no-overwrite-ignore", &merged.commit];
        let output = super::run::output(self.git(&folder)?.args(along))?;
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
            [] => in_the_way(&said(&output)),
            files => in_the_way(&format!("{} would be overwritten", files.join(", "))),
        })
    }

    /// What keeps anything from being put onto the base now, whatever it is.
    pub fn obstacle(&self, base: &str) -> Result<Option<Landing>, GitError> {
        if let Some(folder) = self.busy_with(base)? {
            let why = "something is not finished there that will put the branch back (a rebase or bisect)".to_owned();
            return Ok(Some(Landing::CheckoutInTheWay { folder, why }));
        }
        let Some(folder) = self.checkout_of(&format!("refs/heads/{base}"))? else { return Ok(None) };
        // What it has not come to yet would look like changes.
        if is_locked(&folder)? {
            return Ok(Some(Landing::Busy { folder }));
        }
        // Changes inside a submodule are not in the way, and looking for them would run its own filters.
        let status = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty"];
        let status = self.run_in(&folder, status)?;
        let why = "it has changes that are not committed".to_owned();
        Ok((!status.trim().is_empty()).then_some(Landing::CheckoutInTheWay { folder, why }))
    }

    /// Where a branch is checked out.
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

    /// Where a branch is being rebased or bisected: nothing is checked out there, but it will be again.
    fn busy_with(&self, branch: &str) -> Result<Option<PathBuf>, GitError> {
        let listed = self.run(["worktree", "list", "--porcelain", "-z"])?;
        for folder in listed.split('\0').filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from) {
            let Some(git_folder) = ask_in(&folder, ["rev-parse", "--absolute-git-dir"])? else { continue };
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

    /// What a branch changed since it left its base, file by file.
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

    /// The same as a patch, at most `limit` bytes of it, and whether that was all.
    pub fn patch(&self, base: &str, branch: &str, limit: usize) -> Result<(String, bool), GitError> {
        let mut command = self.git(&self.top)?;
        command.args(["diff", "--no-color", "--no-ext-diff", "--no-textconv", &format!("{base}...{branch}")]);
        let output = super::run::start(&mut command, limit as u64)?;
        let is_all = output.stdout.len() <= limit;
        if is_all && !output.status.success() {
            return Err(GitError::Failed { what: "diff".to_owned(), why: said(&output) });
        }
        let mut end = output.stdout.len().min(limit);
        // Not in the middle of a character.
        while !is_all && end > 0 && output.stdout[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        Ok((String::from_utf8_lossy(&output.stdout[..end]).into_owned(), is_all))
    }

    /// A folder with exactly this commit in it, on no branch, for checks.
    pub fn check_out_at(&self, folder: &Path, commit: &str) -> Result<(), GitError> {
        self.ensure_trusted()?;
        let _turn = super::worktree::turn();
        self.run(["worktree", "prune"])?;
        let mut command = self.git(&self.top)?;
        command.args(["worktree", "add", "--quiet", "--detach"]).arg(folder).arg(commit);
        succeeded(&mut command).map(drop)
    }

    /// Takes away a folder that was made for checks: what they left in it is nobody's.
    pub fn drop_check_out(&self, folder: &Path) -> Result<(), GitError> {
        self.worktree(folder, "").remove()
    }
}

/// Another git writes to the index of this checkout.
fn is_locked(folder: &Path) -> Result<bool, GitError> {
    let own = run_in(folder, ["rev-parse", "--absolute-git-dir"])?;
    Ok(Path::new(own.trim_end_matches('\n')).join("index.lock").exists())
}
