//! Finds the settings of a repository that can run or open something, and disables them.
//!
//! A clone does not include a `.git/config`, but an unpacked archive can, and so can a folder of another tool. Every
//! git command runs without the programs in such a config; filters and merge drivers run once the user trusts the
//! repository.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::GitError;
use super::own_config::{GitFolders, Settings};
use super::setting::{Effect, effect_of, is_secure_address};
use crate::trust::{Part, TrustStore};

/// Settings that coven never needs, with the value that disables them. Values from the environment override every
/// config file.
pub(super) const OFF: [(&str, &str); 13] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    // A submodule has its own config.
    ("submodule.recurse", "false"),
    // Other values run git in the submodule, with the programs in the submodule's config.
    ("diff.submodule", "short"),
    // Maintenance deletes objects and runs a program to choose them.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("gc.recentObjectsHook", ""),
    // A fetch could write to any file named in the config.
    ("http.saveCookies", "false"),
    // Files in a repository can look like another repository, with its own config and its own list of tracked files.
    ("safe.bareRepository", "explicit"),
];

/// The repository's own settings that can run or open something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Guard {
    settings: Vec<(Effect, Part)>,
    is_trusted: bool,
    /// Whether this is a partial clone, for which git fetches missing objects on demand.
    is_partial: bool,
}

impl Guard {
    /// Reads the repository's own config, for all of its worktrees. The user's and the system's config are trusted.
    pub(super) fn of(top: &Path, folders: &GitFolders) -> Result<Self, GitError> {
        Self::with_trust(top, folders, TrustStore::locate().ok().as_ref())
    }

    pub(super) fn with_trust(top: &Path, folders: &GitFolders, trust: Option<&TrustStore>) -> Result<Self, GitError> {
        let found = folders.settings()?;
        let promisors = promisors(&found);
        let mut settings = Vec::new();
        for (key, values) in &found {
            let text = String::from_utf8_lossy(key);
            let effect = match effect_of(&text, values.iter().map(Vec::as_slice)) {
                Effect::None if is_insecure_promisor(&text, values, &promisors) => Effect::Fetch,
                Effect::None => continue,
                Effect::Program | Effect::Options if values.iter().all(Vec::is_empty) => continue,
                effect => effect,
            };
            // Coven could not disable it, nor record the user's agreement, under its exact name.
            let Ok(key) = str::from_utf8(key) else {
                return Err(GitError::Refused(format!(
                    "the config of {} has a setting whose name is not valid UTF-8: {text:?}; remove or rename it",
                    top.display()
                )));
            };
            settings.push((effect, part(effect, key, values)));
        }
        let is_trusted = settings.is_empty() || is_agreed(top, &settings, trust);
        Ok(Self { settings, is_trusted, is_partial: !promisors.is_empty() })
    }

    /// Prepares a command. Fails if the repository has a setting that the user has not agreed to and that coven cannot
    /// disable.
    pub(super) fn apply(&self, top: &Path, command: &mut Command) -> Result<(), GitError> {
        if self.is_trusted {
            if self.is_partial {
                // No setting about fetching needed agreement, or the user agreed to all of them.
                let protocols = if self.settings.is_empty() { "https:ssh" } else { "file:git:http:https:ssh" };
                command.env("GIT_ALLOW_PROTOCOL", protocols).env_remove("GIT_NO_LAZY_FETCH");
            }
            return Ok(());
        }
        let mut off: Vec<(String, &str)> = Vec::new();
        for (effect, part) in &self.settings {
            match effect {
                Effect::Program | Effect::Options => off.push((part.key.clone(), "")),
                // Coven does not fetch, and settings from included files are disabled one by one.
                Effect::None | Effect::Fetch | Effect::Include => {}
                Effect::Unknown => return self.ensure_trusted(top),
            }
        }
        // To git, a required filter without a command is an error.
        let filters = self.settings.iter().filter_map(|(_, part)| part.key.rsplit_once('.'));
        off.extend(
            filters
                .filter(|(name, _)| name.starts_with("filter."))
                .map(|(name, _)| (format!("{name}.required"), "false")),
        );
        set(command, OFF.len(), off.iter().map(|(key, value)| (key.as_str(), *value)));
        Ok(())
    }

    /// Fails if the user has not agreed to all settings, because without its filters git would write wrong files.
    pub(super) fn ensure_trusted(&self, top: &Path) -> Result<(), GitError> {
        match self.is_trusted {
            true => Ok(()),
            false => {
                let keys: Vec<&str> = self.settings.iter().map(|(_, part)| part.key.as_str()).collect();
                Err(GitError::Untrusted { top: top.to_owned(), keys: keys.join(", ") })
            }
        }
    }

    pub(super) fn untrusted_parts(self) -> Vec<Part> {
        if self.is_trusted { Vec::new() } else { self.settings.into_iter().map(|(_, part)| part).collect() }
    }
}

/// Adds settings to the environment of a command, numbered from `from`.
pub(super) fn set<'a>(command: &mut Command, from: usize, settings: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut count = from;
    for (key, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// Returns the remotes from which git fetches missing objects.
fn promisors(settings: &Settings) -> BTreeSet<Vec<u8>> {
    let marked = settings.keys().filter_map(|key| key.strip_prefix(b"remote.")?.strip_suffix(b".promisor"));
    let named = settings.get(&b"extensions.partialclone"[..]).into_iter().flatten();
    marked.map(<[u8]>::to_vec).chain(named.cloned()).collect()
}

/// Returns whether the setting makes git fetch missing objects from this machine or without encryption.
fn is_insecure_promisor(key: &str, urls: &BTreeSet<Vec<u8>>, promisors: &BTreeSet<Vec<u8>>) -> bool {
    let remote = key.strip_prefix("remote.").and_then(|rest| rest.strip_suffix(".url"));
    remote.is_some_and(|remote| promisors.contains(remote.as_bytes())) && !urls.iter().all(|url| is_secure_address(url))
}

/// Builds one part for all values of a key: git uses the last value, or all of them.
fn part(effect: Effect, key: &str, values: &BTreeSet<Vec<u8>>) -> Part {
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).filter(|value| !value.is_empty()).collect();
    let shown = values.iter().map(|value| String::from_utf8_lossy(value)).collect::<Vec<_>>().join(", ");
    let shown = match effect {
        Effect::Program => format!("runs {shown}"),
        Effect::Include => format!("loads settings from {shown}"),
        Effect::Fetch if key.ends_with(".url") => format!("fetches missing objects from {shown}"),
        Effect::None | Effect::Options | Effect::Fetch | Effect::Unknown => format!("is set to {shown}"),
    };
    Part::new(key, shown, &values.join(&0))
}

fn is_agreed(top: &Path, settings: &[(Effect, Part)], trust: Option<&TrustStore>) -> bool {
    let is_own = fs::metadata(top).is_ok_and(|it| it.uid() == rustix::process::geteuid().as_raw());
    let agreement = trust.map(|store| store.agreement(top)).unwrap_or_default();
    is_own && settings.iter().all(|(_, part)| agreement.covers(part))
}
