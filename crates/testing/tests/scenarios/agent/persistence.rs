//! AGENT-01 to AGENT-03: sessions and their messages are in the store.

use coven_testing::agents::{agent, agent_path, user};
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

use super::{database, is_iso_time, is_uuid};

#[test]
fn agent_01_a_new_session_is_a_row_bound_to_its_repo() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");

    let session = home.open(&repo);

    assert!(is_uuid(&session.id), "{session:?}");
    let sql = "SELECT AgentSession.repoId, status, AgentSession.createdAt, updatedAt, Repo.path
               FROM AgentSession JOIN Repo ON Repo.id = AgentSession.repoId WHERE AgentSession.id = ?1";
    let row: (String, String, String, String, String) = database(&home)
        .query_row(sql, [&session.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .expect("the row");
    assert_eq!((&row.0, row.1.as_str(), &row.4), (&repo.id, "active", &repo.path));
    assert_eq!(row.2, session.created_at);
    assert!(is_iso_time(&row.2) && is_iso_time(&row.3) && row.2 <= row.3, "{row:?}");
    let foreign: String = database(&home)
        .query_row("SELECT \"table\" FROM pragma_foreign_key_list('sessions') WHERE \"from\" = 'repo_id'", [], |row| {
            row.get(0)
        })
        .expect("a foreign key");
    assert_eq!(foreign, "repos");
    // The row survives a restart of the daemon.
    home.restart();
    let again = home.agent_session(&session.id);
    assert_eq!((again.status.as_str(), again.repo_id, again.created_at), ("active", Some(repo.id), session.created_at));
    check_invariants(&home);
}

#[test]
fn agent_02_every_message_is_a_row_with_its_role_and_json_content() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;

    home.turn(&id, "say hello ;; plan look,change ;; tool shell {\"command\":\"ls\"}");

    let connection = database(&home);
    let sql =
        "SELECT id, sessionId, role, content, timestamp FROM AgentMessage WHERE sessionId = ?1 ORDER BY timestamp";
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows: Vec<[String; 5]> = statement
        .query_map([&id], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?]))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("text in every column");
    let roles: Vec<(&str, Value)> = rows
        .iter()
        .map(|row| (row[2].as_str(), serde_json::from_str::<Value>(&row[3]).expect("JSON")["type"].clone()))
        .collect();
    assert_eq!(
        roles,
        [("user", json!("text")), ("agent", json!("text")), ("system", json!("plan")), ("system", json!("tool"))]
    );
    for row in &rows {
        assert!(is_uuid(&row[0]) && row[1] == id && is_iso_time(&row[4]), "{row:?}");
    }
    // The view and the interface have the same content.
    let messages: Vec<[String; 5]> = home
        .messages(&id)
        .into_iter()
        .map(|it| [it.id, it.session_id, it.role, it.content.to_string(), it.timestamp])
        .collect();
    let parsed = |row: &[String; 5]| serde_json::from_str::<Value>(&row[3]).expect("JSON");
    assert_eq!(rows.iter().map(parsed).collect::<Vec<_>>(), messages.iter().map(parsed).collect::<Vec<_>>());
    assert_eq!(
        rows.iter().map(|row| &row[0]).collect::<Vec<_>>(),
        messages.iter().map(|row| &row[0]).collect::<Vec<_>>()
    );
    check_invariants(&home);
}

#[test]
fn agent_03_a_session_has_its_repo_and_its_messages_oldest_first() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say one");
    home.turn(&id, "say two");
    let said = home.messages(&id);

    let detail: Value = home.read(&agent_path(&id, ""));

    assert_eq!(
        home.messages_with_roles(&id),
        [user("say one"), agent("one"), user("say two"), agent("two")],
        "messages, oldest first"
    );
    let messages: Vec<coven_testing::agents::AgentMessage> =
        serde_json::from_value(detail["messages"].clone()).expect("messages");
    assert_eq!(messages, said);
    assert!(messages.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp));
    assert_eq!(detail["repo"], serde_json::to_value(&repo).expect("plain data"));
    let record = home.agent_session(&id);
    for (key, value) in serde_json::to_value(&record).expect("plain data").as_object().expect("an object") {
        assert_eq!(&detail[key], value, "{key}");
    }
    // The next daemon reads the same from the store.
    home.kill_daemon();
    home.start();
    assert_eq!(home.messages(&id), said);
    check_invariants(&home);
}
