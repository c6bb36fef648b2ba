//! Fills a home's store while its daemon is stopped: thousands of sessions and entries in seconds.

use std::path::Path;

use coven_domain::activity::ActivityStatus;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::session::{Channel, Launch, Session, SessionState};
use coven_domain::{SessionId, Timestamp};
use coven_store::{Change, SqliteStore, Store};
use serde_json::Map;

use super::BenchResult;

/// Rows per transaction.
const BATCH_SIZE: usize = 1000;

/// Creates a finished session; higher numbers are newer.
pub fn finished_session(number: u64) -> BenchResult<Session> {
    let now = Timestamp::from_millis(1_763_238_189_007 + number as i64 * 1000);
    Ok(Session {
        id: session_id(number)?,
        harness: "shell".into(),
        channel: Channel::Terminal,
        title: format!("session number {number}"),
        state: SessionState::Completed,
        exit_code: Some(0),
        process: None,
        project_root: "/tmp".into(),
        cwd: "/tmp".into(),
        repo_id: None,
        created_at: now,
        updated_at: now,
        archived_at: None,
        launching_at: Some(now),
        end_intent: None,
        launch: Launch {
            argv: vec!["/bin/sh".into()],
            identity: String::new(),
            typed: String::new(),
            rows: 24,
            cols: 80,
            grace_seconds: 5.0,
            prompt_args: 0,
            takes_hooks: false,
        },
        metadata: Map::new(),
        activity: ActivityStatus::default(),
    })
}

pub fn session_id(number: u64) -> BenchResult<SessionId> {
    Ok(format!("{:08x}-0000-4000-8000-{number:012x}", number as u32).parse()?)
}

/// Creates a session that was never launched.
fn created_session(number: u64) -> BenchResult<Session> {
    let finished = finished_session(number)?;
    Ok(Session { state: SessionState::Created, exit_code: None, launching_at: None, ..finished })
}

pub fn add_sessions(db: &Path, count: u64) -> BenchResult<()> {
    add(db, (0..count).map(finished_session).collect::<BenchResult<Vec<Session>>>()?)
}

pub fn add_created_sessions(db: &Path, count: u64) -> BenchResult<()> {
    add(db, (0..count).map(created_session).collect::<BenchResult<Vec<Session>>>()?)
}

#[tokio::main(flavor = "current_thread")]
async fn add(db: &Path, sessions: Vec<Session>) -> BenchResult<()> {
    let store = SqliteStore::open(db, coven_server::event::render)?;
    for batch in sessions.chunks(BATCH_SIZE) {
        let mut tx = store.begin().await?;
        for session in batch {
            tx.record(Change::SessionCreated(session.clone()), session.created_at).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

/// Adds consecutive output entries of `length` bytes each.
#[tokio::main(flavor = "current_thread")]
pub async fn add_entries(db: &Path, session: SessionId, count: u64, length: u64) -> BenchResult<()> {
    let store = SqliteStore::open(db, coven_server::event::render)?;
    let entry = |seq: u64| Entry {
        seq,
        kind: EntryKind::Output,
        at: Timestamp::from_millis(1_763_238_189_007 + seq as i64),
        offset: (seq - 1) * length,
        length,
        data: None,
        detail: None,
    };
    let entries: Vec<Entry> = (1..=count).map(entry).collect();
    for batch in entries.chunks(BATCH_SIZE) {
        let mut tx = store.begin().await?;
        tx.append_entries(session, batch).await?;
        tx.commit().await?;
    }
    Ok(())
}
