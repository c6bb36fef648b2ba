//! Tests specific to SQLite: creation, migration, rollback, and access by other programs.

mod samples;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coven_domain::agent::{Agent, AgentState};
use coven_domain::entry::EntryKind;
use coven_domain::message::{Message, MessageChange, Role};
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::{RequestQuery, RequestScope};
use coven_domain::question_set::{QuestionSet, QuestionSetState};
use coven_domain::request::{
    AnsweredBy, PermissionOption, Request, RequestAnswer, RequestKind, RequestSource, RequestState,
};
use coven_domain::session::{Channel, CompatStatus, EndIntent, Session, SessionState};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::{WorkflowRun, WorkflowState};
use coven_domain::{AgentId, MessageId, OperationId, QuestionSetId, RequestId, TaskId, WorkflowId};
use coven_store::sqlite::checksums;
use coven_store::{Change, SqliteStore, Store, StoreError, migrations};

use rusqlite::{Connection, OpenFlags};
use samples::*;
use serde_json::json;

const NEWEST: u32 = migrations::KNOWN_VERSION;

/// Returns the schema without `meta`, as SQL.
fn schema(path: &Path) -> BTreeSet<String> {
    let connection = Connection::open(path).expect("the database");
    let mut statement = connection
        .prepare("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name <> 'meta'")
        .expect("a statement");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("text")
}

fn meta(path: &Path, key: &str) -> Option<String> {
    let connection = Connection::open(path).expect("the database");
    connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).ok()
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("the folder")
        .map(|file| file.expect("a file").file_name().into_string().expect("a plain name"))
        .collect();
    names.sort();
    names
}

/// Tables that clients do not see: derived data and stream offsets.
const INTERNAL: [&str; 9] = [
    "meta",
    "events",
    "keyframes",
    "observations",
    "activity_checkpoints",
    "session_counts",
    "conversations",
    "outbox",
    "sqlite_sequence",
];

/// Returns the tables that clients see, with a change to each.
fn visible() -> Vec<(Vec<&'static str>, Change)> {
    let set = QuestionSet {
        id: QuestionSetId::from_random_bytes([1; 16]),
        questions: Vec::new(),
        state: QuestionSetState::Pending,
        created_at: NOW,
        modified_at: NOW,
        call_id: None,
        working_directory: None,
        session: None,
        answered_by: None,
        rejection_reason: None,
        abandon_reason: None,
        answers: None,
    };
    let (what, content) = ((RequestId::from_uuid(*id(1).as_uuid()), RequestSource::Acp), (Vec::new(), json!({})));
    let request = Request::permission(what, id(1), "May I?".into(), content, NOW);
    let task = |nth: u32| Task::new(TaskId::from_uuid(*id(nth).as_uuid()), "a task", NOW).expect("a title");
    let written = |task: Task| {
        let changes = task.first_fields();
        Change::TaskChanged { task, event: "created", changes, by: "user".into() }
    };
    let dependent = Task { depends_on: vec![task(1).id], ..task(2) };
    let run = WorkflowRun::new(WorkflowId::from_uuid(*id(1).as_uuid()), task(1).id, "w", "steps: []", NOW);
    let agent = Agent::new(AgentId::from_uuid(*id(1).as_uuid()), task(1).id, run.id, None, NOW);
    let operation = Operation::new(OperationId::from_uuid(*id(1).as_uuid()), OperationKind::MigrateRun, None, NOW);
    let message = Message::new(MessageId::from_uuid(*id(1).as_uuid()), Role::User, &json!({ "type": "text" }));
    vec![
        (vec!["sessions"], Change::SessionCreated(running(1))),
        (vec!["repos"], Change::RepoAdded(repo(1))),
        (vec!["messages"], Change::MessagesChanged { session: id(1), changes: vec![MessageChange::Added(message)] }),
        (vec!["requests"], Change::RequestChanged { request, event: "requested" }),
        (vec!["question_sets"], Change::QuestionSetChanged { set, event: "asked" }),
        (vec!["tasks", "task_history"], written(task(1))),
        (vec!["task_dependencies"], written(dependent)),
        (vec!["workflows"], Change::RunChanged { workflow: run, event: "started" }),
        (vec!["agents"], Change::AgentChanged { agent, event: "starting" }),
        (vec!["operations"], Change::OperationChanged { operation, event: "started" }),
        // Entries are appended separately; this is their event.
        (vec!["entries"], Change::OutputAdded { session: id(1), offset: 100 }),
    ]
}

