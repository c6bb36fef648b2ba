//! Git repositories, accessed through the `git` program.

mod guard;
mod merge;
mod own_config;
mod rescue;
mod run;
mod setting;
mod tracked;
mod worktree;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::{env, fs};

use coven_files::Limit;
use guard::Guard;
use own_config::GitFolders;

use crate::program;
use crate::trust::Part;

pub use merge::{FileChange, Landing, MergeTry, Merged};
pub use rescue::{Rescue, Rescued};
pub use run::{CancelOnDrop, CancelToken};
pub use tracked::{Tracked, tracked};
pub use worktree::{Worktree, WorktreeState};

/// A file in which Git stores a single name or path.
pub const GIT_FILE: Limit = Limit::new("a file in `.git` that holds a name or a path", 64 << 10);

pub const GIT_OUTPUT: Limit = Limit::new("the output of one git command", 64 << 20);
pub const GIT_ERRORS: Limit = Limit::new("the error output of one git command", 64 << 10);

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: {0}; install git")]
    NotRun(#[source] std::io::Error),
    #[error("{} is not inside a Git repository with a working tree; create one with `git init`", .0.display())]
    NotARepository(PathBuf),
    #[error("{} belongs to another user, so git does not use it; see safe.directory in `git help config`", .0.display())]
    NotOurs(PathBuf),
    #[error(
        "the Git config of {top} has settings that need your agreement: {keys}; run `coven trust {top}`",
        top = top.display()
    )]
    Untrusted { top: PathBuf, keys: String },
    #[error("git {what} failed: {why}")]
    Failed { what: String, why: String },
    #[error("the repository has no commits yet; create one with `git commit`")]
    NoCommit,
    #[error("the repository has a detached HEAD; choose a base branch with --base BRANCH")]
    NoBranch,
    #[error("the repository has no branch {0:?}; list them with `git branch`")]
    UnknownBranch(String),
    #[error("git {what} was stopped")]
    Stopped { what: String },
    #[error("git {what} was stopped after {seconds} seconds; check for a filter that hangs or a very large file")]
    TooLong { what: String, seconds: u64 },
    #[error("git {what} printed more than {GIT_OUTPUT}, the limit for {}", GIT_OUTPUT.what)]
    TooMuch { what: String },
    #[error("{0}")]
    Refused(String),
}

/// A repository, identified by the top folder of its working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    top: PathBuf,
    folders: GitFolders,
    guard: Guard,
}

/// Returns the top folder of the working tree that contains `path`, canonical.
pub fn top_of(path: &Path) -> Result<PathBuf, GitError> {
    let not_one = || GitError::NotARepository(path.to_owned());
    let output = run::output(git(path).args(["rev-parse", "--show-toplevel"]))?;
    let top = str::from_utf8(&output.stdout).ok().map(|text| text.trim_end_matches('\n').to_owned());
    match top.filter(|top| output.status.success() && !top.is_empty()) {
        Some(top) => fs::canonicalize(top).map_err(|_| not_one()),
        None => match error_of(path, "rev-parse", &output) {
            error @ GitError::NotOurs(_) => Err(error),
            _ => Err(not_one()),
        },
    }
}

/// Returns the settings of the repository around `path` that can run or open something and that the user has not agreed
/// to, and the repository's top folder.
pub fn untrusted_settings(path: &Path) -> Result<(PathBuf, Vec<Part>), GitError> {
    let Repository { top, guard, .. } = Repository::of(path)?;
    Ok((top, guard.untrusted_parts()))
}

impl Repository {
    pub fn of(path: &Path) -> Result<Self, GitError> {
        let top = top_of(path)?;
        let folders = GitFolders::of(&top)?;
        // Every call runs in `top`, but core.worktree could redirect it to another folder.
        if !is_same(&folders.files, &top) {
            let (asked, files) = (top.display(), folders.files.display());
            return Err(GitError::Refused(format!("core.worktree of {asked} is {files}; remove the setting")));
        }
        let guard = Guard::of(&top, &folders)?;
        Ok(Self { top, folders, guard })
    }

    /// Fails if the repository's own config has settings that can run or open something and that the user has not
    /// agreed to. Without them, e.g. without filters, coven would write wrong files.
    pub fn ensure_trusted(&self) -> Result<(), GitError> {
        self.guard.ensure_trusted(&self.top)
    }

    /// Returns a git command for a worktree of this repository. Programs in the repository's config run only if the
    /// user trusts it.
    fn git(&self, folder: &Path) -> Result<Command, GitError> {
        if folder != self.top {
            // The guard has read the config of this repository's worktrees only. Files in `.git`, which come with an
            // archive, can claim that any folder is one of them.
            let found = GitFolders::of(folder)?;
            if !found.is_part_of(&self.folders) || !is_same(&found.files, folder) {
                let (folder, top) = (folder.display(), self.top.display());
                return Err(GitError::Refused(format!("{folder} is not a worktree of {top}; see `git worktree list`")));
            }
        }
        let mut command = git(folder);
        self.guard.apply(&self.top, &mut command)?;
        Ok(command)
    }

    fn run_in<I: AsRef<OsStr>>(&self, folder: &Path, args: impl IntoIterator<Item = I>) -> Result<String, GitError> {
        let mut command = self.git(folder)?;
        command.args(args);
        succeeded(&mut command)
    }

