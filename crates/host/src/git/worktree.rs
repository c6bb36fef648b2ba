//! A task's own work tree: a folder and a branch beside the user's checkout.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use coven_files::Links;

use super::{GIT_FILE, GitError, Repository, as_somebody, ask_in, is_same, run_in, succeeded};

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
    /// The folder is there with the mark that makes it a work tree. A link, or a folder with a repository of its own, is another
    /// place: git would look for work there, and find somebody else's.
    pub fn exists(&self) -> bool {
        let is = |path: &Path, kind: fn(&fs::FileType) -> bool| {
            fs::symlink_metadata(path).is_ok_and(|found| kind(&found.file_type()))
        };
        is(&self.folder, fs::FileType::is_dir) && is(&self.folder.join(".git"), fs::FileType::is_file)
    }

    /// Its mark leads to the repository that it was made from, to the part of it that is this folder's, and its files are those in
    /// this folder: otherwise git would look for work elsewhere, and write elsewhere.
    fn refuse_strange(&self) -> Result<(), GitError> {
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let asked = [&common[..], &["--absolute-git-dir", "--show-toplevel"]].concat();
        let told = run_in(&self.folder, asked)?;
        let mut told = told.lines();
        let (repository, own, files) = (told.next(), told.next(), told.next());
        // Git keeps there which folder the part is for.
        let named = own.and_then(|own| {
            let named = coven_files::read_text(&Path::new(own).join("gitdir"), GIT_FILE, Links::Follow).ok()?;
            // From there, where it is relative.
            Some(Path::new(own).join(named.trim_end_matches('\n')))
        });
        let is_ours = repository.is_some_and(|it| self.repository.run(common).is_ok_and(|top| top.trim() == it))
            && named.is_some_and(|named| is_same(&named, &self.folder.join(".git")))
            && files.is_some_and(|files| is_same(Path::new(files), &self.folder));
        if is_ours {
            return Ok(());
        }
        let (folder, top) = (self.folder.display(), self.repository.top().display());
        Err(GitError::Refused(format!("{folder} is no work tree of {top} any more; move it away")))
    }

    /// Makes the folder, or takes it as it is; the branch is taken up where it stands, or cut from `base`.
    pub fn ensure(&self, base: &str) -> Result<(), GitError> {
        if self.exists() {
            return Ok(());
        }
        self.repository.ensure_trusted()?;
        let _turn = turn();
        // What git remembers of a folder that somebody removed is in the way.
        self.repository.run(["worktree", "prune"])?;
        self.clear_place()?;
        let is_there = self.repository.commit_of(&format!("refs/heads/{}", self.branch))?.is_some();
        let folder = self.folder.as_os_str();
        let mut command = self.repository.git(self.repository.top())?;
        command.args(["worktree", "add", "--quiet"]);
        match is_there {
            true => command.arg(folder).arg(&self.branch),
            false => command.args(["-b", &self.branch]).arg(folder).arg(base),
        };
        succeeded(&mut command).map(drop).inspect_err(|_| {
            // Half of it would be taken for all of it, and the rest for deleted. Nothing else is in it: it was not there before.
            let _ = remove_all(&self.folder);
            let _ = self.repository.run(["worktree", "prune"]);
        })
    }

    /// `base` is a branch or a commit.
    pub fn state(&self, base: &str) -> Result<WorktreeState, GitError> {
        self.refuse_strange()?;
        let status = self.repository.run_in(&self.folder, ["status", "--porcelain", "--untracked-files=normal"])?;
        let ahead = run_in(&self.folder, ["rev-list", "--count", "HEAD", &format!("^{base}")])?;
        Ok(WorktreeState { is_dirty: !status.trim().is_empty(), is_ahead: ahead.trim() != "0" })
    }

    /// A folder that is no work tree goes if it is empty: what is in another is somebody's.
    pub(super) fn clear_place(&self) -> Result<(), GitError> {
        // A pull can replace the folder of work trees while a daemon runs: nothing is written through a link.
        if let Some(parent) = self.folder.parent().filter(|parent| parent.is_symlink()) {
            return Err(GitError::Refused(format!("{} is a symbolic link; remove it", parent.display())));
        }
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
        self.repository.ensure_trusted()?;
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
            self.repository.run_in(&self.folder, ["reset", "--quiet"])?;
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
        self.refuse_strange()?;
        let folder = tempfile::tempdir().map_err(|error| GitError::Refused(format!("no temporary folder: {error}")))?;
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
        as_somebody(&mut command, &self.folder);
        Ok(Some(succeeded(&mut command)?.trim().to_owned()))
    }

    /// Of a repository inside the folder git would keep the number of a commit and not one file.
    fn refuse_nested(&self, tree: &str) -> Result<(), GitError> {
        let known = links(&self.folder, "HEAD")?;
        match links(&self.folder, tree)?.into_iter().find(|path| !known.contains(path)) {
            Some(path) => Err(GitError::Refused(format!(
                "{} is a repository of its own inside the work tree; move it away, or its files would be lost",
                self.folder.join(path).display()
            ))),
            None => Ok(()),
        }
    }

    /// What is in a submodule goes with the folder: all of it must be elsewhere too.
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
                        "{} is a submodule with work that is nowhere else; commit and push it, or move it away",
                        inner.display()
                    )));
                }
                left.push(inner);
            }
        }
        Ok(())
    }

    /// Takes the folder away; whoever calls has seen to it that nothing in it is lost.
    pub(super) fn remove(&self) -> Result<(), GitError> {
        let _turn = turn();
        if self.folder.exists() {
            let mut command = self.repository.git(self.repository.top())?;
            command.args(["worktree", "remove", "--force", "--force"]).arg(&self.folder);
            if let Err(error) = succeeded(&mut command) {
                // A folder that git does not know, or only half: its files are kept under a ref by now.
                remove_all(&self.folder).map_err(|left| GitError::Refused(format!("{error}; {left}")))?;
            }
        }
        self.repository.run(["worktree", "prune"]).map(drop)
    }
}

/// The repositories that a tree has in it: of each it knows a commit and not one file.
fn links(folder: &Path, tree: &str) -> Result<Vec<String>, GitError> {
    let listed = run_in(folder, ["ls-tree", "-r", "-z", tree])?;
    let entries = listed.split('\0').filter(|entry| entry.starts_with("160000 "));
    Ok(entries.filter_map(|entry| entry.split('\t').nth(1)).map(str::to_owned).collect())
}

fn remove_all(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // Folders that nobody may write to, as some package managers leave them.
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
