//! The mark of a conversation that somebody has open: a shared lock on `<id>.jsonl.use`, which goes with its process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coven_files::Links;

use super::is_still_at;

/// Held until it is dropped; the last one out takes the file away.
#[derive(Debug)]
pub(super) struct InUse {
    path: PathBuf,
    file: File,
}

impl InUse {
    /// From now on this conversation is spared by cleaning and deleting.
    pub(super) fn mark(session: &Path) -> io::Result<Self> {
        loop {
            let mark = Self::open(session)?;
            // Who holds it for itself alone only deletes a file and is gone.
            mark.file.lock_shared()?;
            // Else it was taken away while we waited.
            if is_still_at(&mark.file, &mark.path)? {
                return Ok(mark);
            }
        }
    }

    /// For the one who deletes: nobody has it open, and nobody can until this is dropped.
    pub(super) fn by_nobody(session: &Path) -> io::Result<Option<Self>> {
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
        // A lock of others keeps the file; a file that is not there any more is not ours to remove.
        if self.file.try_lock().is_ok() && is_still_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether somebody has it open now.
pub(super) fn is_in_use(session: &Path) -> bool {
    let marked = coven_files::open(&path_of(session), Links::Refuse);
    marked.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn path_of(session: &Path) -> PathBuf {
    let mut name = session.file_name().unwrap_or_default().to_owned();
    name.push(".use");
    session.with_file_name(name)
}
