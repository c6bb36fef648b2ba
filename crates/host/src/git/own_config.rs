//! Reads the config files of a repository, for all of its worktrees, with all files that they include under any
//! condition.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::setting::{Effect, effect_of};
use super::{GitError, error_of, git, run};

/// Limit against endless includes; real configs include far fewer files.
const MAX_INCLUDES: usize = 64;

/// All values of each setting. A key is not always valid UTF-8.
pub(super) type Settings = BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>;

type Setting = (Vec<u8>, Vec<u8>);

/// The folders of a repository and of one of its worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitFolders {
    pub(super) common: PathBuf,
    pub(super) own: PathBuf,
    /// Top folder of the working tree.
    pub(super) files: PathBuf,
}

impl GitFolders {
    /// Queries git for the folders, without reading anything else in `folder`.
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

    /// Returns whether `self` is the repository or a worktree of it whose config [`Self::settings`] includes.
    pub(super) fn is_part_of(&self, repository: &Self) -> bool {
        let is_known = self.own == repository.own || self.own.parent() == Some(&repository.common.join("worktrees"));
        self.common == repository.common && (is_known || self.own == repository.common)
    }

    /// Returns every setting that can apply in a worktree of this repository, including one that is added later.
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
                    if included > MAX_INCLUDES {
                        let file = file.display();
                        return Err(GitError::Refused(format!(
                            "{file} includes more than {MAX_INCLUDES} files; merge some"
                        )));
                    }
                    left.push(included_file(&file, &value)?);
                    // Newer versions of git interpret this prefix; older ones treat it as part of the name.
                    if let Some(name) = value.strip_prefix(b":(optional)") {
                        left.push(included_file(&file, name)?);
                    }
                }
                settings.entry(key).or_default().insert(value);
            }
        }
        Ok(settings)
    }

    /// Reads the settings of one file, without the files that it includes. A missing file has none.
    fn read(&self, file: &Path) -> Result<Vec<Setting>, GitError> {
        match fs::metadata(file) {
            Ok(found) if found.is_file() => {}
            // Git would wait for a writer, or read endlessly.
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
        let pairs = entries.map(|entry| match entry.iter().position(|byte| *byte == b'\n') {
            Some(at) => (entry[..at].to_vec(), entry[at + 1..].to_vec()),
            None => (entry.to_vec(), b"true".to_vec()),
        });
        Ok(pairs.collect())
    }
}

/// Resolves the path of an include as git does.
fn included_file(from: &Path, value: &[u8]) -> Result<PathBuf, GitError> {
    let home = || env::var_os("HOME").map(PathBuf::from);
    let path = match value {
        [b'~', b'/', rest @ ..] => home().map(|home| home.join(OsStr::from_bytes(rest))),
        [b'~', ..] | [b'%', b'(', ..] => None,
        _ => from.parent().map(|folder| folder.join(OsStr::from_bytes(value))),
    };
    path.ok_or_else(|| {
        let (from, value) = (from.display(), String::from_utf8_lossy(value));
        GitError::Refused(format!("{from} includes {value}, which coven cannot resolve; use an absolute path"))
    })
}
