//! Files and connections: made private, set up the same way every time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::OFlags;

use super::migrations;
use crate::StoreError;

/// A connection's own pages, in KiB as SQLite wants it: the kernel has the file in memory anyway.
const CACHE: i64 = -512;
const PRIVATE: u32 = 0o600;
/// Files that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Only another program's short look at the file can be in the way: our own writers take turns.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// A commit writes whole pages, and ours are a few small rows; larger pages only cost bytes.
const PAGE_SIZE: u32 = 4096;
/// What the write-ahead log is cut back to after a burst.
const WAL_LIMIT_BYTES: u32 = 16 << 20;
const CACHED_STATEMENTS: usize = 64;

/// Ownership of a database file, held until it is dropped. The kernel lets go of it when the process dies.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database, ".lock");
        let file = open_private(&path).map_err(StoreError::io(format!("open {}", path.display())))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked),
            Err(TryLockError::Error(source)) => Err(StoreError::io(format!("lock {}", path.display()))(source)),
        }
    }
}

/// The path with something added to its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes sure the file is there and nobody else can read it; its companions get the same mode from SQLite.
pub(super) fn make_private(path: &Path) -> Result<(), StoreError> {
    open_private(path)
        .and_then(|file| file.set_permissions(fs::Permissions::from_mode(PRIVATE)))
        .map_err(StoreError::io(format!("create {}", path.display())))?;
    COMPANIONS.iter().try_for_each(|suffix| ensure_regular(&beside(path, suffix)))
}

/// Opens a file for writing and creates it if it is missing; never through a link, and only a regular file.
fn open_private(path: &Path) -> io::Result<File> {
    ensure_regular(path).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// SQLite would follow a link, and wait for the writer of a fifo. Nothing is opened here: closing a second descriptor of a
/// database drops the locks of the first.
pub(super) fn ensure_regular(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotAFile { path: path.to_owned() }),
        _ => Ok(()),
    }
}

pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    ensure_regular(path)?;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Before anything is set: another program's database, or a newer one, stays as it is.
    migrations::version(&connection)?;
    // The page size counts only until the first page is written, so it stands first.
    connection.pragma_update(None, "page_size", PAGE_SIZE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_LIMIT_BYTES)?;
    // A commit survives a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    ensure_regular(path)?;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "cache_size", CACHE)?;
    Ok(connection)
}
