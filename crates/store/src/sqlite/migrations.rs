//! Schema migrations: numbered steps up and down, one transaction each, with a backup before a change.

use std::fs;
use std::path::{Path, PathBuf};

use coven_domain::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::checksums::{self, Rewrite};
use super::connection::{Lock, beside, make_private, open_writer, rewrite_checksums};
use super::parsed;
use crate::StoreError;

struct Migration {
    version: u32,
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

macro_rules! migration {
    ($version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            up: include_str!(concat!("../../migrations/sqlite/", $name, ".up.sql")),
            down: include_str!(concat!("../../migrations/sqlite/", $name, ".down.sql")),
        }
    };
}

/// Released migrations never change; new ones are appended.
const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001_sessions"),
    migration!(2, "0002_tasks"),
    migration!(3, "0003_agents_over_acp"),
    migration!(4, "0004_question_sets"),
    migration!(5, "0005_task_history"),
    migration!(6, "0006_runs"),
    migration!(7, "0007_answering_session"),
    migration!(8, "0008_task_args"),
    migration!(9, "0009_task_changes"),
    migration!(10, "0010_keyframe_checksums"),
    migration!(11, "0011_page_checksums"),
    migration!(12, "0012_operations"),
    migration!(13, "0013_output_events"),
    migration!(14, "0014_question_set_content"),
    migration!(15, "0015_tasks_of_operations"),
    migration!(16, "0016_requests"),
    migration!(17, "0017_activity"),
    migration!(18, "0018_activity_until"),
    migration!(19, "0019_activity_checkpoints"),
];

/// From this version on, every page of the file ends with its checksum.
pub(super) const PAGE_CHECKSUMS: u32 = 11;

/// The newest schema version that this program supports.
pub const KNOWN_VERSION: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: u32,
    pub name: &'static str,
    /// `None` while the migration is pending.
    pub applied_at: Option<Timestamp>,
}

/// Returns every known migration and whether it is applied. For a missing database all are pending; a damaged one is an
/// error.
pub fn status(path: impl AsRef<Path>) -> Result<Vec<MigrationStatus>, StoreError> {
    let path = path.as_ref();
    let known = |applied_at: &dyn Fn(u32) -> Result<Option<Timestamp>, StoreError>| {
        MIGRATIONS
            .iter()
            .map(|it| Ok(MigrationStatus { version: it.version, name: it.name, applied_at: applied_at(it.version)? }))
            .collect()
    };
    if !path.exists() {
        return known(&|_| Ok(None));
    }
    let lock = Lock::take(path)?;
    let connection = open_writer(&lock)?;
    check_integrity(&connection, path)?;
    match version(&connection)? {
        0 => known(&|_| Ok(None)),
        _ => known(&|version| applied_at(&connection, version)),
    }
}

/// Applies pending migrations and returns their versions.
pub fn migrate(path: impl AsRef<Path>) -> Result<Vec<u32>, StoreError> {
    let path = path.as_ref();
    let mut lock = Lock::take(path)?;
    make_private(path)?;
    bring_up_to_date(&mut lock, path).map(|(_, applied)| applied)
}

/// Rolls back the newest `steps` applied migrations, newest first, and returns their versions. Their data is deleted
/// from the database; the backup made before still has it.
pub fn rollback(path: impl AsRef<Path>, steps: usize) -> Result<Vec<u32>, StoreError> {
    let path = path.as_ref();
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut lock = Lock::take(path)?;
    let mut connection = open_writer(&lock)?;
    let current = version(&connection)?;
    let undone: Vec<&Migration> = MIGRATIONS.iter().rev().filter(|it| it.version <= current).take(steps).collect();
    if undone.is_empty() {
        return Ok(Vec::new());
    }
    back_up(&connection, path, current)?;
    if undone.iter().any(|it| it.version == PAGE_CHECKSUMS) {
        // An older coven would change pages without updating their checksums.
        checkpoint(&connection)?;
        drop(connection);
        lock.rewrite_checksums(Rewrite::Remove)?;
        connection = open_writer(&lock)?;
    }
    for migration in &undone {
        let below = MIGRATIONS.iter().map(|it| it.version).filter(|it| *it < migration.version).max().unwrap_or(0);
        step(
            &connection,
            migration.down,
            below,
            &format!("DELETE FROM meta WHERE key = {}", applied_key(migration.version)),
        )?;
    }
    Ok(undone.iter().map(|migration| migration.version).collect())
}

