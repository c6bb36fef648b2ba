//! STORE-17 and STORE-18: expired records are deleted according to the config.

use std::fs;

use coven_domain::session::Session;
use coven_testing::{TestHome, check_invariants, eventually, samples};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

const DAY: i64 = 86_400_000;

/// Writes tasks, agents, workflows and questions of various ages.
struct OldRows {
    connection: Connection,
    now: i64,
}

impl OldRows {
    fn new(home: &TestHome) -> Self {
        let connection = home.database();
        let now = coven_holder::clock::now().as_millis();
        Self { connection, now }
    }

    fn task(&self, id: &str, closed_days_ago: Option<f64>, deleted_days_ago: Option<f64>) {
        let ago = |days: Option<f64>| days.map(|days| self.now - (days * DAY as f64) as i64);
        let sql = "INSERT INTO tasks (id, title, state, created_at, updated_at, closed_at, deleted_at)
                   VALUES (?1, ?1, ?2, 0, 0, ?3, ?4)";
        let state = if closed_days_ago.is_some() { "closed" } else { "open" };
        self.connection.execute(sql, params![id, state, ago(closed_days_ago), ago(deleted_days_ago)]).expect("a row");
    }

    fn agent(&self, id: &str, task: &str, session: &Session, state: &str) {
        let sql =
            "INSERT INTO agents (id, task_id, session_id, state, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, 0, 0)";
        self.connection.execute(sql, params![id, task, session.id.to_string(), state]).expect("a row");
        let sql = "INSERT INTO requests (id, agent_id, kind, source, state, title, body, created_at, updated_at)
                   VALUES (?1, ?2, 'input', 'terminal', 'answered', '', '{}', 0, 0)";
        self.connection.execute(sql, params![format!("question of {id}"), id]).expect("a row");
    }

    fn workflow(&self, id: &str, task: &str, ended_days_ago: f64) {
        let at = self.now - (ended_days_ago * DAY as f64) as i64;
        let sql = "INSERT INTO workflows (id, task_id, name, state, created_at, updated_at, ended_at)
                   VALUES (?1, ?2, 'implement', 'completed', ?3, ?3, ?3)";
        self.connection.execute(sql, params![id, task, at]).expect("a row");
    }

    fn ids(&self, table: &str) -> Vec<String> {
        let mut statement = self.connection.prepare(&format!("SELECT id FROM {table} ORDER BY id")).expect("a table");
        statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("ids")
    }
}

/// Writes two finished sessions with files to a stopped home.
fn with_sessions(home: &TestHome) -> [Session; 2] {
    home.start();
    home.stop();
    let sessions = [samples::finished(1), samples::finished(2)];
    samples::put(home, sessions.clone());
    for session in &sessions {
        let dir = home.session_dir(&session.id.to_string());
        fs::create_dir(&dir).expect("disk has space");
        fs::write(dir.join("0000000000000000.log"), "some output").expect("disk has space");
    }
    sessions
}

fn swept(home: &TestHome) -> Value {
    eventually("the sweep has an event", || {
        home.events_since("0").items.into_iter().find(|it| it.kind == "retention.swept").map(|it| it.payload)
    })
}

