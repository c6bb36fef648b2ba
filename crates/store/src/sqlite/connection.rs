//! Files and connections: made private, set up the same way every time.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::OFlags;

use super::checksums::{self, Beginning, Rewrite};
use super::migrations;
use crate::StoreError;

/// A connection's own pages, in KiB as SQLite wants it: the kernel has the file in memory anyway.
const CACHE: i64 = -512;
const PRIVATE: u32 = 0o600;
/// Files that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Only another program's short look at the file can be in the way: our own writers take turns.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// More than the lock file holds when we wrote it.
const MAX_MARK_BYTES: u64 = 128;
/// What the write-ahead log is cut back to after a burst.
const WAL_LIMIT_BYTES: u32 = 16 << 20;
const CACHED_STATEMENTS: usize = 64;

/// Ownership of a database file, held until it is dropped. The kernel lets go of it when the process dies.
///
/// Between two owners the lock file says whether every page of the database has a checksum: it names the database if its last
/// owner closed it in order.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    database: PathBuf,
    /// Whether the file has, or will have, room for checksums. What SQLite knows may come from the write-ahead log.
    has_room: bool,
    /// The database is left to an older program, which keeps no checksums.
    is_for_older: bool,
}

impl Lock {
    /// Takes the lock and looks at the database, before this process has a connection to it: closing a second descriptor of the
    /// file would drop SQLite's locks.
    pub(super) fn take(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database, ".lock");
        let file = open_private(&path).map_err(StoreError::io(format!("open {}", path.display())))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked),
            Err(TryLockError::Error(source)) => return Err(StoreError::io(format!("lock {}", path.display()))(source)),
        }
        let mut lock = Self { file, database: database.to_owned(), has_room: true, is_for_older: false };
        ensure_regular(database)?;
        if database.exists() {
            lock.look_at_database()?;
        }
        // Until the database is closed in order, another program may write pages without checksums to it.
        lock.file.set_len(0).map_err(StoreError::io(format!("write {}", path.display())))?;
        Ok(lock)
    }

    fn look_at_database(&mut self) -> Result<(), StoreError> {
        let mut mark = String::new();
        // A lock file that cannot be read says nothing.
        let is_read = Read::by_ref(&mut self.file).take(MAX_MARK_BYTES).read_to_string(&mut mark).is_ok();
        let is_marked = is_read && mark_of(&self.database).is_some_and(|expected| mark == expected);
        let reading = StoreError::io(format!("read {}", self.database.display()));
        let beginning = open_private(&self.database).and_then(|file| Beginning::of(&file)).map_err(reading)?;
        match (beginning, is_marked) {
            (Beginning::Empty | Beginning::WithoutRoom, true) => {
                self.is_for_older = true;
                return Err(StoreError::corrupt("its first page is missing or is not what coven wrote"));
            }
            (Beginning::WithoutRoom, false) => self.has_room = false,
            (Beginning::WithoutSum, _) => {
                let other = Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
                migrations::checkpoint(&other)?;
                self.is_for_older = migrations::version(&other)? < migrations::PAGE_CHECKSUMS;
                drop(other);
                if !self.is_for_older {
                    self.rewrite_checksums(Rewrite::Missing)?;
                }
            }
            // The log is gone, and coven did not say that it closed the database: another program brought the pages over.
            (Beginning::WithSum, false) if !has_log(&self.database) => self.rewrite_checksums(Rewrite::Missing)?,
            (Beginning::Empty | Beginning::WithSum, _) => {}
        }
        Ok(())
    }

    /// Whether the file itself, apart from its log, has room for checksums.
    pub(super) fn has_room(&self) -> bool {
        self.has_room
    }

    /// Rewrites the checksums of the database while no connection to it is open here.
    pub(super) fn rewrite_checksums(&mut self, how: Rewrite) -> Result<(), StoreError> {
        rewrite_checksums(&self.database, how)?;
        self.is_for_older = how == Rewrite::Remove;
        self.has_room = true;
        Ok(())
    }

    /// Notes that every page has a checksum, if that is so.
    fn mark(&mut self) -> io::Result<()> {
        let is_whole = fs::metadata(&self.database).is_ok_and(|file| file.len() > 0) && !has_log(&self.database);
        if self.is_for_older || !self.has_room || !is_whole {
            return Ok(());
        }
        let mark = mark_of(&self.database).unwrap_or_default();
        self.file.rewind()?;
        self.file.write_all(mark.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Without the mark the next owner looks at every page.
        let _ = self.mark();
    }
}

fn has_log(database: &Path) -> bool {
    fs::metadata(beside(database, "-wal")).is_ok_and(|log| log.len() > 0)
}

fn mark_of(database: &Path) -> Option<String> {
    let found = fs::symlink_metadata(database).ok()?;
    Some(format!("every page of file {}:{} has a checksum\n", found.dev(), found.ino()))
}

pub(super) fn rewrite_checksums(path: &Path, how: Rewrite) -> Result<(), StoreError> {
    open_private(path)
        .and_then(|file| checksums::rewrite(&file, how))
        .map_err(StoreError::io(format!("write checksums to {}", path.display())))
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
pub(super) fn open_private(path: &Path) -> io::Result<File> {
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

pub(super) fn open_writer(lock: &Lock) -> Result<Connection, StoreError> {
    let path = lock.database.as_path();
    let is_new = fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let vfs = (!lock.is_for_older).then(checksums::vfs);
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE, vfs)?;
    // Before anything is set: another program's database, or a newer one, stays as it is.
    let version = migrations::version(&connection)?;
    if version >= migrations::PAGE_CHECKSUMS && !(lock.has_room() && checksums::has_room(&connection)?) {
        return Err(StoreError::corrupt("its first page is not what coven wrote"));
    }
    // These count only until the first page is written, so they stand first. A commit writes whole pages, and ours are a few
    // small rows; larger pages only cost bytes.
    connection.pragma_update(None, "page_size", checksums::PAGE_SIZE as u32)?;
    if is_new {
        checksums::reserve(&connection)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_LIMIT_BYTES)?;
    // A commit survives a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY, Some(checksums::vfs()))?;
    connection.pragma_update(None, "cache_size", CACHE)?;
    Ok(connection)
}

fn open(path: &Path, access: OpenFlags, vfs: Option<&CStr>) -> Result<Connection, StoreError> {
    ensure_regular(path)?;
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs)?,
        None => Connection::open_with_flags(path, flags)?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(connection)
}
