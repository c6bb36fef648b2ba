//! The config files of a repository, for all of its work trees, with everything that they include under any condition.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::setting::{Effect, effect_of};
use super::{GitError, error_of, git, run};

/// Nobody splits a config into more files.
const MOST_FILES: usize = 64;

/// Every value of every setting. A key is not always valid UTF-8.
pub(super) type Settings = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

type Setting = (Vec<u8>, Vec<u8>);

/// Where git keeps a repository, and where it keeps the part of one work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFolders {
    pub(super) common: PathBuf,
    pub(super) own: PathBuf,
    /// The work tree.
    pub(super) files: PathBuf,
}

impl GitFolders {
    /// Asks git about the folder, without reading anything else there.
    pub(super) fn of(folder: &Path) -> Result<Self, GitError> {
        let mut command = git(folder);
        command.args([
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--absolute-git-dir",
            "--show-toplevel",
        ]);
        let output = run::output(&mut command)?;
        if !output.status.success() {
            return Err(error_of(folder, "rev-parse", &output));
        }
        let mut lines = output.stdout.split(|byte| *byte == b'\n').map(|line| PathBuf::from(OsStr::from_bytes(line)));
        match (lines.next(), lines.next(), lines.next(), lines.next(), lines.next()) {
            (Some(common), Some(own), Some(files), Some(end), None) if end.as_os_str().is_empty() => {
                Ok(Self { common, own, files })
            }
            _ => Err(GitError::Refused(format!("the path of {} contains a line break; rename it", folder.display()))),
        }
    }

    /// Whether `self` is the repository, or a work tree of it whose config [`Self::settings`] of the repository includes.
    pub(super) fn is_part_of(&self, repository: &Self) -> bool {
        let is_known = self.own == repository.own || self.own.parent() == Some(&repository.common.join("worktrees"));
        self.common == repository.common && (is_known || self.own == repository.common)
    }

    /// Every setting that can be in force in a work tree of this repository, now or once it is added.
    pub(super) fn settings(&self) -> Result<Settings, GitError> {
        let worktrees = fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        let own = worktrees.map(|entry| entry.path()).chain([self.common.clone(), self.own.clone()]);
        let mut left: Vec<PathBuf> = own.map(|folder| folder.join("config.worktree")).collect();
        left.push(self.common.join("config"));
        let (mut settings, mut seen, mut included) = (Settings::new(), BTreeSet::new(), 0);
        while let Some(file) = left.pop() {
            if !seen.insert(file.clone()) {
                continue;
            }
            for (key, value) in self.read(&file)? {
                let text = String::from_utf8_lossy(&key);
                if effect_of(&text, [&value[..]].into_iter()) == Effect::Include {
                    included += 1;
                    if included > MOST_FILES {
                        let file = file.display();
                        return Err(GitError::Refused(format!(
                            "{file} includes more than {MOST_FILES} files; merge some"
                        )));
                    }
                    left.push(included_file(&file, &value)?);
                    // Newer versions of git know this prefix; older ones take it as part of the name.
                    if let Some(name) = value.strip_prefix(b":(optional)") {
                        left.push(included_file(&file, name)?);
                    }
                }
                settings.entry(key).or_default().insert(value);
            }
        }
        Ok(settings)
    }

    /// The settings in one file, without those in the files it includes. A missing file has none.
    fn read(&self, file: &Path) -> Result<Vec<Setting>, GitError> {
        match fs::metadata(file) {
            Ok(found) if found.is_file() => {}
            // Git would wait for a writer, or read without an end.
            Ok(found) if !found.is_dir() => {
                return Err(GitError::Refused(format!("{} is not a regular file; remove it", file.display())));
            }
            _ => return Ok(Vec::new()),
        }
        let mut command = git(&self.files);
        command.args(["config", "-z", "--no-includes", "--list", "--file"]).arg(file);
        let output = run::output(&mut command)?;
        if !output.status.success() {
            return Err(error_of(file, "config", &output));
        }
        // `key LF value NUL`; a key without `=` has no line break and means true.
        let entries = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let parted = entries.map(|entry| match entry.iter().position(|byte| *byte == b'\n') {
            Some(at) => (entry[..at].to_vec(), entry[at + 1..].to_vec()),
            None => (entry.to_vec(), b"true".to_vec()),
        });
        Ok(parted.collect())
    }
}

/// The file that an include names, as git finds it.
fn included_file(from: &Path, value: &[u8]) -> Result<PathBuf, GitError> {
    let home = || env::var_os("HOME").map(PathBuf::from);
    let path = match value {
        [b'~', b'/', rest @ ..] => home().map(|home| home.join(OsStr::from_bytes(rest))),
        [b'~', ..] | [b'%', b'(', ..] => None,
        _ => from.parent().map(|folder| folder.join(OsStr::from_bytes(value))),
    };
    path.ok_or_else(|| {
        let (from, value) = (from.display(), String::from_utf8_lossy(value));
        GitError::Refused(format!("{from} includes {value}, which coven cannot find; name it by an absolute path"))
    })
}
