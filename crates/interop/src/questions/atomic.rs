//! Writes a file so that nobody ever sees half of it: beside its place, read back, synced, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::words;
use coven_files::ReadError;

use super::{QUESTION_FILE, fault};

words! {
    /// Where a write failed.
    pub enum Step {
        Create = "create",
        Write = "write",
        Verify = "verify",
        Sync = "sync",
        Rename = "rename",
        SyncFolder = "sync_folder",
    }
}

/// A file that could not be written. What was there before is there still and nothing else is left behind; only when the
/// last step failed, the new file is in its place and may not survive a power cut.
#[derive(Debug, thiserror::Error)]
#[error("Atomic write failed: {} ({step})", path.display())]
pub struct AtomicWriteError {
    pub path: PathBuf,
    pub step: Step,
    pub source: io::Error,
}

/// Replaces `target` by a file with this text, readable and writable by its owner only.
pub(super) fn write(target: &Path, text: &str) -> Result<(), AtomicWriteError> {
    let file = file_name(target);
    // Beside its place: a rename works within one file system only, and the folder for temporary files is often another.
    let temp = beside(target);
    let written = fill(&temp, &file, text).and_then(|()| {
        step(&file, Step::Rename, || fs::rename(&temp, target))?;
        step(&file, Step::SyncFolder, || sync_folder(target.parent().unwrap_or(Path::new("."))))
    });
    written.map_err(|(step, source)| {
        // Gone already if the rename was done.
        let _ = fs::remove_file(&temp);
        AtomicWriteError { path: target.to_owned(), step, source }
    })
}

/// A new file with this text, read back and synced, in a folder that nobody looks into yet.
pub(super) fn write_new(target: &Path, text: &str) -> Result<(), AtomicWriteError> {
    fill(target, &file_name(target), text).map_err(|(step, source)| AtomicWriteError {
        path: target.to_owned(),
        step,
        source,
    })
}

fn fill(path: &Path, file: &str, text: &str) -> Result<(), (Step, io::Error)> {
    // Nothing is written that could not be read again.
    if text.len() as u64 > QUESTION_FILE.bytes {
        return Err((Step::Write, ReadError::TooLarge { path: path.to_owned(), limit: QUESTION_FILE }.into()));
    }
    let mut opened = step(file, Step::Create, || {
        let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // Whatever the umask takes away.
        opened.set_permissions(fs::Permissions::from_mode(0o600))?;
        Ok(opened)
    })?;
    step(file, Step::Write, || opened.write_all(text.as_bytes()))?;
    step(file, Step::Verify, || {
        let mut found = String::new();
        opened.rewind()?;
        opened.read_to_string(&mut found)?;
        match found == text {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "what was written is not what is there")),
        }
    })?;
    step(file, Step::Sync, || opened.sync_all())
}

fn step<T>(file: &str, step: Step, act: impl FnOnce() -> io::Result<T>) -> Result<T, (Step, io::Error)> {
    fault::before(file, step.as_str()).and_then(|()| act()).map_err(|error| (step, error))
}

/// Makes a rename last.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A name in the same folder that nobody else has.
pub(super) fn beside(target: &Path) -> PathBuf {
    target.with_file_name(format!(".{}.{}.tmp", file_name(target), uuid::Uuid::new_v4().simple()))
}

fn file_name(target: &Path) -> String {
    target.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
