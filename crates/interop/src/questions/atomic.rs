//! Writes files atomically: to a temporary file in the same folder, which is read back, synced and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coven_domain::string_enum;
use coven_files::ReadError;

use super::{QUESTION_FILE, fault};

string_enum! {
    /// The step at which a write failed.
    pub enum WriteStep {
        Create = "create",
        Write = "write",
        Verify = "verify",
        Sync = "sync",
        Rename = "rename",
        SyncFolder = "sync_folder",
    }
}

/// A failed write. The previous file is unchanged and no temporary file is left. Only if the last step failed, the new
/// file is in place but may not survive a power failure.
#[derive(Debug, thiserror::Error)]
#[error("Atomic write failed: {} ({step})", path.display())]
pub struct AtomicWriteError {
    pub path: PathBuf,
    pub step: WriteStep,
    pub source: io::Error,
}

/// Replaces `target` with a file that contains this text and that only the owner can access.
pub(super) fn write(target: &Path, text: &str) -> Result<(), AtomicWriteError> {
    let file = file_name(target);
    // In the same folder: a rename only works within one file system, and /tmp is often on another.
    let temp = temp_path(target);
    let written = fill(&temp, &file, text).and_then(|()| {
        step(&file, WriteStep::Rename, || fs::rename(&temp, target))?;
        step(&file, WriteStep::SyncFolder, || sync_folder(target.parent().unwrap_or(Path::new("."))))
    });
    written.map_err(|(step, source)| {
        // It no longer exists if the rename succeeded.
        let _ = fs::remove_file(&temp);
        AtomicWriteError { path: target.to_owned(), step, source }
    })
}

/// Creates a file with this text, read back and synced, in a folder that is not visible to readers yet.
pub(super) fn write_new(target: &Path, text: &str) -> Result<(), AtomicWriteError> {
    fill(target, &file_name(target), text).map_err(|(step, source)| AtomicWriteError {
        path: target.to_owned(),
        step,
        source,
    })
}

fn fill(path: &Path, file: &str, text: &str) -> Result<(), (WriteStep, io::Error)> {
    // Readers would reject a larger file.
    if text.len() as u64 > QUESTION_FILE.bytes {
        return Err((WriteStep::Write, ReadError::TooLarge { path: path.to_owned(), limit: QUESTION_FILE }.into()));
    }
    let mut opened = step(file, WriteStep::Create, || {
        let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // The umask may have removed permissions of the owner.
        opened.set_permissions(fs::Permissions::from_mode(0o600))?;
        Ok(opened)
    })?;
    step(file, WriteStep::Write, || opened.write_all(text.as_bytes()))?;
    step(file, WriteStep::Verify, || {
        let mut found = String::new();
        opened.rewind()?;
        opened.read_to_string(&mut found)?;
        match found == text {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not contain the written text")),
        }
    })?;
    step(file, WriteStep::Sync, || opened.sync_all())
}

fn step<T>(file: &str, step: WriteStep, act: impl FnOnce() -> io::Result<T>) -> Result<T, (WriteStep, io::Error)> {
    fault::before(file, step.as_str()).and_then(|()| act()).map_err(|error| (step, error))
}

/// Syncs a folder, so that a rename in it survives a power failure.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns a unique temporary path in the same folder.
pub(super) fn temp_path(target: &Path) -> PathBuf {
    target.with_file_name(format!(".{}.{}.tmp", file_name(target), uuid::Uuid::new_v4().simple()))
}

fn file_name(target: &Path) -> String {
    target.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
