//! Two processes and one database: ownership, and recovery after the owner is killed.

mod samples;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use coven_store::{Change, SqliteStore, Store, StoreError};
use samples::*;

const DATABASE: &str = "COVEN_STORE_TEST_DATABASE";
const TRANSACTION: &str = "COVEN_STORE_TEST_TRANSACTION";

/// Starts another process that opens the database and, if requested, keeps a transaction open.
fn owner(path: &Path, in_transaction: bool) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "another_process", "--ignored", "--nocapture"])
        .env(DATABASE, path)
        .env(TRANSACTION, if in_transaction { "yes" } else { "no" })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let mut output = BufReader::new(child.stdout.take().expect("piped output"));
    let ready = output.by_ref().lines().any(|line| line.expect("text").contains("the database is open"));
    assert!(ready, "the other process exited before it opened the database");
    // Keep the pipe open, so that the process can still print when it exits.
    child.stdout = Some(output.into_inner());
    child
}

/// Not a test: the code of the other process, which runs until its input ends or it is killed.
#[tokio::test]
#[ignore = "started by the tests of this file"]
async fn another_process() {
    let Some(path) = std::env::var_os(DATABASE) else { return };
    let store = SqliteStore::open(path, render).expect("the database is free");
    let mut tx = store.begin().await.expect("a transaction");
    for nth in 100..2100 {
        // More than fits into the page cache, so that part of it is in the files when the process is killed.
        tx.record(Change::SessionCreated(session(nth)), NOW).await.expect("a new session");
    }
    if std::env::var(TRANSACTION).as_deref() == Ok("no") {
        drop(tx);
    }
    println!("the database is open");
    std::io::stdin().lines().for_each(drop);
}

#[tokio::test]
async fn store_14_a_second_process_is_refused_until_the_first_exits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let mut other = owner(&path, false);

    let refused = SqliteStore::open(&path, render).err().expect("the database is locked");
    assert_eq!(refused.to_string(), "Database locked by another process");
    assert!(matches!(refused, StoreError::Locked));

    drop(other.stdin.take());
    assert!(other.wait().expect("the process exits").success());
    SqliteStore::open(&path, render).expect("the database is free");
}

#[tokio::test]
async fn a_process_killed_in_a_transaction_leaves_the_previous_state_and_no_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    create(&SqliteStore::open(&path, render).expect("a new store"), [session(1)]).await;
    let mut other = owner(&path, true);

    other.kill().expect("SIGKILL");
    other.wait().expect("the process exited");

    let store = SqliteStore::open(&path, render).expect("the kernel released the lock");
    let page =
        store.sessions(&coven_domain::query::SessionQuery { limit: 10, ..Default::default() }).await.expect("a read");
    assert_eq!((page.sessions, page.total), (vec![session(1)], 1));
    assert_eq!(store.event_range().await.expect("a read"), 1..2);
    assert_eq!(record(&store, Change::SessionCreated(session(2))).await.expect("a new session"), 2);
}