/// Opens the database for writing and applies pending migrations. Also returns their versions.
pub(super) fn bring_up_to_date(lock: &mut Lock, path: &Path) -> Result<(Connection, Vec<u32>), StoreError> {
    let is_new = fs::metadata(path).is_ok_and(|file| file.len() == 0);
    let mut connection = open_writer(lock)?;
    let current = version(&connection)?;
    let pending: Vec<&Migration> = MIGRATIONS.iter().filter(|it| it.version > current).collect();
    if current > 0 && !pending.is_empty() {
        back_up(&connection, path, current)?;
    }
    if current < PAGE_CHECKSUMS && !is_new {
        if !checksums::has_room(&connection)? {
            checksums::reserve(&connection)?;
            connection.execute_batch("VACUUM")?;
        }
        checkpoint(&connection)?;
        drop(connection);
        lock.rewrite_checksums(Rewrite::All)?;
        connection = open_writer(lock)?;
    }
    for migration in &pending {
        let note = format!(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ({}, CAST(unixepoch('subsec') * 1000 AS INTEGER))",
            applied_key(migration.version)
        );
        step(&connection, migration.up, migration.version, &note)?;
    }
    Ok((connection, pending.iter().map(|migration| migration.version).collect()))
}

/// Checkpoints the write-ahead log; [`StoreError::Locked`] if another program's read transaction prevents it.
pub(super) fn checkpoint(connection: &Connection) -> Result<(), StoreError> {
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy { Err(StoreError::Locked) } else { Ok(()) }
}

/// Runs one migration and records it in `meta`, in one transaction.
fn step(connection: &Connection, sql: &str, version: u32, note: &str) -> Result<(), StoreError> {
    // A migration may break references temporarily; the check below verifies the result.
    connection.pragma_update(None, "foreign_keys", false)?;
    let result = (|| {
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        )?;
        transaction.execute_batch(sql)?;
        transaction.execute_batch(note)?;
        transaction
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', ?1)", [version.to_string()])?;
        if transaction.prepare("PRAGMA foreign_key_check")?.exists([])? {
            return Err(StoreError::corrupt(format!(
                "migrating to schema version {version} would leave dangling references"
            )));
        }
        Ok(transaction.commit()?)
    })();
    connection.pragma_update(None, "foreign_keys", true)?;
    result
}

/// Reads every page and reports the first problem.
fn check_integrity(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    check_structure(connection)?;
    checkpoint(connection)?;
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    let length = fs::metadata(path).map_err(StoreError::io(format!("read the size of {}", path.display())))?.len();
    match length == u64::from(pages) * u64::from(page) {
        true => Ok(()),
        false => {
            Err(StoreError::corrupt(format!("the file has {length} bytes instead of {pages} pages of {page} bytes")))
        }
    }
}

pub(super) fn check_structure(connection: &Connection) -> Result<(), StoreError> {
    let problem: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if problem == "ok" { Ok(()) } else { Err(StoreError::corrupt(problem.replace('\n', " "))) }
}

/// Returns the schema version; 0 for an empty file. Refuses databases of other programs.
pub(super) fn version(connection: &Connection) -> Result<u32, StoreError> {
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if tables.is_empty() {
        return Ok(0);
    }
    if !tables.iter().any(|table| table == "meta") {
        return Err(StoreError::corrupt("the file is a database of another program"));
    }
    let text: Option<String> =
        connection.query_row("SELECT value FROM meta WHERE key = 'schema_version'", [], |row| row.get(0)).optional()?;
    let found = parsed(&text.ok_or_else(|| StoreError::corrupt("meta has no schema_version"))?)?;
    match found {
        found if found > KNOWN_VERSION => Err(StoreError::TooNew { found, known: KNOWN_VERSION }),
        found => Ok(found),
    }
}

fn applied_at(connection: &Connection, version: u32) -> Result<Option<Timestamp>, StoreError> {
    let sql = format!("SELECT value FROM meta WHERE key = {}", applied_key(version));
    let millis: Option<String> = connection.query_row(&sql, [], |row| row.get(0)).optional()?;
    millis.map(|millis| parsed(&millis).map(Timestamp::from_millis)).transpose()
}

/// Returns the key in `meta` for the time a version was applied, as an SQL string.
fn applied_key(version: u32) -> String {
    format!("'migration_{version}_applied_at'")
}

/// Writes a complete copy next to the database, named after its version. Replaces an older copy of that version.
fn back_up(connection: &Connection, path: &Path, version: u32) -> Result<PathBuf, StoreError> {
    let copy = beside(path, &format!(".bak-{version}"));
    let half_done = beside(&copy, ".tmp");
    match fs::remove_file(&half_done) {
        Err(problem) if problem.kind() != std::io::ErrorKind::NotFound => {
            return Err(StoreError::io(format!("remove {}", half_done.display()))(problem));
        }
        _ => {}
    }
    make_private(&half_done)?;
    let name = half_done.to_str().ok_or_else(|| StoreError::Io {
        doing: format!("back up to {}: the path is not UTF-8", half_done.display()),
        source: std::io::ErrorKind::InvalidFilename.into(),
    })?;
    connection.execute("VACUUM INTO ?1", [name])?;
    rewrite_checksums(&half_done, Rewrite::All)?;
    fs::rename(&half_done, &copy).map_err(StoreError::io(format!("write {}", copy.display())))?;
    Ok(copy)
}
