//! Accepting pages that do not match their checksums.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::checksums::{self, Rewrite};
use super::connection::{Lock, beside, ensure_regular, open_private, open_writer};
use super::migrations::{check_integrity, checkpoint, version};
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
    ensure_regular(path)?;
    // SQLite's own way to the file, which checks nothing.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    version(&connection)?;
    checkpoint(&connection)?;
    check_integrity(&connection, path)?;
    drop(connection);

    let reading = || StoreError::io(format!("read {}", path.display()));
    let pages = open_private(path).and_then(|file| checksums::damaged_pages(&file)).map_err(reading())?;
    if pages.is_empty() {
        return Ok(None);
    }
    let original = unused_name(path);
    fs::copy(path, &original).map_err(StoreError::io(format!("write {}", original.display())))?;
    lock.rewrite_checksums(Rewrite::All)?;
    check_integrity(&open_writer(path, lock.checks())?, path)?;
    Ok(Some(Repaired { pages, original }))
}

fn unused_name(path: &Path) -> PathBuf {
    let names = (1..).map(|number| beside(path, &format!(".damaged-{number}")));
    names.into_iter().find(|name| fs::symlink_metadata(name).is_err()).expect("there are more numbers than files")
}
