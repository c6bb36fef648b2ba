//! Messages for the chat's tests.

use coven_api::SessionRecord;
use coven_api::inbox::{InboxItem, InboxOption};
use coven_api::message::{AgentStateRecord, MessageRecord};
use serde_json::{Map, Value, json};

pub fn message(number: u64, message_id: &str, role: &str, content: Value) -> MessageRecord {
    MessageRecord {
        number,
        id: format!("m{number}"),
        message_id: message_id.to_owned(),
        role: role.to_owned(),
        at: "2026-11-15T20:23:05.000Z".to_owned(),
        content,
    }
}

pub fn user(number: u64, text: &str) -> MessageRecord {
    message(number, &format!("u{number}"), "user", json!({"type": "text", "text": text}))
}

/// A whole text of the agent.
pub fn agent(number: u64, id: &str, text: &str) -> MessageRecord {
    message(number, id, "agent", json!({"type": "text", "text": text, "partial": false}))
}

/// A piece of one.
pub fn piece(number: u64, id: &str, text: &str) -> MessageRecord {
    message(number, id, "agent", json!({"type": "text", "text": text, "partial": true}))
}

pub fn system(number: u64, content: Value) -> MessageRecord {
    message(number, &format!("s{number}"), "system", content)
}

pub fn tool(number: u64, id: &str, title: &str, status: &str) -> MessageRecord {
    let content =
        json!({"type": "tool", "tool": title, "args": {}, "result": null, "status": status, "toolCallId": id});
    message(number, id, "system", content)
}

pub fn state(activity: &str, queued: usize) -> AgentStateRecord {
    AgentStateRecord { activity: activity.to_owned(), queued, ..AgentStateRecord::default() }
}

pub fn question(id: &str, title: &str) -> InboxItem {
    let option = |id: &str, name: &str, kind: &str| InboxOption { id: id.into(), name: name.into(), kind: kind.into() };
    InboxItem {
        id: id.to_owned(),
        kind: "permission".to_owned(),
        status: "pending".to_owned(),
        session_id: Some("s".to_owned()),
        harness: Some("goose".to_owned()),
        repo_id: None,
        task_id: None,
        step: None,
        title: title.to_owned(),
        created_at: "2026-11-15T20:23:05.000Z".to_owned(),
        answered_at: None,
        answered_by: None,
        answer: None,
        options: vec![option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")],
        detail: json!({"toolCall": {"toolCallId": "t1", "title": title, "rawInput": {"command": title}}}),
    }
}

/// An ACP session that runs.
pub fn session(id: &str) -> SessionRecord {
    SessionRecord {
        kind: "session".to_owned(),
        id: id.to_owned(),
        harness: "goose".to_owned(),
        channel: "acp".to_owned(),
        title: "fix the tests".to_owned(),
        status: "running".to_owned(),
        exit_code: None,
        pid: Some(4711),
        project_root: "/work".to_owned(),
        cwd: "/work/project".to_owned(),
        repo_id: Some("r1".to_owned()),
        created_at: "2026-11-15T20:23:05.000Z".to_owned(),
        updated_at: "2026-11-15T20:23:05.000Z".to_owned(),
        archived_at: None,
        metadata: Map::new(),
        actions: Vec::new(),
    }
}