    /// Returns the repository of a worktree.
    pub fn of_worktree(folder: &Path) -> Result<Self, GitError> {
        let git_folder = run_in(folder, ["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let top = Path::new(git_folder.trim_end_matches('\n')).parent();
        let top = top.filter(|top| *top != folder).ok_or_else(|| GitError::NotARepository(folder.to_owned()))?;
        Self::of(top)
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the base branch and its commit: the named branch, or else the one that is checked out.
    pub fn base(&self, named: Option<&str>) -> Result<(String, String), GitError> {
        let branch = match named {
            Some(name) => name.to_owned(),
            None => {
                let head = self.run_optional(["symbolic-ref", "-q", "--short", "HEAD"])?;
                head.ok_or(GitError::NoBranch)?
            }
        };
        // By its full name: `main^` is a commit, not a branch to merge into.
        let commit = self.run_optional(["show-ref", "--verify", "--hash", &format!("refs/heads/{branch}")])?;
        match (commit, named) {
            (Some(commit), _) => Ok((branch, commit)),
            (None, Some(_)) => Err(GitError::UnknownBranch(branch)),
            (None, None) => Err(GitError::NoCommit),
        }
    }

    /// Resolves a name to a commit.
    pub fn commit_of(&self, name: &str) -> Result<Option<String>, GitError> {
        self.run_optional(["rev-parse", "-q", "--verify", "--end-of-options", &format!("{name}^{{commit}}")])
    }

    pub fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, GitError> {
        let output = self.output(["merge-base", "--is-ancestor", older, newer])?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(GitError::Failed { what: "merge-base".to_owned(), why: error_summary(&output) }),
        }
    }

    /// Runs git in the top folder and returns its output; fails if git does.
    fn run<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Result<String, GitError> {
        self.run_in(&self.top, args)
    }

    /// Runs git in the top folder and returns its output; `None` if git fails or prints nothing.
    fn run_optional<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Result<Option<String>, GitError> {
        run_optional_in(&self.top, args)
    }

    fn output<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Result<Output, GitError> {
        run::output(self.git(&self.top)?.args(args))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

fn run_in<I: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = I>) -> Result<String, GitError> {
    let mut command = git(folder);
    command.args(args);
    succeeded(&mut command)
}

fn run_optional_in<I: AsRef<OsStr>>(
    folder: &Path,
    args: impl IntoIterator<Item = I>,
) -> Result<Option<String>, GitError> {
    let output = run::output(git(folder).args(args))?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    Ok(Some(text).filter(|text| output.status.success() && !text.is_empty()))
}

fn succeeded(command: &mut Command) -> Result<String, GitError> {
    let output = run::output(command)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let mut args = command.get_args().skip(1);
            let folder = PathBuf::from(args.next().unwrap_or_default());
            Err(error_of(&folder, &args.next().unwrap_or_default().to_string_lossy(), &output))
        }
    }
}

fn error_of(folder: &Path, what: &str, output: &Output) -> GitError {
    match String::from_utf8_lossy(&output.stderr).contains("dubious ownership") {
        true => GitError::NotOurs(folder.to_owned()),
        false => GitError::Failed { what: what.to_owned(), why: error_summary(output) },
    }
}

/// Returns the first lines of git's error output: the first one alone is often only an introduction.
fn error_summary(output: &Output) -> String {
    const LINES: usize = 3;
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let summary = lines.take(LINES).collect::<Vec<_>>().join(" ");
    if summary.is_empty() { "git printed no error message".to_owned() } else { summary }
}

/// The `PATH` for git, without relative entries, which would run programs from the repository.
static SEARCH_PATH: LazyLock<OsString> = LazyLock::new(|| {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let path = env::join_paths(folders).expect("a separator inside an entry would have split it");
    // An empty `PATH` means the current folder.
    if path.is_empty() { "/usr/bin:/bin".into() } else { path }
});

/// Path of the user's git. If git is not installed, the path does not exist, so starting it reports the error.
static PROGRAM: LazyLock<PathBuf> =
    LazyLock::new(|| program::find("git", Some(&SEARCH_PATH)).unwrap_or_else(|| PathBuf::from("/usr/bin/git")));

/// Returns a git command that works in `folder`, unaffected by the caller's environment.
fn git(folder: &Path) -> Command {
    let mut command = Command::new(&*PROGRAM);
    command.env("PATH", &*SEARCH_PATH);
    command.arg("-C").arg(folder);
    // These variables would select the caller's repository instead.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    guard::set(&mut command, 0, guard::OFF);
    command
        .env("GIT_PAGER", "cat")
        .env("GIT_EDITOR", "true")
        .env_remove("GIT_EXTERNAL_DIFF")
        // Fetching runs programs from the config. Older versions of git know only the first variable.
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Sets coven as author and committer if the user has not configured a name and email.
fn set_fallback_author(command: &mut Command, folder: &Path) {
    let knows = |key: &str| run::output(git(folder).args(["config", key])).is_ok_and(|it| it.status.success());
    if !knows("user.name") || !knows("user.email") {
        for (name, value) in [("NAME", "coven"), ("EMAIL", "coven@localhost")] {
            command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
    }
}

#[cfg(test)]
mod tests;
