//! STORE-17 and STORE-18: the seven rules of retention, on rows of every kind.

mod samples;

use coven_domain::Timestamp;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{Session, SessionState};
use coven_store::{SqliteStore, Store};
use rusqlite::Connection;
use samples::*;
use serde_json::{Value, json};

const DAY: i64 = 86_400_000;

struct Work {
    _folder: tempfile::TempDir,
    store: SqliteStore,
    connection: Connection,
}

impl Work {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("coven.db");
        let store = SqliteStore::open(&path, render).expect("a new store");
        let connection = Connection::open(&path).expect("the same database");
        Self { _folder: folder, store, connection }
    }

    fn task(&self, id: &str, state: &str, closed_at: Option<Timestamp>, deleted_at: Option<Timestamp>) {
        self.connection
            .execute(
                "INSERT INTO tasks (id, title, state, created_at, updated_at, closed_at, deleted_at)
                 VALUES (?1, ?1, ?2, 0, 0, ?3, ?4)",
                (id, state, closed_at.map(Timestamp::as_millis), deleted_at.map(Timestamp::as_millis)),
            )
            .expect("a task");
    }

    fn agent(&self, id: &str, task: &str, session: &Session, state: &str) {
        self.connection
            .execute(
                "INSERT INTO agents (id, task_id, session_id, state, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, 0, 0)",
                (id, task, session.id.to_string(), state),
            )
            .expect("an agent");
        self.connection
            .execute(
                "INSERT INTO requests (id, agent_id, kind, source, state, title, body, created_at, updated_at)
                 VALUES ('q-' || ?1, ?1, 'input', 'terminal', 'pending', '', '{}', 0, 0)",
                [id],
            )
            .expect("a question");
    }

    fn workflow(&self, id: &str, task: &str, state: &str, ended_at: Option<Timestamp>) {
        self.connection
            .execute(
                "INSERT INTO workflows (id, task_id, name, state, created_at, updated_at, ended_at)
                 VALUES (?1, ?2, 'implement', ?3, 0, 0, ?4)",
                (id, task, state, ended_at.map(Timestamp::as_millis)),
            )
            .expect("a workflow");
    }

    fn ids(&self, table: &str) -> Vec<String> {
        let mut statement =
            self.connection.prepare(&format!("SELECT id FROM {table} ORDER BY id")).expect("a statement");
        statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("text")
    }
}

fn days_ago(days: i64) -> Timestamp {
    at(-days * DAY)
}

fn default_periods() -> Cutoffs {
    coven_host::config::StoreConfig::default().cutoffs(NOW)
}

