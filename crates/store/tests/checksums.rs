//! Every page of the database file has a checksum, regardless of its last writer.

mod samples;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use coven_store::sqlite::repair::{Repaired, repair};
use coven_store::{SqliteStore, Store, StoreError, migrations};
use rusqlite::Connection;
use samples::*;
use tempfile::TempDir;

const PAGE: u64 = 4096;
const NEWEST: u32 = migrations::KNOWN_VERSION;

async fn store_with_sessions() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    create(&store, (0..200).map(session)).await;
    (folder, path)
}

async fn assert_has_all_sessions(path: &Path) {
    let store = SqliteStore::open(path, render).expect("an intact store");
    for nth in 0..200 {
        assert_eq!(store.session(id(nth)).await.expect("a read"), Some(session(nth)), "{nth}");
    }
}

/// Returns the last four bytes of every page.
fn ends_of_pages(path: &Path) -> Vec<[u8; 4]> {
    let file = File::open(path).expect("the file");
    let pages = file.metadata().expect("its length").len() / PAGE;
    let end_of = |page| {
        let mut end = [0; 4];
        file.read_exact_at(&mut end, page * PAGE - 4).expect("the end of a page");
        end
    };
    (1..=pages).map(end_of).collect()
}

fn assert_every_page_has_a_checksum(path: &Path) {
    assert!(ends_of_pages(path).iter().all(|end| *end != [0; 4]));
    assert_eq!(repair(path).expect("an intact store"), None);
}

#[tokio::test]
async fn a_changed_value_is_reported_with_its_page() {
    let (_folder, path) = store_with_sessions().await;
    let intact = fs::read(&path).expect("the file");
    let title = b"session 137";
    let at = intact.windows(title.len()).position(|it| it == title).expect("a title in the file");
    let mut copy = intact.clone();
    copy[at + 10] = b'8';
    fs::write(&path, &copy).expect("the file is writable");

    let store = SqliteStore::open(&path, render).expect("the first page is intact");
    let error = store.session(id(137)).await.expect_err("a damaged page");
    let page = at as u64 / PAGE + 1;
    assert!(error.to_string().contains(&format!("page {page} does not match its checksum")), "{error}");
    drop(store);
    assert!(matches!(migrations::status(&path), Err(StoreError::Corrupt { .. })));

    fs::write(&path, &intact).expect("the file is writable");
    assert_has_all_sessions(&path).await;
}

