//! AGENT-29 to AGENT-31: the models of the seed as views, and migrations that can be rolled back.

use std::collections::HashSet;

use coven_testing::{TestHome, check_invariants};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{database, is_iso_time, is_uuid};

fn strings(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let found = statement.query_map([], |row| row.get(0)).expect("rows");
    found.collect::<Result<_, _>>().expect("text")
}

fn columns(connection: &Connection, view: &str) -> Vec<String> {
    strings(connection, &format!("SELECT name FROM pragma_table_info('{view}') ORDER BY cid"))
}

/// Returns the first column of every index of a table.
fn indexed(connection: &Connection, table: &str) -> HashSet<String> {
    let sql = format!(
        "SELECT info.name FROM pragma_index_list('{table}') AS list, pragma_index_info(list.name) AS info
         WHERE info.seqno = 0 AND info.name IS NOT NULL"
    );
    strings(connection, &sql).into_iter().collect()
}

fn objects(connection: &Connection) -> HashSet<String> {
    strings(connection, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view', 'index')").into_iter().collect()
}

#[test]
fn agent_29_agent_session_has_the_seeds_columns_statuses_and_relations() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let ids: Vec<String> = (0..4).map(|_| home.open(&repo).id).collect();
    ids.iter().for_each(|id| drop(home.turn(id, "say hello")));
    home.act(&ids[1], "finish");
    home.cancel_session(&ids[2]);
    home.prompt(&ids[3], "crash 1");
    ids[1..].iter().for_each(|id| drop(home.wait_for_end(id)));
    // A terminal session is not an agent session.
    home.run_to_end("say hello");

    let connection = database(&home);

    assert_eq!(columns(&connection, "AgentSession"), ["id", "repoId", "status", "createdAt", "updatedAt"]);
    assert_eq!(columns(&connection, "Repo"), ["id", "name", "path", "createdAt"]);

    let sql = "SELECT id || ' ' || repoId || ' ' || status FROM AgentSession";
    let rows: HashSet<String> = strings(&connection, sql).into_iter().collect();
    let expected = ids.iter().zip(["active", "completed", "cancelled", "error"]);
    assert_eq!(rows, expected.map(|(id, status)| format!("{id} {} {status}", repo.id)).collect());
    let times = strings(&connection, "SELECT createdAt FROM AgentSession UNION ALL SELECT updatedAt FROM AgentSession");
    assert!(times.iter().all(|time| is_iso_time(time)), "{times:?}");
    let related = "SELECT DISTINCT Repo.name || ' ' || AgentSession.id FROM AgentSession
                   JOIN Repo ON Repo.id = AgentSession.repoId JOIN AgentMessage ON AgentMessage.sessionId = AgentSession.id";
    assert_eq!(strings(&connection, related).len(), 4, "every session has its repo and its messages");
}

#[test]
fn agent_30_agent_message_has_the_seeds_columns_roles_and_relation() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello ;; plan a");

    let connection = database(&home);

    assert_eq!(columns(&connection, "AgentMessage"), ["id", "sessionId", "role", "content", "timestamp"]);
    let all = |column: &str| strings(&connection, &format!("SELECT {column} FROM AgentMessage ORDER BY timestamp"));
    assert!(all("id").iter().all(|id| is_uuid(id)));
    assert_eq!(all("sessionId"), vec![id; 3]);
    assert_eq!(all("role"), ["user", "agent", "system"]);
    assert!(all("timestamp").iter().all(|time| is_iso_time(time)));
    let contents: Vec<Value> = all("content").iter().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    assert_eq!(contents[0], json!({ "type": "text", "text": "say hello ;; plan a" }));
    assert_eq!(contents[1], json!({ "type": "text", "text": "hello", "partial": false }));
    let orphans = "SELECT id FROM AgentMessage WHERE sessionId NOT IN (SELECT id FROM AgentSession)";
    assert_eq!(strings(&connection, orphans), Vec::<String>::new());
}

#[test]
fn agent_31_the_migration_creates_tables_constraints_and_indexes() {
    let home = TestHome::new();

    home.coven(&["db", "migrate"]).expect_success();

    let connection = database(&home);
    let found = objects(&connection);
    for name in ["Repo", "AgentSession", "AgentMessage", "sessions", "messages", "repos"] {
        assert!(found.contains(name), "{name} is missing in {found:?}");
    }
    let foreign = |table: &str| {
        strings(&connection, &format!("SELECT \"from\" || ' ' || \"table\" FROM pragma_foreign_key_list('{table}')"))
    };
    assert!(foreign("messages").contains(&"session_key sessions".to_owned()), "{:?}", foreign("messages"));
    assert!(foreign("sessions").contains(&"repo_id repos".to_owned()), "{:?}", foreign("sessions"));
    let (of_messages, of_sessions) = (indexed(&connection, "messages"), indexed(&connection, "sessions"));
    assert!(of_messages.contains("session_key") && of_messages.contains("at"), "{of_messages:?}");
    assert!(of_sessions.contains("repo_id") && of_sessions.contains("state"), "{of_sessions:?}");
}

#[test]
fn agent_31_the_migration_can_be_rolled_back_and_repeated() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");
    home.cancel_session(&id);
    home.wait_for_end(&id);
    home.stop();
    let before = objects(&database(&home));
    let shape = || strings(&database(&home), "SELECT coalesce(sql, name) FROM sqlite_schema");
    let complete = shape();

    // The newest step that changes tables, and then all of them.
    for steps in ["2", "100"] {
        home.coven(&["db", "rollback", "--steps", steps]).expect_success();
        let left = objects(&database(&home));
        assert!(shape() != complete, "a step down changes the schema");
        if steps == "100" {
            for name in ["AgentSession", "AgentMessage", "Repo", "sessions", "messages"] {
                assert!(!left.contains(name), "{name} still exists");
            }
        }
        home.coven(&["db", "migrate"]).expect_success();
        assert_eq!(objects(&database(&home)), before, "after {steps}");
    }

    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    assert_eq!(home.turn(&id, "say hello again").len(), 2);
    check_invariants(&home);
}
