//! Sample values for the tests, and helpers to store them.
#![allow(dead_code, reason = "every test file uses some of these")]

use coven_domain::activity::ActivityStatus;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::event::EventBody;
use coven_domain::repo::Repo;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{Channel, Launch, ProcessIdentity, Session, SessionState};
use coven_domain::{RepoId, SessionId, Timestamp};
use coven_store::{Change, Store, StoreError};
use serde_json::{Map, json};

pub const NOW: Timestamp = Timestamp::from_millis(1_763_238_189_007);
pub const NEVER: Cutoffs = Cutoffs { closed_tasks: None, deleted_tasks: None, completed_workflows: None, events: None };

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

/// Returns an id whose first digits depend on `nth`, so that prefixes are unique.
pub fn id(nth: u32) -> SessionId {
    format!("{nth:08x}-0000-4000-8000-{nth:012x}").parse().expect("an id")
}

pub fn repo(nth: u32) -> Repo {
    let id: RepoId = format!("{nth:08x}-0000-4000-9000-{nth:012x}").parse().expect("an id");
    Repo { id, name: format!("repo-{nth}"), path: format!("/src/repo-{nth}"), created_at: NOW, removed_at: None }
}

pub fn session(nth: u32) -> Session {
    Session {
        id: id(nth),
        harness: "claude".into(),
        channel: Channel::Terminal,
        title: format!("session {nth}"),
        state: SessionState::Created,
        exit_code: None,
        process: None,
        project_root: "/src".into(),
        cwd: "/src/app".into(),
        repo_id: None,
        created_at: at(i64::from(nth)),
        updated_at: at(i64::from(nth)),
        archived_at: None,
        launching_at: None,
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

pub fn running(nth: u32) -> Session {
    let process = ProcessIdentity { pid: 4000 + nth, started_ticks: 77, boot_id: "boot".into() };
    Session { state: SessionState::Running, process: Some(process), launching_at: Some(NOW), ..session(nth) }
}

pub fn entry(seq: u64) -> Entry {
    Entry {
        seq,
        kind: if seq == 1 { EntryKind::Start } else { EntryKind::Output },
        at: at(seq as i64),
        offset: seq * 100,
        length: 100,
        data: seq.is_multiple_of(2).then(|| vec![0, 255, b'x']),
        detail: seq.is_multiple_of(3).then(|| json!({"seq": seq, "text": "ü"})),
    }
}

/// Renders enough of each record to identify it.
pub fn render(body: EventBody<'_>) -> String {
    let payload = match body {
        EventBody::Session(session) => json!({ "session": session.id, "status": session.state }),
        EventBody::Output { session, offset } => json!({ "session": session, "offset": offset }),
        EventBody::Message { session, message } => json!({ "session": session, "message": message.id }),
        EventBody::Request(request) => json!({ "request": request.id, "status": request.state }),
        EventBody::QuestionSet(set) => json!({ "question_set": set.id, "status": set.state }),
        EventBody::Repo(repo) => json!({ "repo": repo.id, "path": repo.path }),
        EventBody::Task { task, changes, by } => json!({ "task": task.id, "changes": changes, "by": by }),
        EventBody::Agent(agent) => json!({ "agent": agent.id, "status": agent.state }),
        EventBody::Run(workflow) => json!({ "workflow": workflow.id, "status": workflow.state }),
        EventBody::Operation(operation) => json!({ "operation": operation.id, "status": operation.state }),
        EventBody::TaskRescued { task, reference } => json!({ "task_id": task.id, "ref": reference }),
        EventBody::Swept(report) => json!(report),
        EventBody::Payload(payload) => payload.clone(),
    };
    payload.to_string()
}

/// Writes an event without a row in a separate transaction; returns its number.
pub async fn note(store: &dyn Store, kind: &str, at: Timestamp) -> u64 {
    let mut tx = store.begin().await.expect("a transaction");
    let change = Change::EventOnly { kind: kind.to_owned(), subject: "s".to_owned(), payload: json!({}) };
    tx.record(change, at).await.expect("an event");
    tx.commit().await.expect("a commit")
}

/// Records one change in a separate transaction; returns the number of the newest event.
pub async fn record(store: &dyn Store, change: Change) -> Result<u64, StoreError> {
    let mut tx = store.begin().await?;
    tx.record(change, NOW).await?;
    tx.commit().await
}

pub async fn create(store: &dyn Store, sessions: impl IntoIterator<Item = Session>) {
    let mut tx = store.begin().await.expect("a transaction");
    for session in sessions {
        tx.record(Change::SessionCreated(session), NOW).await.expect("a new session");
    }
    tx.commit().await.expect("a commit");
}

pub async fn append(store: &dyn Store, id: SessionId, entries: &[Entry]) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    tx.append_entries(id, entries).await?;
    tx.commit().await.map(|_| ())
}
