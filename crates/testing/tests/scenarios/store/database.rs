//! STORE-02, STORE-08, STORE-12 and STORE-14: one database, created at the first start, opened by one daemon.

use std::fs;
use std::process::Stdio;

use coven_testing::{TestHome, check_invariants};
use rusqlite::{Connection, OpenFlags};

fn open(home: &TestHome) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(home.path().join("coven.db"), flags).expect("a database")
}

fn tables(connection: &Connection) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name";
    let mut statement = connection.prepare(sql).expect("a statement");
    let names = statement.query_map([], |row| row.get(0)).expect("rows");
    names.collect::<Result<_, _>>().expect("names")
}

#[test]
fn store_02_all_state_is_in_one_database() {
    let home = TestHome::started();
    let session = home.run_to_end("say hello ;; exit 0");

    home.stop();

    let connection = open(&home);
    let (state, exit_code): (String, i32) = connection
        .query_row("SELECT state, exit_code FROM sessions WHERE id = ?1", [&session.id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("the row");
    assert_eq!((state.as_str(), exit_code), ("completed", 0));
    let entries: i64 = connection.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).expect("a count");
    assert!(entries >= 3, "{entries}");
    // The files of older versions are not used.
    for old in ["state.json", "workflows", "familiars"] {
        assert!(!home.path().join(old).exists(), "{old}");
    }
}

#[test]
fn store_08_process_info_is_persisted_as_soon_as_the_harness_runs() {
    let home = TestHome::started();

    let session = home.launch("hang");
    // Data that is only in memory is lost.
    home.kill_daemon();

    let connection = open(&home);
    let sql = "SELECT pid, state, cwd, started_ticks, boot_id FROM sessions WHERE id = ?1";
    let (pid, state, cwd, ticks, boot): (u32, String, String, i64, String) = connection
        .query_row(sql, [&session.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .expect("the row");
    assert_eq!((Some(pid), state.as_str(), cwd), (session.pid, "running", session.cwd.clone()));
    let seen = coven_holder::process::identity(pid).expect("is running");
    assert_eq!((seen.started_ticks.cast_signed(), seen.boot_id), (ticks, boot));
    assert!(home.session_dir(&session.id).join("0000000000000000.log").exists(), "the output file exists");
    home.start();
    check_invariants(&home);
}

#[test]
fn store_12_the_first_start_creates_the_database_with_all_tables_and_its_version() {
    let home = TestHome::new();
    assert!(!home.path().join("coven.db").exists());

    home.start();

    let connection = open(&home);
    let found = tables(&connection);
    for table in [
        "sessions",
        "entries",
        "events",
        "keyframes",
        "messages",
        "repos",
        "tasks",
        "agents",
        "workflows",
        "questions",
        "meta",
        "Repo",
        "AgentSession",
        "AgentMessage",
    ] {
        assert!(found.iter().any(|name| name == table), "{table} is missing in {found:?}");
    }
    let version: String = connection
        .query_row("SELECT value FROM meta WHERE key = 'schema_version'", [], |row| row.get(0))
        .expect("a version");
    assert_eq!(version, coven_store::migrations::KNOWN_VERSION.to_string());
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal");
}

#[test]
fn store_12_legacy_state_is_reported_and_the_daemon_starts_with_an_empty_store() {
    let home = TestHome::new();
    fs::write(home.path().join("state.json"), "{}").expect("disk has space");

    let ran = home.coven(&["daemon", "start"]);

    assert!(ran.stderr.contains("Run `coven migrate` to migrate existing state"), "{ran:?}");
    ran.expect_success();
    assert!(home.path().join("state.json").exists());
    assert_eq!(home.sessions(), []);
}

#[test]
fn store_14_a_second_daemon_on_the_same_home_fails_immediately() {
    let home = TestHome::started();
    let session = home.launch("hang");
    let first = home.health();

    let second = home
        .command(&["daemon", "serve", "--home", home.path().to_str().expect("text")])
        .stdin(Stdio::null())
        .output()
        .expect("coven runs");

    let output = String::from_utf8_lossy(&second.stdout);
    assert!(output.contains("Database locked by another process"), "{output}");
    assert_eq!(second.status.code(), Some(5));
    // The first daemon is not affected.
    assert_eq!(home.health().pid, first.pid);
    assert_eq!(home.session(&session.id).status, "running");
    let message = home.coven(&["db", "rollback"]).expect_failure(5);
    assert!(message.contains("locked by another process"), "{message}");
    check_invariants(&home);
}