#[tokio::test]
async fn a_page_without_a_checksum_is_damage_after_a_clean_close() {
    let (_folder, path) = store_with_sessions().await;
    let file = File::options().write(true).open(&path).expect("the file");
    file.write_all_at(&[0; 4], 2 * PAGE - 4).expect("the file is writable");
    drop(file);
    assert!(matches!(migrations::status(&path), Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn another_program_may_open_the_store_after_a_crash() {
    let (crashed, copy) = store_after_a_crash().await;

    let count: i64 = Connection::open(&copy)
        .and_then(|other| other.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)))
        .expect("another program reads it");
    assert_eq!(count, 300);
    assert!(!crashed.path().join("coven.db-wal").exists(), "the other program checkpointed the log");
    assert!(ends_of_pages(&copy).contains(&[0; 4]), "the other program wrote no checksums");

    assert_has_all_sessions(&copy).await;
    assert_every_page_has_a_checksum(&copy);
}

#[tokio::test]
async fn a_store_of_an_older_version_gains_checksums_and_keeps_its_rows() {
    let (folder, path) = store_with_sessions().await;
    migrations::rollback(&path, (NEWEST - 10) as usize).expect("a rollback to before the checksums");
    let old = folder.path().join("old.db");
    copy_without_room_for_checksums(&path, &old);

    assert_eq!(migrations::migrate(&old).expect("up"), (11..=NEWEST).collect::<Vec<_>>());
    assert_has_all_sessions(&old).await;
    assert_every_page_has_a_checksum(&old);
    assert_has_all_sessions(&folder.path().join("old.db.bak-10")).await;
}

/// Copies every table into a new file with SQLite's default layout.
fn copy_without_room_for_checksums(path: &Path, old: &Path) {
    let connection = Connection::open(old).expect("a new file");
    connection.execute("ATTACH ?1 AS given", [path.to_str()]).expect("the store");
    let mut statement = connection
        .prepare("SELECT type, name, sql FROM given.sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
        .expect("a statement");
    let schema: Vec<(String, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("text");
    for (kind, name, sql) in schema {
        connection.execute_batch(&sql).expect("the same schema");
        if kind == "table" {
            connection.execute(&format!("INSERT INTO main.{name} SELECT * FROM given.{name}"), []).expect("rows");
        }
    }
}

#[tokio::test]
async fn an_older_program_may_write_to_a_rolled_back_store() {
    let (_folder, path) = store_with_sessions().await;
    let steps = (NEWEST - 10) as usize;
    migrations::rollback(&path, steps).expect("a rollback to before the checksums");
    Connection::open(&path)
        .and_then(|older| older.execute("UPDATE sessions SET title = 'older' WHERE title = 'session 7'", []))
        .expect("an older program writes");

    let store = SqliteStore::open(&path, render).expect("the store is migrated again");
    let found = store.session(id(7)).await.expect("a read").expect("the session");
    assert_eq!(found.title, "older");
    drop(store);
    assert_every_page_has_a_checksum(&path);
}

#[tokio::test]
async fn repair_accepts_changes_of_another_program_and_keeps_the_original_file() {
    let (folder, path) = store_with_sessions().await;
    Connection::open(&path)
        .and_then(|other| other.execute("UPDATE sessions SET title = 'edited' WHERE title = 'session 7'", []))
        .expect("another program writes");
    let edited = fs::read(&path).expect("the file");
    let error = migrations::status(&path).expect_err("a page without its checksum");
    assert!(error.to_string().contains("coven db repair"), "{error}");

    let Repaired { pages, original } = repair(&path).expect("an intact structure").expect("pages to accept");
    assert!(!pages.is_empty());
    assert_eq!(original, folder.path().join("coven.db.damaged-1"));
    assert!(fs::read(original).expect("the copy") == edited);
    let store = SqliteStore::open(&path, render).expect("the store");
    let found = store.session(id(7)).await.expect("a read").expect("the session");
    assert_eq!(found.title, "edited");
    drop(store);
    assert_every_page_has_a_checksum(&path);
}

/// Creates a store with sessions in the file and more in the write-ahead log, as after a killed daemon.
async fn store_after_a_crash() -> (TempDir, PathBuf) {
    let (folder, path) = store_with_sessions().await;
    let crashed = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(&path, render).expect("the store");
    create(&store, (200..300).map(session)).await;
    for name in ["coven.db", "coven.db-wal", "coven.db.lock"] {
        fs::copy(folder.path().join(name), crashed.path().join(name)).expect("a copy");
    }
    let path = crashed.path().join("coven.db");
    (crashed, path)
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("the file");
    file.write_all_at(bytes, at).expect("the file is writable");
}

/// Returns the offset of a text in the file.
fn offset_of(path: &Path, text: &[u8]) -> u64 {
    let bytes = fs::read(path).expect("the file");
    bytes.windows(text.len()).position(|it| it == text).expect("the text is in the file") as u64
}

#[tokio::test]
async fn a_change_in_an_overflow_page_is_reported() {
    let (_folder, path) = store_with_sessions().await;
    let store = SqliteStore::open(&path, render).expect("the store");
    let mut long = session(900);
    long.title = "a long title ".repeat(3_000);
    create(&store, [long]).await;
    drop(store);
    let at = offset_of(&path, &b"a long title ".repeat(200));
    write_at(&path, at + 2_000, b"A LONG");

    let store = SqliteStore::open(&path, render).expect("the first page is intact");
    let error = store.session(id(900)).await.expect_err("a damaged page");
    assert!(error.to_string().contains("does not match its checksum"), "{error}");
}

#[tokio::test]
async fn after_a_crash_zeros_at_the_end_of_a_page_are_damage() {
    let (_folder, path) = store_after_a_crash().await;
    let page = offset_of(&path, b"session 137") / PAGE + 1;
    write_at(&path, page * PAGE - 512, &[0; 512]);
    assert!(matches!(migrations::status(&path), Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn a_damaged_header_does_not_disable_the_checks() {
    for at in [0, 16, 17, 20] {
        let (_folder, path) = store_after_a_crash().await;
        write_at(&path, at, &[3]);
        let refused = SqliteStore::open(&path, render).err().expect("a damaged header");
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{at}: {refused}");

        let (_folder, path) = store_with_sessions().await;
        write_at(&path, at, &[3]);
        for _ in 0..2 {
            let refused = SqliteStore::open(&path, render).err().expect("a damaged header");
            assert!(matches!(refused, StoreError::Corrupt { .. }), "{at}: {refused}");
        }
    }
}

#[tokio::test]
async fn an_emptied_file_is_damage_and_not_a_new_store() {
    let (_folder, path) = store_with_sessions().await;
    File::options().write(true).open(&path).expect("the file").set_len(0).expect("the file can be truncated");
    for _ in 0..2 {
        assert!(matches!(SqliteStore::open(&path, render).err(), Some(StoreError::Corrupt { .. })));
    }
}

#[tokio::test]
async fn a_file_rewritten_by_another_program_is_accepted() {
    let (folder, path) = store_with_sessions().await;
    Connection::open(&path).and_then(|other| other.execute_batch("VACUUM")).expect("another program");
    assert_has_all_sessions(&path).await;
    assert_every_page_has_a_checksum(&path);

    let copy = folder.path().join("copy.db");
    Connection::open(&path)
        .and_then(|other| other.execute("VACUUM INTO ?1", [copy.to_str()]))
        .expect("another program");
    fs::copy(&copy, &path).expect("the file is writable");
    assert_has_all_sessions(&path).await;
    assert_every_page_has_a_checksum(&path);
}

#[tokio::test]
async fn a_read_by_another_program_is_not_reported_as_damage() {
    let (_folder, path) = store_with_sessions().await;
    let reader = Connection::open(&path).expect("another program");
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions").expect("a read by another program");
    let store = SqliteStore::open(&path, render).expect("the store");
    create(&store, (200..300).map(session)).await;
    drop(store);
    assert!(matches!(migrations::status(&path), Err(StoreError::Locked)));
    drop(reader);
    migrations::status(&path).expect("an intact store");
    assert_has_all_sessions(&path).await;
}