#[tokio::test]
async fn every_client_visible_row_is_written_with_an_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    let other = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the database");
    let mut known: BTreeSet<String> = INTERNAL.map(str::to_owned).into();
    let rows = |table: &str| -> i64 {
        other.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count")
    };

    for (tables, change) in visible() {
        let before: Vec<i64> = tables.iter().map(|table| rows(table)).collect();
        let number = store.event_range().await.expect("a read").end;
        let mut tx = store.begin().await.expect("a transaction");
        if matches!(change, Change::OutputAdded { .. }) {
            tx.append_entries(id(1), &[entry(1), entry(2)]).await.expect("entries");
        }
        tx.record(change, NOW).await.expect("a change");
        tx.commit().await.expect("a commit");

        assert_eq!(store.events_after(number - 1, 10).await.expect("a read").len(), 1, "{tables:?}");
        for (table, before) in tables.iter().zip(before) {
            assert!(rows(table) > before, "{table} got no row");
        }
        known.extend(tables.into_iter().map(str::to_owned));
    }
    let mut tables = other.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("a statement");
    let found: BTreeSet<String> =
        tables.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("names");
    assert_eq!(found, known, "add a new table to INTERNAL, or to visible() with its event");
}

#[tokio::test]
async fn store_12_a_new_database_has_every_table_its_version_and_is_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    create(&store, [session(1)]).await;

    for file in files(folder.path()) {
        let mode = fs::metadata(folder.path().join(&file)).expect("its metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert_eq!(meta(&path, "schema_version"), Some(NEWEST.to_string()));
    let schema = schema(&path);
    for table in
        ["sessions", "entries", "keyframes", "events", "repos", "messages", "tasks", "agents", "workflows", "requests"]
    {
        assert!(schema.iter().any(|it| it.starts_with(&format!("table {table} "))), "{table}");
    }
}

#[tokio::test]
async fn store_02_all_state_is_in_one_file_once_the_store_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    create(&store, [session(1)]).await;
    append(&store, id(1), &[entry(1)]).await.expect("a ledger");
    drop(store);
    assert_eq!(files(folder.path()), ["coven.db", "coven.db.lock"]);

    let elsewhere = tempfile::tempdir().expect("a folder");
    let copy = elsewhere.path().join("coven.db");
    fs::copy(&path, &copy).expect("a copy of the one file");
    let store = SqliteStore::open(&copy, render).expect("the copy");
    assert_eq!(store.session(id(1)).await.expect("a read"), Some(session(1)));
    assert_eq!(store.entries(id(1), 0, 9).await.expect("a read"), [entry(1)]);
}

#[tokio::test]
async fn store_14_a_second_opener_in_the_same_process_is_refused_immediately() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    let tx = store.begin().await.expect("a transaction");

    let second = SqliteStore::open(&path, render).err().expect("the database is locked");
    assert_eq!(second.to_string(), "Database locked by another process");
    assert!(matches!(migrations::status(&path), Err(StoreError::Locked)));
    assert!(matches!(migrations::migrate(&path), Err(StoreError::Locked)));
    assert!(matches!(migrations::rollback(&path, 1), Err(StoreError::Locked)));

    // An open transaction still owns the file.
    drop(store);
    assert!(matches!(SqliteStore::open(&path, render).err(), Some(StoreError::Locked)));
    drop(tx);
    SqliteStore::open(&path, render).expect("the database is free");
}

