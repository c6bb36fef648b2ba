//! Accepting pages that do not match their checksums.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::checksums::{self, Rewrite};
use super::connection::{Lock, beside, open_private, open_writer};
use super::migrations::{check_structure, checkpoint, version};
use crate::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The pages that did not match, and do now.
    pub pages: Vec<u64>,
    /// The file as it was.
    pub original: PathBuf,
}

/// Gives every page the checksum of what it holds now, after keeping a copy of the file. `None`: all pages match. A file whose
/// structure is damaged stays as it is.
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
    // SQLite's own way to the file, which checks no page.
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

/// Copies a file that appears under its name when it is whole.
fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let half_done = beside(to, ".tmp");
    let copied = fs::copy(from, &half_done).and_then(|_| File::open(&half_done)?.sync_all());
    copied.and_then(|()| fs::rename(&half_done, to)).map_err(StoreError::io(format!("write {}", to.display())))
}

fn unused_name(path: &Path) -> PathBuf {
    let mut names = (1..).map(|number| beside(path, &format!(".damaged-{number}")));
    names.find(|name| fs::symlink_metadata(name).is_err()).expect("there are more numbers than files")
}
