//! Which settings of a repository start programs, and how they are switched off.
//!
//! A clone brings no `.git/config`, but an unpacked archive does, and so does a folder of another tool. Every call of git runs
//! without the programs that such a config names; filters and merge drivers run once the user trusts the repository.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::{GitError, error_of, git, run};
use crate::trust::{Part, TrustStore};

/// Settings that no call of coven needs, with the value that switches them off. Given on the command line, they win over
/// every config file.
pub(super) const OFF: [(&str, &str); 13] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    // A submodule has its own config.
    ("submodule.recurse", "false"),
    // Shows the diff of a submodule with a git that runs the programs in the submodule's config.
    ("diff.submodule", "short"),
    // Maintenance deletes objects, and runs a program to decide which.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("gc.recentObjectsHook", ""),
    // A fetch would write to any file that the config names.
    ("http.saveCookies", "false"),
    // Files of a repository can look like another repository, with its own config and its own list of tracked files.
    ("safe.bareRepository", "explicit"),
];

/// The settings that start programs when files or commits are read or written, as a pattern for `git config`.
const PROGRAMS: &str = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver|core\.(sshcommand|gitproxy|askpass)|credential\.(.*\.)?helper|remote\..*\.(uploadpack|receivepack|vcs))$";

/// The repository's own settings that start programs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Guard {
    parts: Vec<Part>,
    is_trusted: bool,
}

impl Guard {
    /// Asks git which programs the repository's own config names. The user's and the system's config do not count.
    pub(super) fn of(top: &Path) -> Result<Self, GitError> {
        let mut command = git(top);
        command.args(["config", "-z", "--show-scope", "--get-regexp", PROGRAMS]);
        let output = run::output(&mut command)?;
        let listed = match output.status.code() {
            Some(0) => String::from_utf8_lossy(&output.stdout).into_owned(),
            // None is set.
            Some(1) => String::new(),
            _ => return Err(error_of(top, "config", &output)),
        };
        let parts = parse(&listed);
        let is_trusted = parts.is_empty() || is_agreed(top, &parts);
        Ok(Self { parts, is_trusted })
    }

    pub(super) fn apply(&self, command: &mut Command) {
        if self.is_trusted {
            // A partial clone fetches objects when they are needed, but not by a program that a remote's address names.
            command.env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh").env_remove("GIT_NO_LAZY_FETCH");
            return;
        }
        let mut settings: Vec<(String, &str)> = self.parts.iter().map(|part| (part.key.clone(), "")).collect();
        // A filter that is required and does nothing is an error to git.
        let filters = self.parts.iter().filter_map(|part| part.key.rsplit_once('.'));
        settings.extend(
            filters
                .filter(|(name, _)| name.starts_with("filter."))
                .map(|(name, _)| (format!("{name}.required"), "false")),
        );
        set(command, OFF.len(), settings.iter().map(|(key, value)| (key.as_str(), *value)));
    }

    /// Fails if files cannot be written as the repository wants them, because its filters may not run.
    pub(super) fn ensure_trusted(&self, top: &Path) -> Result<(), GitError> {
        match self.is_trusted {
            true => Ok(()),
            false => {
                let keys: Vec<&str> = self.parts.iter().map(|part| part.key.as_str()).collect();
                Err(GitError::Untrusted { top: top.to_owned(), keys: keys.join(", ") })
            }
        }
    }

    pub(super) fn untrusted_parts(self) -> Vec<Part> {
        if self.is_trusted { Vec::new() } else { self.parts }
    }
}

/// Puts settings into the environment of a call, from the given place on.
pub(super) fn set<'a>(command: &mut Command, from: usize, settings: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut count = from;
    for (key, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// `scope NUL key LF value NUL` for each setting.
fn parse(listed: &str) -> Vec<Part> {
    let mut fields = listed.split('\0');
    let mut parts = Vec::new();
    while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
        if matches!(scope, "local" | "worktree") && !value.is_empty() {
            parts.push(Part::new(key, format!("runs {value}"), value.as_bytes()));
        }
    }
    parts
}

fn is_agreed(top: &Path, parts: &[Part]) -> bool {
    let is_own = fs::metadata(top).is_ok_and(|it| it.uid() == rustix::process::geteuid().as_raw());
    let agreement = TrustStore::locate().map(|store| store.agreement(top)).unwrap_or_default();
    is_own && parts.iter().all(|part| agreement.covers(part))
}
