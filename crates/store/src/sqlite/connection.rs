//! Opens the database file and its connections, with private file modes and fixed settings.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::OFlags;

use super::checksums::{self, FirstPage, Rewrite};
use super::migrations;
use crate::StoreError;

/// Page cache of a connection; negative values are KiB. Small, because the kernel caches the file.
const CACHE: i64 = -512;
const PRIVATE: u32 = 0o600;
/// Suffixes of the files that SQLite creates next to a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Only a short access by another program can block us: our own writers are serialized.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// Upper bound for the size of a mark written by coven.
const MAX_MARK_BYTES: u64 = 128;
/// Size to which SQLite truncates the write-ahead log after a burst.
const WAL_LIMIT_BYTES: u32 = 16 << 20;
const CACHED_STATEMENTS: usize = 64;

/// Ownership of a database file until it is dropped. The kernel releases it when the process dies.
///
/// Between two owners, the lock file records whether every page of the database has a checksum: its last owner writes a
/// mark when it closes the database cleanly.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    database: PathBuf,
    /// Whether the file has, or will have, room for checksums. SQLite's own answer may come from the write-ahead log.
    has_room: bool,
    /// The database is for an older coven, which writes no checksums.
    is_for_older: bool,
}

impl Lock {
    /// Takes the lock and inspects the database before this process opens a connection: closing a second descriptor of
    /// the file would release SQLite's locks.
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
            lock.inspect_database()?;
        }
        // After a crash, another program may write pages without checksums, so the mark is valid only after a clean
        // close.
        lock.file.set_len(0).map_err(StoreError::io(format!("write {}", path.display())))?;
        Ok(lock)
    }

    fn inspect_database(&mut self) -> Result<(), StoreError> {
        let mut mark = String::new();
        // An unreadable lock file counts as unmarked.
        let is_read = Read::by_ref(&mut self.file).take(MAX_MARK_BYTES).read_to_string(&mut mark).is_ok();
        let is_marked = is_read && mark_of(&self.database).is_some_and(|expected| mark == expected);
        let reading = StoreError::io(format!("read {}", self.database.display()));
        let first_page = open_private(&self.database).and_then(|file| FirstPage::of(&file)).map_err(reading)?;
        match (first_page, is_marked) {
            (FirstPage::Empty | FirstPage::WithoutRoom, true) => {
                self.is_for_older = true;
                return Err(StoreError::corrupt("the first page is missing or was not written by coven"));
            }
            (FirstPage::WithoutRoom, false) => self.has_room = false,
            (FirstPage::WithoutSum, _) => {
                let other = Connection::open_with_flags(&self.database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
                migrations::checkpoint(&other)?;
                self.is_for_older = migrations::version(&other)? < migrations::PAGE_CHECKSUMS;
                drop(other);
                if !self.is_for_older {
                    self.rewrite_checksums(Rewrite::Missing)?;
                }
            }
            // No log and no mark: another program checkpointed the log into the file, without checksums.
            (FirstPage::WithSum, false) if !has_log(&self.database) => self.rewrite_checksums(Rewrite::Missing)?,
            (FirstPage::Empty | FirstPage::WithSum, _) => {}
        }
        Ok(())
    }

    /// Reports whether the file itself, apart from its log, has room for checksums.
    pub(super) fn has_room(&self) -> bool {
        self.has_room
    }

    /// Rewrites the checksums of the database. This process must have no open connection to it.
    pub(super) fn rewrite_checksums(&mut self, how: Rewrite) -> Result<(), StoreError> {
        rewrite_checksums(&self.database, how)?;
        self.is_for_older = how == Rewrite::Remove;
        self.has_room = true;
        Ok(())
    }

    /// Marks the lock file if every page has a checksum.
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
        // Without the mark, the next owner checks every page.
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

/// Returns the path with a suffix added to its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates the file if needed and makes it private; SQLite gives the same mode to its companion files.
pub(super) fn make_private(path: &Path) -> Result<(), StoreError> {
    open_private(path)
        .and_then(|file| file.set_permissions(fs::Permissions::from_mode(PRIVATE)))
        .map_err(StoreError::io(format!("create {}", path.display())))?;
    COMPANIONS.iter().try_for_each(|suffix| ensure_regular(&beside(path, suffix)))
}

/// Opens a file for writing, or creates it. Refuses symbolic links and other non-regular files.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    ensure_regular(path).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// Refuses a path that is not a regular file: SQLite would follow a link and block on a FIFO. Does not open the file,
/// because closing a second descriptor of a database releases the locks of the first.
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
    // Check the version before changing any setting, so that a foreign or newer database stays unchanged.
    let version = migrations::version(&connection)?;
    if version >= migrations::PAGE_CHECKSUMS && !(lock.has_room() && checksums::has_room(&connection)?) {
        return Err(StoreError::corrupt("the first page was not written by coven"));
    }
    // These settings must come first: they only apply until the first page is written. A commit writes whole pages and
    // ours has a few small rows, so larger pages would only cost bytes.
    connection.pragma_update(None, "page_size", checksums::PAGE_SIZE as u32)?;
    if is_new {
        checksums::reserve(&connection)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_LIMIT_BYTES)?;
    // Commits must survive a power failure.
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
