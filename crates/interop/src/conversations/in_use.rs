//! Marks an open conversation with a shared lock on `<id>.jsonl.use`, which the kernel releases when the process ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coven_files::Links;

use super::is_still_at;

/// A lock that is held until it is dropped. The last process to drop its lock removes the file.
#[derive(Debug)]
pub(super) struct InUse {
    path: PathBuf,
    file: File,
}

impl InUse {
    /// Marks the conversation as open, which protects it from cleanup and deletion.
    pub(super) fn mark(session: &Path) -> io::Result<Self> {
        loop {
            let mark = Self::open(session)?;
            // An exclusive lock is only held for the moment of a deletion.
            mark.file.lock_shared()?;
            // Otherwise, the file was removed during the wait: start again with a new one.
            if is_still_at(&mark.file, &mark.path)? {
                return Ok(mark);
            }
        }
    }

    /// Takes an exclusive lock for deletion; the conversation cannot be opened until it is dropped. Returns `None` if
    /// the conversation is open.
    pub(super) fn try_exclusive(session: &Path) -> io::Result<Option<Self>> {
        loop {
            let mark = Self::open(session)?;
            match mark.file.try_lock() {
                Ok(()) if is_still_at(&mark.file, &mark.path)? => return Ok(Some(mark)),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn open(session: &Path) -> io::Result<Self> {
        let path = path_of(session);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // Keep the file while other processes hold a lock, and do not remove one that has replaced ours.
        if self.file.try_lock().is_ok() && is_still_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns whether a process has the conversation open.
pub(super) fn is_in_use(session: &Path) -> bool {
    let marked = coven_files::open(&path_of(session), Links::Refuse);
    marked.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn path_of(session: &Path) -> PathBuf {
    let mut name = session.file_name().unwrap_or_default().to_owned();
    name.push(".use");
    session.with_file_name(name)
}
