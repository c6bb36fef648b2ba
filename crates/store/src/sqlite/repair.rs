//! Accepts pages that do not match their checksums.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::checksums::{self, Rewrite};
use super::connection::{Lock, beside, open_private, open_writer};
use super::migrations::{check_structure, checkpoint, version};
use crate::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The pages whose checksums were rewritten.
    pub pages: Vec<u64>,
    /// A copy of the original file.
    pub original: PathBuf,
}

/// Copies the file, then gives every page the checksum of its current content. Returns `None` if all pages match.
/// Leaves a file with a damaged structure unchanged.
pub fn repair(path: impl AsRef<Path>) -> Result<Option<Repaired>, StoreError> {
    let path = path.as_ref();
    let mut lock = Lock::take(path)?;
    let reading = StoreError::io(format!("read {}", path.display()));
    let pages = open_private(path).and_then(|file| checksums::damaged_pages(&file)).map_err(reading)?;
    if pages.is_empty() {
        return Ok(None);
    }
    let original = unused_name(path);
    copy(path, &original)?;
    if beside(path, "-wal").exists() {
        copy(&beside(path, "-wal"), &beside(&original, "-wal"))?;
    }
    // SQLite's default VFS does not verify our checksums.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if let Err(problem) = version(&connection).and_then(|_| check_structure(&connection)) {
        for copy in [original.clone(), beside(&original, "-wal")] {
            // Nothing was changed, so the copies are not needed.
            let _ = fs::remove_file(copy);
        }
        return Err(problem);
    }
    checkpoint(&connection)?;
    drop(connection);
    lock.rewrite_checksums(Rewrite::All)?;
    check_structure(&open_writer(&lock)?)?;
    Ok(Some(Repaired { pages, original }))
}

/// Copies a file; the copy appears under its name only once it is complete.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let half_done = beside(to, ".tmp");
    let copied = fs::copy(from, &half_done).and_then(|_| File::open(&half_done)?.sync_all());
    copied.and_then(|()| fs::rename(&half_done, to)).map_err(StoreError::io(format!("write {}", to.display())))
}

fn unused_name(path: &Path) -> PathBuf {
    let mut names = (1..).map(|number| beside(path, &format!(".damaged-{number}")));
    names.find(|name| fs::symlink_metadata(name).is_err()).expect("there are more numbers than files")
}