#[test]
fn a_foreign_or_newer_database_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = folder.path().join("garbage.db");
    fs::write(&garbage, "no database ".repeat(1000)).expect("a file");
    assert!(matches!(SqliteStore::open(&garbage, render).err(), Some(StoreError::Corrupt { .. })));

    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).and_then(|it| it.execute_batch("CREATE TABLE theirs (x)")).expect("another database");
    let before = fs::read(&foreign).expect("its bytes");
    assert!(matches!(SqliteStore::open(&foreign, render).err(), Some(StoreError::Corrupt { .. })));
    assert!(fs::read(&foreign).expect("its bytes") == before);

    let newer = folder.path().join("newer.db");
    migrations::migrate(&newer).expect("a new database");
    Connection::open_with_flags_and_vfs(&newer, OpenFlags::default(), checksums::vfs())
        .and_then(|it| it.execute_batch("UPDATE meta SET value = '99' WHERE key = 'schema_version'"))
        .expect("a newer database");
    let refused = SqliteStore::open(&newer, render).err().expect("a newer schema");
    assert_eq!(
        refused.to_string(),
        format!("the store has schema version 99, but this coven supports versions up to {NEWEST}; upgrade coven")
    );
}

#[test]
fn agent_31_migrations_go_down_and_up_again_to_the_same_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    assert!(migrations::status(&path).expect("a status").iter().all(|it| it.applied_at.is_none()));
    assert_eq!(migrations::rollback(&path, 1).expect("nothing to roll back"), [0; 0]);
    assert!(!path.exists(), "status and rollback create no file");

    assert_eq!(migrations::migrate(&path).expect("up"), (1..=NEWEST).collect::<Vec<_>>());
    let complete = schema(&path);
    assert_eq!(migrations::migrate(&path).expect("nothing to do"), [0; 0]);

    assert_eq!(migrations::rollback(&path, 1).expect("one down"), [NEWEST]);
    let status = migrations::status(&path).expect("a status");
    assert_eq!(
        status.iter().map(|it| (it.version, it.applied_at.is_some())).collect::<Vec<_>>(),
        (1..=NEWEST).map(|version| (version, version < NEWEST)).collect::<Vec<_>>()
    );
    assert_eq!(migrations::rollback(&path, 1).expect("one more"), [NEWEST - 1]);
    assert!(schema(&path) != complete);

    let rest: Vec<u32> = (1..NEWEST - 1).rev().collect();
    assert_eq!(migrations::rollback(&path, 99).expect("the rest down"), rest);
    assert_eq!(schema(&path), BTreeSet::new());
    assert_eq!(meta(&path, "schema_version").as_deref(), Some("0"));
    assert_eq!(migrations::rollback(&path, 1).expect("nothing left"), [0; 0]);

    assert_eq!(migrations::migrate(&path).expect("up again"), (1..=NEWEST).collect::<Vec<_>>());
    assert_eq!(schema(&path), complete);
    let copies = [NEWEST - 2, NEWEST - 1, NEWEST].map(|version| format!("coven.db.bak-{version}"));
    let expected: BTreeSet<String> = copies.into_iter().chain(["coven.db".into(), "coven.db.lock".into()]).collect();
    assert_eq!(files(folder.path()).into_iter().collect::<BTreeSet<_>>(), expected);
}

