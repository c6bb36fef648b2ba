//! Damage to database pages and keyframes.

use std::fs;
use std::path::Path;

use coven_domain::event::Event;
use coven_domain::query::SessionQuery;
use coven_domain::session::Session;
use coven_domain::task::Task;
use coven_domain::{TaskId, Timestamp};
use coven_fuzz::Dice;
use coven_fuzz::damage::{ROUNDS, damaged};
use coven_store::sqlite::{checksums, migrations};
use coven_store::{Change, Keyframe, SqliteStore, Store, StoreError};
use coven_testing::samples::{finished, id};
use rusqlite::{Connection, OpenFlags};

use super::folder;

const NOW: Timestamp = Timestamp::from_millis(1_794_765_073_705);

async fn fill(path: &Path) {
    let store = SqliteStore::open(path, coven_server::event::render).expect("a new store");
    let mut tx = store.begin().await.expect("a transaction");
    for nth in 1..=40 {
        tx.record(Change::SessionCreated(finished(nth)), NOW).await.expect("a session");
        let task: TaskId = format!("{nth:08x}-0000-4000-8000-00000000000a").parse().expect("an id");
        let mut task = Task::new(task, &format!("task {nth}"), NOW).expect("a task");
        // Long texts use overflow pages.
        task.body = format!("what to do for task {nth}\n").repeat(nth as usize * 6);
        let changes = task.first_fields();
        tx.record(Change::TaskChanged { task, event: "created", changes, by: "user".into() }, NOW)
            .await
            .expect("a task");
    }
    for nth in 1..=6 {
        let screen = format!("\x1b[Hkeyframe {nth}\r\n").repeat(200);
        tx.put_keyframe(id(1), nth * 1_000_000, 24, 80, screen.as_bytes()).await.expect("a keyframe");
    }
    tx.commit().await.expect("stored");
}

/// The data that a daemon reads.
#[derive(Debug, PartialEq)]
struct Content {
    sessions: Vec<Session>,
    tasks: Vec<Task>,
    events: Vec<Event>,
    keyframe: Option<Keyframe>,
}

async fn read(path: &Path) -> Result<Content, StoreError> {
    let store = SqliteStore::open(path, coven_server::event::render)?;
    let page = store.sessions(&SessionQuery { limit: 100, ..SessionQuery::default() }).await?;
    let tasks = store.state_page(None, usize::MAX).await?.tasks;
    store.entries(id(1), 0, 100).await?;
    Ok(Content {
        sessions: page.sessions,
        tasks,
        events: store.events_after(0, 1000).await?,
        keyframe: store.keyframe_before(id(1), u64::MAX).await?,
    })
}

#[tokio::test]
async fn a_damaged_database_returns_an_error_with_advice_or_its_original_content() {
    let folder = folder();
    let path = folder.path().join("coven.db");
    fill(&path).await;
    let bytes = fs::read(&path).expect("a database");
    let original = read(&path).await.expect("the database is valid");

    let mark = fs::read(folder.path().join("coven.db.lock")).expect("the store was closed cleanly");

    let (mut dice, mut reported) = (Dice::new(31), 0);
    for round in 0..ROUNDS {
        for beside in ["coven.db-wal", "coven.db-shm"] {
            let _ = fs::remove_file(folder.path().join(beside));
        }
        fs::write(&path, damaged(&bytes, &mut dice)).expect("enough disk space");
        fs::write(folder.path().join("coven.db.lock"), &mark).expect("enough disk space");
        let content = read(&path).await;
        let status = migrations::status(&path);
        match (content, status) {
            (Ok(content), Ok(_)) => assert_eq!(content, original, "round {round}"),
            (content, status) => {
                reported += 1;
                for error in content.err().into_iter().chain(status.err()) {
                    let text = error.to_string();
                    let has_advice = text.contains("coven db status") || text.contains("upgrade coven");
                    assert!(has_advice || matches!(error, StoreError::Io { .. } | StoreError::Sql { .. }), "{text}");
                }
            }
        }
    }
    eprintln!("{reported} of {ROUNDS} damaged databases were reported; the others read as before");
    assert!(reported > ROUNDS as usize / 2, "{reported} reported");
    fs::write(&path, &bytes).expect("enough disk space");
    assert_eq!(read(&path).await.expect("the restored database is valid"), original);
    migrations::status(&path).expect("the restored database is valid");
}

#[tokio::test]
async fn a_damaged_keyframe_is_skipped() {
    let folder = folder();
    let path = folder.path().join("coven.db");
    fill(&path).await;
    let store = SqliteStore::open(&path, coven_server::event::render).expect("a store");
    let last = store.keyframe_before(id(1), u64::MAX).await.expect("a read").expect("a keyframe");
    let before = store.keyframe_before(id(1), last.offset - 1).await.expect("a read").expect("an older keyframe");
    let other =
        Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), checksums::vfs()).expect("the same database");
    other.busy_timeout(std::time::Duration::from_secs(5)).expect("set");
    other.pragma_update(None, "synchronous", "OFF").expect("set");

    let mut dice = Dice::new(32);
    let set = "UPDATE keyframes SET screen = ?1, rows = ?2 WHERE offset = ?3";
    for round in 0..ROUNDS {
        let (screen, rows) = match dice.roll(8) {
            0 => (last.screen.clone(), last.rows ^ (1 << dice.roll(15))),
            _ => (damaged(&last.screen, &mut dice), last.rows),
        };
        other.execute(set, (&screen, rows, last.offset as i64)).expect("written");
        let found = store.keyframe_before(id(1), u64::MAX).await.expect("a read");
        assert_eq!(found.as_ref(), Some(&before), "round {round}");
    }
    other.execute(set, (&last.screen, last.rows, last.offset as i64)).expect("written");
    assert_eq!(store.keyframe_before(id(1), u64::MAX).await.expect("a read"), Some(last));
}