#[test]
fn store_17_expired_records_are_deleted_at_start() {
    let home = TestHome::new();
    let [kept, gone] = with_sessions(&home);
    let old = OldRows::new(&home);
    old.task("closed long ago", Some(31.0), None);
    old.task("closed lately", Some(29.0), None);
    old.task("deleted long ago", Some(60.0), Some(8.0));
    old.task("deleted lately", Some(60.0), Some(6.0));
    old.task("open", None, None);
    old.agent("agent of the deleted", "deleted long ago", &gone, "completed");
    old.agent("agent of the open", "open", &kept, "completed");
    old.workflow("old", "open", 8.0);
    old.workflow("new", "open", 6.0);
    let aged = old.now - 25 * 3_600_000;
    old.connection.execute("UPDATE events SET at = ?1", [aged]).expect("old events");
    let old_events: i64 =
        old.connection.query_row("SELECT max(number) FROM events", [], |row| row.get(0)).expect("some");

    home.start();

    let payload = swept(&home);
    assert_eq!(payload["tasks_soft_deleted"], json!(["closed long ago"]));
    assert_eq!(payload["tasks_deleted"], json!(["deleted long ago"]));
    assert_eq!(payload["agents_deleted"], json!(["agent of the deleted"]));
    assert_eq!(payload["questions_deleted"], json!(["question of agent of the deleted"]));
    assert_eq!(payload["workflows_deleted"], json!(["old"]));
    assert_eq!(payload["sessions_deleted"], json!([gone.id.to_string()]));
    assert_eq!(old.ids("tasks"), ["closed lately", "closed long ago", "deleted lately", "open"]);
    assert_eq!(
        (old.ids("agents"), old.ids("workflows")),
        (vec!["agent of the open".to_owned()], vec!["new".to_owned()])
    );
    eventually("the files are deleted", || (!home.session_dir(&gone.id.to_string()).exists()).then_some(()));
    assert_eq!(home.log_text(&kept.id.to_string()), "some output");
    assert!(
        home.events_since("0").items.iter().all(|it| it.number.cast_signed() > old_events),
        "old events are deleted"
    );
}

#[test]
fn store_17_files_of_a_deleted_session_are_removed_and_unknown_files_are_kept() {
    let home = TestHome::started();
    let kept = home.run_to_end("say kept");
    let deleted = home.run_to_end("say gone").id;
    assert_eq!(home.sacrifice(&deleted).status, 200);
    home.stop();
    // As if the files could not be removed, and as if a database was lost.
    let unknown = home.session_dir("0c7e49a2-3b1d-4a87-9f06-000000000000");
    for folder in [&home.session_dir(&deleted), &unknown] {
        fs::create_dir(folder).expect("disk has space");
        fs::write(folder.join("0000000000000000.log"), "left").expect("disk has space");
    }

    home.start();

    eventually("the leftover is removed", || (!home.session_dir(&deleted).exists()).then_some(()));
    assert_eq!(fs::read_to_string(unknown.join("0000000000000000.log")).expect("exists"), "left");
    eventually("the unknown folder is reported", || {
        home.health().problems.iter().any(|problem| problem.contains("0c7e49a2")).then_some(())
    });
    assert_eq!(home.log_text(&kept.id), "kept\r\n");
    check_invariants(&home);
}

#[test]
fn store_18_the_configured_periods_are_used() {
    let home = TestHome::new();
    let [kept, gone] = with_sessions(&home);
    let old = OldRows::new(&home);
    old.task("closed two days ago", Some(2.0), None);
    old.task("deleted a moment ago", Some(60.0), Some(0.0));
    old.task("open", None, None);
    old.agent("agent", "deleted a moment ago", &gone, "completed");
    old.agent("other", "open", &kept, "completed");
    old.workflow("ancient", "open", 1000.0);
    home.configure(json!({ "store": {
        "taskRetentionDays": 1.5, "taskSoftDeleteDays": 0, "workflowRetentionDays": null, "eventRetentionHours": null,
    } }));

    home.start();

    let payload = swept(&home);
    assert_eq!(payload["tasks_soft_deleted"], json!(["closed two days ago"]));
    assert_eq!(payload["agents_deleted"], json!(["agent"]));
    // 0 deletes immediately, even a task that was just soft-deleted. Null never deletes.
    assert_eq!(old.ids("tasks"), ["open"]);
    assert_eq!(old.ids("workflows"), ["ancient"]);
    assert_eq!(payload["events_deleted"], 0);
    assert_eq!(home.log_text(&kept.id.to_string()), "some output");
    eventually("the files are deleted", || (!home.session_dir(&gone.id.to_string()).exists()).then_some(()));
}