#[tokio::test]
async fn an_older_database_is_backed_up_and_migrated_with_its_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    create(&SqliteStore::open(&path, render).expect("a new store"), [session(1)]).await;
    migrations::rollback(&path, 1).expect("an older schema");

    let store = SqliteStore::open(&path, render).expect("an older database");

    assert_eq!(store.session(id(1)).await.expect("a read"), Some(session(1)));
    assert_eq!(meta(&path, "schema_version"), Some(NEWEST.to_string()));
    let copy = folder.path().join(format!("coven.db.bak-{}", NEWEST - 1));
    assert_eq!(fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0o600);
    assert_eq!(meta(&copy, "schema_version"), Some((NEWEST - 1).to_string()));
    let kept: i64 = Connection::open(&copy)
        .and_then(|it| it.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)))
        .expect("a count");
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn permissions_and_terminal_prompts_become_requests_and_a_rollback_restores_them() {
    const REQUESTS: u32 = 16;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let written = {
        let store = SqliteStore::open(&path, render).expect("a new store");
        create(&store, [running(1)]).await;
        let what = |nth: u32| (RequestId::from_uuid(*id(nth).as_uuid()), RequestSource::Acp);
        let option = PermissionOption { id: "y".into(), name: "Yes".into(), kind: "allow_once".into() };
        let content = || (vec![option.clone()], json!({ "n": 12345678901234567890u64, "text": "ü\n" }));
        let pending = Request::permission(what(1), id(1), "May I?".into(), content(), NOW);
        let mut answered = Request::permission(what(2), id(1), "And this?".into(), content(), NOW);
        answered.answered(RequestAnswer::Option("y".into()), AnsweredBy::From(id(9)), NOW).expect("a pending request");
        let task = Task::new(TaskId::from_uuid(*id(1).as_uuid()), "a task", NOW).expect("a title");
        let run = WorkflowRun::new(WorkflowId::from_uuid(*id(1).as_uuid()), task.id, "w", "steps: []", NOW);
        let agent = Agent {
            session: Some(id(1)),
            ..Agent::new(AgentId::from_uuid(*id(1).as_uuid()), task.id, run.id, None, NOW)
        };
        let input = |nth: u32| {
            let id_of_request = RequestId::from_uuid(*id(nth).as_uuid());
            let prompt = "Two ways:\nWhich?".to_owned();
            Request { agent: Some(agent.id), ..Request::input(id_of_request, Some(id(1)), prompt, 7, NOW) }
        };
        let mut typed = input(4);
        let line = RequestAnswer::Line { text: "yes".into(), is_delivered: false };
        typed.answered(line, AnsweredBy::Human, NOW).expect("a pending request");
        let changes = task.first_fields();
        let mut tx = store.begin().await.expect("a transaction");
        let created = Change::TaskChanged { task, event: "created", changes, by: "user".into() };
        tx.record(created, NOW).await.expect("a task");
        tx.record(Change::RunChanged { workflow: run, event: "started" }, NOW).await.expect("a run");
        tx.record(Change::AgentChanged { agent: agent.clone(), event: "starting" }, NOW).await.expect("an agent");
        let requests = vec![pending, answered, input(3), typed];
        for request in requests.clone() {
            tx.record(Change::RequestChanged { request, event: "asked" }, NOW).await.expect("a request");
        }
        tx.commit().await.expect("a commit");
        requests
    };

    let steps = usize::try_from(NEWEST - REQUESTS + 1).expect("a small number");
    migrations::rollback(&path, steps).expect("the older tables");
    let older = Connection::open(&path).expect("the database");
    let count = |table: &str| -> i64 {
        older.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("a count")
    };
    assert_eq!((count("permissions"), count("questions")), (2, 2));
    let by: (String, String) = older
        .query_row("SELECT answered_by, answering_session FROM permissions WHERE state = 'answered'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("the answered request");
    assert_eq!(by, ("session".to_owned(), id(9).to_string()));
    drop(older);

    let store = SqliteStore::open(&path, render).expect("the newest schema");
    let query = RequestQuery { scope: RequestScope::All, ..RequestQuery::default() };
    assert_eq!(store.requests(&query).await.expect("a read"), written);
    let unfinished = RequestQuery { scope: RequestScope::Unfinished, kinds: vec![RequestKind::Input], ..query };
    assert_eq!(store.requests(&unfinished).await.expect("a read"), written[2..]);
}

/// The schema allows exactly the domain values: a new state without a migration fails here.
#[test]
fn the_schema_allows_exactly_the_values_of_the_domain() {
    fn words<T: ToString>(all: &[T]) -> String {
        format!("IN ({})", all.iter().map(|it| format!("'{}'", it.to_string())).collect::<Vec<_>>().join(", "))
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    migrations::migrate(&path).expect("a new database");
    let schema = schema(&path);
    for (table, column, words) in [
        ("sessions", "state", words(SessionState::ALL)),
        ("sessions", "channel", words(Channel::ALL)),
        ("sessions", "end_intent", words(EndIntent::ALL)),
        ("entries", "kind", words(EntryKind::ALL)),
        ("tasks", "state", words(TaskState::ALL)),
        ("agents", "state", words(AgentState::ALL)),
        ("workflows", "state", words(WorkflowState::ALL)),
        ("requests", "kind", words(RequestKind::ALL)),
        ("requests", "source", words(RequestSource::ALL)),
        ("requests", "state", words(RequestState::ALL)),
        ("question_sets", "state", words(QuestionSetState::ALL)),
    ] {
        let sql = schema.iter().find(|it| it.starts_with(&format!("table {table} "))).expect("the table");
        let check = format!("CHECK ({column} {words})");
        assert!(sql.contains(&check), "{table}: {check}");
    }
}

#[tokio::test]
async fn agent_29_agent_30_other_programs_find_the_compatibility_views() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    record(&store, Change::RepoAdded(repo(1))).await.expect("a new repo");
    let bound = SessionState::ALL.iter().enumerate().map(|(nth, state)| Session {
        state: *state,
        repo_id: Some(repo(1).id),
        channel: Channel::Acp,
        created_at: at(nth as i64 * 331),
        ..session(nth as u32)
    });
    create(&store, bound.chain([session(9)])).await;
    let connection = Connection::open(&path).expect("another program");
    connection
        .execute_batch(
            "INSERT INTO messages SELECT key, 1, 'm1', 'm1', 'agent', '\"hi\"', 1763238189999, 0
                 FROM sessions WHERE title = 'session 0';
             INSERT INTO messages SELECT key, 1, 'm2', 'm2', 'user', '\"no\"', 1763238189999, 0
                 FROM sessions WHERE title = 'session 9'",
        )
        .expect("messages");

    let rows = |sql: &str| {
        let mut statement = connection.prepare(sql).expect("a statement");
        let names = statement.column_names().collect::<Vec<_>>().join(" ");
        let width = statement.column_count();
        let rows: Vec<Vec<String>> = statement
            .query_map([], |row| (0..width).map(|column| row.get(column)).collect())
            .expect("rows")
            .collect::<Result<_, _>>()
            .expect("text");
        (names, rows)
    };
    let (names, repos) = rows("SELECT * FROM Repo");
    assert_eq!(names, "id name path createdAt");
    assert_eq!(repos, [[repo(1).id.to_string().as_str(), "repo-1", "/src/repo-1", "2025-11-15T20:23:09.007Z"]]);

    let (names, sessions) = rows("SELECT * FROM AgentSession ORDER BY createdAt");
    assert_eq!(names, "id repoId status createdAt updatedAt");
    assert_eq!(sessions.len(), SessionState::ALL.len(), "a session without a repo is not listed");
    for (nth, state) in SessionState::ALL.iter().enumerate() {
        let it = store.session(id(nth as u32)).await.expect("a read").expect("an existing session");
        let expected = [
            it.id.to_string(),
            repo(1).id.to_string(),
            CompatStatus::from(*state).to_string(),
            it.created_at.to_string(),
            it.updated_at.to_string(),
        ];
        assert_eq!(sessions[nth], expected);
    }

    let (names, messages) = rows("SELECT * FROM AgentMessage");
    assert_eq!(names, "id sessionId role content timestamp");
    assert_eq!(messages, [["m1", &id(0).to_string(), "agent", "\"hi\"", "2025-11-15T20:23:09.999Z"]]);
}

#[test]
fn agent_31_session_repo_status_and_time_are_indexed_and_keys_are_foreign() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    migrations::migrate(&path).expect("a new database");
    let connection = Connection::open(&path).expect("the database");
    for (query, index) in [
        ("SELECT 1 FROM messages WHERE session_key = 1", "messages_by_session"),
        ("SELECT 1 FROM messages WHERE at > 1", "messages_by_time"),
        ("SELECT 1 FROM sessions WHERE repo_id = 'r'", "sessions_by_repo"),
        ("SELECT 1 FROM sessions WHERE state = 'running'", "sessions_by_state"),
        ("SELECT 1 FROM events WHERE at > 1", "events_by_time"),
    ] {
        let plan: String =
            connection.query_row(&format!("EXPLAIN QUERY PLAN {query}"), [], |row| row.get(3)).expect("a plan");
        assert!(plan.contains(index), "{query}: {plan}");
    }
    connection.pragma_update(None, "foreign_keys", true).expect("a setting");
    for orphan in [
        "INSERT INTO messages VALUES (1, 1, 'm', 'm', 'user', '', 0, 0)",
        "INSERT INTO entries VALUES (1, 1, 'note', 0, 0, 0, NULL, NULL)",
        "INSERT INTO agents (id, task_id, state, created_at, updated_at) VALUES ('a', 't', 'running', 0, 0)",
    ] {
        assert!(connection.execute(orphan, []).is_err(), "{orphan}");
    }
}
