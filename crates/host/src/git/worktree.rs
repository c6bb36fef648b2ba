//! The worktree of a task: a folder and a branch separate from the user's checkout.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coven_files::Links;

use super::{GIT_FILE, GitError, Repository, is_same, run_in, run_optional_in, set_fallback_author, succeeded};

/// Serializes adding, pruning and removing: git's prune would delete a worktree that is being added.
static WORKTREE_LOCK: Mutex<()> = Mutex::new(());

pub(super) fn worktree_lock() -> MutexGuard<'static, ()> {
    // The mutex protects no data, so a panic cannot leave it inconsistent.
    WORKTREE_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder with its own branch, created from a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub repository: Repository,
    pub folder: PathBuf,
    pub branch: String,
}

/// Differences between a worktree and its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorktreeState {
    /// Whether it has uncommitted changes, in tracked files or in new files that are not ignored.
    pub is_dirty: bool,
    /// Whether it has commits that the base does not have.
    pub is_ahead: bool,
}

impl Worktree {
    /// Returns whether the folder exists and has a `.git` file. A link, or a folder with its own repository, does not
    /// count: git would find another repository's work there.
    pub fn exists(&self) -> bool {
        let is = |path: &Path, kind: fn(&fs::FileType) -> bool| {
            fs::symlink_metadata(path).is_ok_and(|found| kind(&found.file_type()))
        };
        is(&self.folder, fs::FileType::is_dir) && is(&self.folder.join(".git"), fs::FileType::is_file)
    }

    /// Fails unless the `.git` file points to this folder's entry in the repository, and the working tree is this
    /// folder. Otherwise git would read and write files elsewhere.
    fn verify_link(&self) -> Result<(), GitError> {
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let asked = [&common[..], &["--absolute-git-dir", "--show-toplevel"]].concat();
        let output = run_in(&self.folder, asked)?;
        let mut lines = output.lines();
        let (repository, own, files) = (lines.next(), lines.next(), lines.next());
        // Git stores the path of the worktree's `.git` file there.
        let named = own.and_then(|own| {
            let named = coven_files::read_text(&Path::new(own).join("gitdir"), GIT_FILE, Links::Follow).ok()?;
            // A relative path starts at that folder.
            Some(Path::new(own).join(named.trim_end_matches('\n')))
        });
        let is_ours = repository.is_some_and(|it| self.repository.run(common).is_ok_and(|top| top.trim() == it))
            && named.is_some_and(|named| is_same(&named, &self.folder.join(".git")))
            && files.is_some_and(|files| is_same(Path::new(files), &self.folder));
        if is_ours {
            return Ok(());
        }
        let (folder, top) = (self.folder.display(), self.repository.top().display());
        Err(GitError::Refused(format!("{folder} is not a worktree of {top}; move the folder, then retry")))
    }

    /// Creates the worktree unless it exists. Uses the existing branch, or creates it from `base`.
    pub fn ensure(&self, base: &str) -> Result<(), GitError> {
        if self.exists() {
            return Ok(());
        }
        self.repository.ensure_trusted()?;
        let _lock = worktree_lock();
        // Git refuses to add a worktree while it still lists a deleted one for the same folder or branch.
        self.repository.run(["worktree", "prune"])?;
        self.clear_place()?;
        let has_branch = self.repository.commit_of(&format!("refs/heads/{}", self.branch))?.is_some();
        let folder = self.folder.as_os_str();
        let mut command = self.repository.git(self.repository.top())?;
        command.args(["worktree", "add", "--quiet"]);
        match has_branch {
            true => command.arg(folder).arg(&self.branch),
            false => command.args(["-b", &self.branch]).arg(folder).arg(base),
        };
        succeeded(&mut command).map(drop).inspect_err(|_| {
            // In an incomplete worktree, the missing files would look deleted. The folder is new, so nothing else is in
            // it.
            let _ = remove_all(&self.folder);
            let _ = self.repository.run(["worktree", "prune"]);
        })
    }

    /// Compares the worktree with `base`, a branch or a commit.
    pub fn state(&self, base: &str) -> Result<WorktreeState, GitError> {
        self.verify_link()?;
        let status = self.repository.run_in(&self.folder, ["status", "--porcelain", "--untracked-files=normal"])?;
        let ahead = run_in(&self.folder, ["rev-list", "--count", "HEAD", &format!("^{base}")])?;
        Ok(WorktreeState { is_dirty: !status.trim().is_empty(), is_ahead: ahead.trim() != "0" })
    }