#[tokio::test]
async fn store_17_the_seven_rules_in_one_transaction_with_one_event() {
    let work = Work::new();
    let ended = |nth| Session { state: SessionState::Completed, ..session(nth) };
    create(&work.store, [ended(1), ended(2), ended(3)]).await;
    append(&work.store, id(1), &[entry(1), entry(2)]).await.expect("a ledger");
    work.task("open", "open", None, None);
    work.task("closed-29", "closed", Some(days_ago(29)), None);
    work.task("closed-31", "closed", Some(days_ago(31)), None);
    work.task("deleted-6", "closed", Some(days_ago(40)), Some(days_ago(6)));
    work.task("deleted-8", "closed", Some(days_ago(40)), Some(days_ago(8)));
    work.agent("a-gone", "deleted-8", &ended(1), "completed");
    work.agent("a-kept", "deleted-6", &ended(2), "failed");
    work.workflow("w-with-task", "deleted-8", "failed", Some(days_ago(1)));
    work.workflow("w-old", "open", "completed", Some(days_ago(8)));
    work.workflow("w-new", "open", "completed", Some(days_ago(6)));
    work.workflow("w-running", "open", "running", None);
    work.connection.execute("INSERT INTO task_dependencies VALUES ('open', 'deleted-8')", []).expect("a dependency");
    work.connection.execute("UPDATE tasks SET parent_id = 'deleted-8' WHERE id = 'open'", []).expect("a parent");
    work.connection
        .execute("UPDATE events SET at = ?1 WHERE number < 3", [days_ago(2).as_millis()])
        .expect("old events");

    let report = work.store.sweep(&default_periods(), NOW).await.expect("a sweep");

    assert_eq!(report.tasks_soft_deleted, ["closed-31"]);
    assert_eq!(report.tasks_deleted, ["deleted-8"]);
    assert_eq!(report.agents_deleted, ["a-gone"]);
    assert_eq!(report.sessions_deleted, [id(1)]);
    assert_eq!(report.workflows_deleted, ["w-with-task", "w-old"]);
    assert_eq!(report.questions_deleted, ["q-a-gone"]);
    assert_eq!((report.events_deleted, report.event_number), (2, Some(4)));

    assert_eq!(work.ids("tasks"), ["closed-29", "closed-31", "deleted-6", "open"]);
    assert_eq!(work.ids("agents"), ["a-kept"]);
    assert_eq!(work.ids("workflows"), ["w-new", "w-running"]);
    assert_eq!(work.ids("requests"), ["q-a-kept"]);
    assert_eq!(work.store.session(id(1)).await.expect("a read"), None);
    assert_eq!(work.store.session(id(2)).await.expect("a read"), Some(ended(2)));
    assert_eq!(work.store.last_entry(id(1)).await.expect("a read"), 0);

    // The history of the remaining tasks records actor and time.
    let mut statement = work
        .connection
        .prepare("SELECT task_id, field, old, new FROM task_history WHERE changed_by = 'retention' AND at = ?1 ORDER BY number")
        .expect("a statement");
    let noted: Vec<[String; 4]> = statement
        .query_map([NOW.as_millis()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("text");
    assert_eq!(
        noted,
        [
            ["closed-31", "deleted", "false", "true"],
            ["open", "parent", "\"deleted-8\"", "null"],
            ["open", "depends_on", "[\"deleted-8\"]", "[]"],
        ]
    );

    let events = work.store.events_after(0, 10).await.expect("a read");
    let swept = events.last().expect("an event");
    assert_eq!((events.len(), swept.kind.as_str()), (2, "retention.swept"));
    assert_eq!(
        serde_json::from_str::<Value>(&swept.payload).expect("JSON"),
        json!({"tasks_soft_deleted": ["closed-31"], "tasks_deleted": ["deleted-8"], "agents_deleted": ["a-gone"],
            "sessions_deleted": [id(1)], "workflows_deleted": ["w-with-task", "w-old"],
            "questions_deleted": ["q-a-gone"], "operations_deleted": 0, "events_deleted": 2, "more": false})
    );
    let left = |sql: &str| -> Vec<String> {
        let mut statement = work.connection.prepare(sql).expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("a read");
        rows.collect::<Result<_, _>>().expect("texts")
    };
    assert_eq!(left("SELECT id FROM tasks WHERE deleted_at IS NULL ORDER BY rowid"), ["open", "closed-29"]);
    assert_eq!(left("SELECT depends_on FROM task_dependencies WHERE task_id = 'open'"), [""; 0]);
    let counts = ["agents", "workflows", "requests"].map(|table| left(&format!("SELECT id FROM {table}")).len());
    assert_eq!(counts, [1, 2, 1]);
}

#[tokio::test]
async fn store_17_a_large_sweep_lists_every_id_in_events_of_bounded_size() {
    let work = Work::new();
    let tasks: Vec<String> = (0..250).map(|nth| format!("task-{nth:03}")).collect();
    work.connection.execute_batch("BEGIN").expect("a transaction");
    for task in &tasks {
        work.task(task, "closed", Some(days_ago(31)), None);
    }
    work.workflow("w", &tasks[0], "completed", Some(days_ago(8)));
    work.connection.execute_batch("COMMIT").expect("a commit");

    let report = work.store.sweep(&default_periods(), NOW).await.expect("a sweep");

    let events = work.store.events_after(0, 10).await.expect("a read");
    assert_eq!(report.event_number, events.last().map(|event| event.number));
    let payloads: Vec<Value> =
        events.iter().map(|event| serde_json::from_str(&event.payload).expect("a payload")).collect();
    let listed = |payload: &Value| payload["tasks_soft_deleted"].as_array().expect("a list").clone();
    assert_eq!(payloads.iter().map(|it| listed(it).len()).collect::<Vec<_>>(), [100, 100, 50]);
    assert_eq!(payloads.iter().map(|it| it["more"].clone()).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(
        payloads.iter().map(|it| it["workflows_deleted"].clone()).collect::<Vec<_>>(),
        [json!(["w"]), json!([]), json!([])]
    );
    let all: Vec<Value> = payloads.iter().flat_map(listed).collect();
    assert_eq!(json!(all), json!(tasks));
}

#[tokio::test]
async fn store_17_a_task_with_a_live_agent_is_kept_until_a_later_sweep() {
    let work = Work::new();
    let ended = Session { state: SessionState::Completed, ..session(2) };
    create(&work.store, [running(1), ended.clone()]).await;
    work.task("session-runs", "closed", Some(days_ago(40)), Some(days_ago(8)));
    work.agent("a1", "session-runs", &running(1), "completed");
    work.task("agent-starts", "closed", Some(days_ago(40)), Some(days_ago(8)));
    work.agent("a2", "agent-starts", &ended, "starting");

    let report = work.store.sweep(&default_periods(), NOW).await.expect("a sweep");
    assert_eq!((report.tasks_deleted.len(), report.sessions_deleted.len()), (0, 0));

    work.connection.execute("UPDATE agents SET state = 'failed'", []).expect("failed agents");
    let report = work.store.sweep(&default_periods(), NOW).await.expect("a sweep");
    assert_eq!((report.tasks_deleted, report.sessions_deleted), (vec!["agent-starts".to_owned()], vec![id(2)]));
}

#[tokio::test]
async fn store_18_configured_periods_apply_zero_is_immediate_and_null_is_never() {
    let work = Work::new();
    work.task("t", "closed", Some(NOW), None);
    work.task("old", "closed", Some(days_ago(4000)), None);
    work.workflow("w", "t", "completed", Some(NOW));

    let config = coven_host::config::StoreConfig {
        event_retention_hours: None,
        task_retention_days: None,
        task_soft_delete_days: None,
        workflow_retention_days: None,
        ..Default::default()
    };
    assert_eq!(work.store.sweep(&config.cutoffs(NOW), NOW).await.expect("a sweep"), Default::default());

    let config = coven_host::config::StoreConfig { task_retention_days: Some(1.5), ..config };
    let report = work.store.sweep(&config.cutoffs(NOW), NOW).await.expect("a sweep");
    assert_eq!(report.tasks_soft_deleted, ["old"]);

    let config = coven_host::config::StoreConfig {
        task_retention_days: Some(0.0),
        task_soft_delete_days: Some(0.0),
        workflow_retention_days: Some(0.0),
        ..config
    };
    let report = work.store.sweep(&config.cutoffs(NOW), NOW).await.expect("a sweep");
    assert_eq!(report.tasks_soft_deleted, ["t"]);
    assert_eq!(work.ids("tasks"), [""; 0]);
    assert_eq!(work.ids("workflows"), [""; 0]);
}
