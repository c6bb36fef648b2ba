//! Rows that tests write to the store while no daemon is running.

use coven_domain::activity::ActivityStatus;
use coven_domain::session::{Channel, Launch, Session, SessionState};
use coven_domain::task::Task;
use coven_domain::{SessionId, Timestamp};
use coven_store::{Change, SqliteStore, Store};
use serde_json::Map;

use crate::TestHome;
use crate::http::runtime;

/// Returns a session that ended long ago and has only a row.
pub fn finished(nth: u32) -> Session {
    let at = Timestamp::from_millis(1_763_238_189_007 + i64::from(nth));
    Session {
        id: id(nth),
        harness: "claude".into(),
        channel: Channel::Terminal,
        title: format!("session {nth}"),
        state: SessionState::Completed,
        exit_code: Some(0),
        process: None,
        project_root: "/src".into(),
        cwd: "/src/app".into(),
        repo_id: None,
        created_at: at,
        updated_at: at,
        archived_at: None,
        launching_at: Some(at),
        end_intent: None,
        launch: Launch {
            argv: vec!["claude".into(), "fix it".into()],
            identity: "claude".into(),
            typed: String::new(),
            rows: 24,
            cols: 80,
            grace_seconds: 5.0,
            prompt_args: 0,
            takes_hooks: false,
        },
        metadata: Map::new(),
        activity: ActivityStatus::default(),
    }
}

/// Returns an id whose prefix is unique.
pub fn id(nth: u32) -> SessionId {
    format!("{nth:08x}-0000-4000-8000-{nth:012x}").parse().expect("an id")
}

/// Writes session rows while no daemon is running.
pub fn put(home: &TestHome, sessions: impl IntoIterator<Item = Session>) {
    write(home, sessions.into_iter().map(Change::SessionCreated));
}

/// Writes task rows while no daemon is running.
pub fn put_tasks(home: &TestHome, tasks: impl IntoIterator<Item = Task>) {
    let created = |task: Task| {
        let changes = task.first_fields();
        Change::TaskChanged { task, event: "created", changes, by: "user".to_owned() }
    };
    write(home, tasks.into_iter().map(created));
}

fn write(home: &TestHome, changes: impl Iterator<Item = Change>) {
    runtime().block_on(async {
        let store = SqliteStore::open(home.path().join("coven.db"), |_| "{}".to_owned()).expect("no daemon is running");
        let mut tx = store.begin().await.expect("the writer's turn");
        for change in changes {
            // The event is new although the row is old, so that retention does not delete it.
            tx.record(change, coven_holder::clock::now()).await.expect("a new row");
        }
        tx.commit().await.expect("a commit");
    });
}