    /// Deletes the folder if it is empty; fails if it contains files, which may be the user's.
    pub(super) fn clear_place(&self) -> Result<(), GitError> {
        // A pull can replace the folder of worktrees by a link while a daemon is running. Never write through a link.
        if let Some(parent) = self.folder.parent().filter(|parent| parent.is_symlink()) {
            return Err(GitError::Refused(format!("{} is a symbolic link; remove it", parent.display())));
        }
        match fs::remove_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let folder = self.folder.display();
                Err(GitError::Refused(format!(
                    "{folder} contains files but is not a worktree ({error}); move the folder, then retry"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Commits everything in the folder to the task's branch, including uncommitted changes, even if the agent switched
    /// to another branch. Loses nothing if it is interrupted. Does not run hooks, because no user would see their
    /// output.
    pub fn collect_onto_branch(&self, message: &str) -> Result<(), GitError> {
        self.repository.ensure_trusted()?;
        self.refuse_unfinished()?;
        let head = run_in(&self.folder, ["rev-parse", "HEAD"])?.trim().to_owned();
        let rest = self.snapshot(message)?;
        let own = format!("refs/heads/{}", self.branch);
        let is_on_branch = self.is_on(&own)?;
        let tip = match is_on_branch {
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
                "HEAD of {} and its branch {} have diverged; merge them there, then retry",
                self.folder.display(),
                self.branch
            )));
        }
        if tip.as_ref() != Some(&all) {
            self.repository.run([
                "update-ref",
                "-m",
                "coven: uncommitted work",
                &own,
                &all,
                tip.as_deref().unwrap_or_default(),
            ])?;
        }
        if !is_on_branch {
            run_in(&self.folder, ["symbolic-ref", "-m", "coven: back on its branch", "HEAD", &own])?;
        }
        if is_dirty || !is_on_branch {
            self.repository.run_in(&self.folder, ["reset", "--quiet"])?;
        }
        Ok(())
    }

    fn is_on(&self, reference: &str) -> Result<bool, GitError> {
        Ok(run_optional_in(&self.folder, ["symbolic-ref", "--quiet", "HEAD"])?.as_deref() == Some(reference))
    }

    /// Fails during a merge or rebase, when files may contain conflict markers.
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
                "a {what} is in progress in {}; finish or abort it there",
                self.folder.display()
            ))),
            None => Ok(()),
        }
    }

    /// Creates a commit on top of HEAD with everything in the folder that is not ignored; `None` if HEAD already
    /// contains it.
    pub(super) fn snapshot(&self, message: &str) -> Result<Option<String>, GitError> {
        self.verify_link()?;
        let folder = tempfile::tempdir()
            .map_err(|error| GitError::Refused(format!("cannot create a temporary folder: {error}")))?;
        let index = folder.path().join("index");
        let with_index = |args: &[&str]| {
            let mut command = self.repository.git(&self.folder)?;
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
        let mut command = self.repository.git(&self.folder)?;
        command.args(["commit-tree", &tree, "-p", "HEAD", "-m", message]);
        set_fallback_author(&mut command, &self.folder);
        Ok(Some(succeeded(&mut command)?.trim().to_owned()))
    }

    /// Fails if the folder contains another repository, of which git would store only a commit id and no files.
    fn refuse_nested(&self, tree: &str) -> Result<(), GitError> {
        let known = links(&self.folder, "HEAD")?;
        match links(&self.folder, tree)?.into_iter().find(|path| !known.contains(path)) {
            Some(path) => Err(GitError::Refused(format!(
                "{} is another repository inside the worktree; move it elsewhere, or its files would be lost",
                self.folder.join(path).display()
            ))),
            None => Ok(()),
        }
    }

    /// Fails if a submodule has work that exists nowhere else, because deleting the folder deletes it, too.
    pub(super) fn refuse_submodules(&self) -> Result<(), GitError> {
        let mut left = vec![self.folder.clone()];
        while let Some(folder) = left.pop() {
            for path in links(&folder, "HEAD")? {
                let inner = folder.join(path);
                if !inner.join(".git").exists() {
                    continue;
                }
                let repository = Repository::of(&inner)?;
                let status = repository.run_in(&inner, ["status", "--porcelain", "--untracked-files=normal"])?;
                let ahead = run_in(&inner, ["rev-list", "--count", "HEAD", "--branches", "--not", "--remotes"])?;
                if !status.trim().is_empty() || ahead.trim() != "0" {
                    return Err(GitError::Refused(format!(
                        "{} is a submodule with unpushed work; commit and push it, or move it elsewhere",
                        inner.display()
                    )));
                }
                left.push(inner);
            }
        }
        Ok(())
    }

    /// Deletes the folder. The caller must have saved everything in it.
    pub(super) fn remove(&self) -> Result<(), GitError> {
        let _lock = worktree_lock();
        if self.folder.exists() {
            let mut command = self.repository.git(self.repository.top())?;
            command.args(["worktree", "remove", "--force", "--force"]).arg(&self.folder);
            if let Err(error) = succeeded(&mut command) {
                // Git does not know the folder, or only in part. The caller has saved its files to a ref.
                remove_all(&self.folder).map_err(|left| GitError::Refused(format!("{error}; {left}")))?;
            }
        }
        self.repository.run(["worktree", "prune"]).map(drop)
    }
}

/// Returns the repositories inside a tree, which contains only a commit id of each.
fn links(folder: &Path, tree: &str) -> Result<Vec<String>, GitError> {
    let listed = run_in(folder, ["ls-tree", "-r", "-z", tree])?;
    let entries = listed.split('\0').filter(|entry| entry.starts_with("160000 "));
    Ok(entries.filter_map(|entry| entry.split('\t').nth(1)).map(str::to_owned).collect())
}

fn remove_all(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // Some package managers create read-only folders.
            open_folders(folder)?;
            fs::remove_dir_all(folder)
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_folders(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}
