//! Finds and reads the older coven's files, and renames those that were imported.

mod agent;
mod fields;
mod issue;
mod question;
pub mod records;
mod session;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod workflow;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use coven_domain::Timestamp;
use coven_files::{Limit, Links, ReadError};
pub use records::{
    Counts, Import, Known, Legacy, LegacyAgent, LegacyQuestion, LegacyTask, LegacyWorkflow, SkippedItem, Source, import,
};
use serde_json::Value;

/// The older coven never wrote larger files.
pub const LEGACY_FILE: Limit = Limit::new("a file of the older coven", 16 << 20);
/// All issues are imported in one transaction.
pub const ISSUES: Limit = Limit::new("`.beads/issues.jsonl`", 64 << 20);
pub const ISSUE: Limit = Limit::new("a line of `.beads/issues.jsonl`", 1 << 20);
const WHOLE: &str = "the file";

/// A file that was read, and its identity at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyFile {
    /// Relative to the home.
    pub name: String,
    path: PathBuf,
    stamp: Stamp,
}

/// Changes with every write to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.size(), modified }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct LegacyFindings {
    pub legacy: Legacy,
    pub left: Vec<SkippedItem>,
    /// Files without anything to import. They are left in place.
    pub leftovers: Vec<SkippedItem>,
    pub files: Vec<LegacyFile>,
}

type Take = fn(&Value, &Source, &mut Legacy, &mut Vec<SkippedItem>);

/// Returns whether the home has old state that `coven db import` would import and rename.
pub fn is_in(home: &Path) -> bool {
    let holds_json = |folder: &str| {
        fs::read_dir(home.join(folder)).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        })
    };
    home.join("state.json").is_file() || ["workflows", "familiars", "questions"].into_iter().any(holds_json)
}

/// Reads all old state. Items that cannot be parsed are reported and left in place.
pub fn read(home: &Path, project: Option<&Path>) -> LegacyFindings {
    let mut found = LegacyFindings::default();
    for path in files_in(home, ".", &mut found) {
        match name_of(&path).as_str() {
            "state.json" => {
                let is_read = read_file(&path, "state.json", state::take, &mut found);
                found.legacy.is_task_list_partial |= !is_read;
            }
            "session.json" => {
                let mut session = LegacyFindings::default();
                read_file(&path, "session.json", session::take, &mut session);
                found.leftovers.append(&mut session.left);
            }
            name => {
                // Other files do not belong to the older coven.
                if let Some(whole @ ("state.json" | "session.json")) = final_name(name) {
                    found.leftovers.push(incomplete(name, whole));
                }
            }
        }
    }
    if let Some(project) = project {
        issue::read(project, &mut found);
    }
    let folders: [(&str, Take); 3] =
        [("familiars", agent::take_familiar), ("workflows", workflow::take), ("questions", question::take)];
    for (folder, take) in folders {
        for path in files_in(&home.join(folder), folder, &mut found) {
            let name = name_of(&path);
            let shown = format!("{folder}/{name}");
            if path.extension().is_some_and(|ending| ending == "json") {
                read_file(&path, &shown, take, &mut found);
            } else if let Some(whole) = final_name(&name) {
                found.leftovers.push(incomplete(&shown, whole));
            }
        }
    }
    found
}

/// Returns the files of a folder, sorted by name. A missing folder has none.
fn files_in(folder: &Path, shown: &str, found: &mut LegacyFindings) -> Vec<PathBuf> {
    let files: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    match files {
        Ok(mut files) => {
            files.sort();
            files
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let source = Source { file: shown.to_owned(), ..Source::default() };
            found.left.push(source.left("the folder", format!("cannot be read: {error}")));
            Vec::new()
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns `a.json` for `a.json.tmp` and similar names, which files had while they were being written.
fn final_name(name: &str) -> Option<&str> {
    let (stem, ending) = name.rsplit_once(".json.")?;
    let is_temp = ending.split(['.', '-']).any(|part| part == "tmp");
    is_temp.then(|| &name[..stem.len() + ".json".len()])
}

fn incomplete(name: &str, whole: &str) -> SkippedItem {
    let source = Source { file: name.to_owned(), ..Source::default() };
    source.left(WHOLE, format!("incomplete file; only a complete {whole} is imported"))
}

/// Reads a file. Returns whether it contains valid JSON; items that cannot be parsed are reported individually.
fn read_file(path: &Path, name: &str, take: Take, found: &mut LegacyFindings) -> bool {
    let mut source = Source { file: name.to_owned(), ..Source::default() };
    let (bytes, metadata) = match bytes_of(path) {
        Ok(read) => read,
        Err(why) => {
            found.left.push(source.left(WHOLE, why));
            return false;
        }
    };
    source.modified_at = modified_at(&metadata);
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(value) => {
            take(&value, &source, &mut found.legacy, &mut found.left);
            found.files.push(LegacyFile { name: source.file, path: path.to_owned(), stamp: Stamp::of(&metadata) });
            true
        }
        Err(error) => {
            found.left.push(source.left(WHOLE, format!("not valid JSON: {error}")));
            false
        }
    }
}

fn bytes_of(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let (file, metadata) = opened(path)?;
    Ok((coven_files::read_opened(file, path, LEGACY_FILE).map_err(why)?, metadata))
}

fn opened(path: &Path) -> Result<(File, Metadata), String> {
    let file = coven_files::open(path, Links::Refuse).map_err(why)?;
    let metadata = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    Ok((file, metadata))
}

/// Returns why a file cannot be read, without its name.
fn why(error: ReadError) -> String {
    match error {
        ReadError::Io { source, .. } => format!("cannot be read: {source}"),
        ReadError::Link { .. } => "a symbolic link".to_owned(),
        ReadError::NotRegular { kind, .. } => format!("{kind}, not a regular file"),
        ReadError::TooLarge { limit, .. } => format!("larger than {limit}"),
        error @ (ReadError::NotText { .. } | ReadError::LongStream { .. }) => error.to_string(),
    }
}

fn modified_at(metadata: &Metadata) -> Timestamp {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

impl LegacyFile {
    /// Returns the name of the file after `rename_imported`, relative to the home.
    pub fn aside_name(&self) -> String {
        format!("{}.{}", self.name, self.ending())
    }

    fn ending(&self) -> String {
        let is_free = |ending: &str| fs::symlink_metadata(self.with_ending(ending)).is_err();
        let numbered = (2_u32..).map(|nth| format!("migrated-{nth}"));
        ["migrated".to_owned()].into_iter().chain(numbered).find(|ending| is_free(ending)).unwrap_or_default()
    }

    fn with_ending(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// Renames the file and returns its new name, or `None` if it no longer exists.
    pub fn rename_imported(&self) -> Result<Option<String>, SkippedItem> {
        let source = Source { file: self.name.clone(), ..Source::default() };
        let failed = |error: io::Error| source.left(WHOLE, format!("imported, but cannot be renamed: {error}"));
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(metadata) if Stamp::of(&metadata) != self.stamp => {
                let why =
                    "changed during the import; stop the process that writes it, then run `coven db import` again";
                return Err(source.left(WHOLE, why));
            }
            metadata => metadata.map(drop).map_err(failed)?,
        }
        let ending = self.ending();
        fs::rename(&self.path, self.with_ending(&ending)).map_err(failed)?;
        Ok(Some(format!("{}.{ending}", self.name)))
    }
}
