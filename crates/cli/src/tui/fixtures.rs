//! Sessions for the browser's tests.

use super::item::Item;
use coven_api::inbox::{InboxItem, InboxKind, InboxStatus};
use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationState, Summary};
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::Size;

use super::BrowseOptions;
use super::list::SessionList;
use super::report::Report;
use super::state::{App, Effect, Message};
use crate::chat::fixtures::permission_detail;

/// A running session that was created `second` seconds after the epoch.
pub fn record(id: &str, second: i64) -> Item {
    let at = Timestamp::from_millis(second * 1000).to_string();
    Item {
        kind: "session".to_owned(),
        id: id.to_owned(),
        harness: "demo".to_owned(),
        channel: "terminal".to_owned(),
        title: format!("title of {id}"),
        status: "running".to_owned(),
        exit_code: None,
        pid: Some(4711),
        cwd: "/work/project".to_owned(),
        created_at: at.clone(),
        updated_at: at,
        archived_at: None,
        metadata: serde_json::Map::new(),
        actions: ["attach", "replay", "input", "finish", "kill", "export"].map(str::to_owned).to_vec(),
    }
}

pub fn completed(id: &str, second: i64) -> Item {
    Item {
        status: "completed".to_owned(),
        exit_code: Some(0),
        actions: ["replay", "archive", "export", "sacrifice"].map(str::to_owned).to_vec(),
        ..record(id, second)
    }
}

/// A conversation of two turns.
pub fn conversation(id: &str, second: i64) -> Summary {
    let at = Timestamp::from_millis(second * 1000);
    Summary {
        id: id.parse().expect("a name"),
        title: None,
        agent: None,
        harness: Some("claude".to_owned()),
        cwd: Some("/work".to_owned()),
        turn_count: 2,
        created_at: at,
        status: ConversationState::Active,
        last_activity_at: at,
        size_bytes: 100,
    }
}

/// A question set that waits in the inbox.
pub fn waiting(id: &str) -> InboxItem {
    InboxItem {
        id: id.to_owned(),
        kind: InboxKind::QuestionSet,
        status: InboxStatus::Pending,
        session_id: None,
        harness: None,
        repo_id: None,
        task_id: None,
        step: None,
        title: "Which\x1b[2J?".to_owned(),
        created_at: Timestamp::from_millis(0),
        answered_at: None,
        answered_by: None,
        answer: None,
        options: Vec::new(),
        detail: permission_detail(serde_json::Value::Null),
    }
}

/// The ids of what is shown, in order.
pub fn ids(list: &SessionList) -> Vec<&str> {
    (0..list.len()).filter_map(|place| list.get(place)).map(|record| record.id.as_str()).collect()
}

/// A browser of 80×24 that has read these sessions.
pub fn app_with(records: Vec<Item>) -> App {
    let now = Timestamp::from_millis(3_600_000);
    let mut app = App::new(&BrowseOptions::default(), Size { width: 80, height: 24 }, now);
    let total = records.len() as u64;
    let reading = [Report::Connected, Report::ReadingStarted, Report::Page { sessions: records, total }];
    app.update(Message::Reports(reading.into_iter().chain([Report::ReadingEnded]).collect()));
    app
}

pub fn press(app: &mut App, key: KeyCode) -> Vec<Effect> {
    app.update(Message::Key(KeyEvent::from(key)))
}

pub fn type_text(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c))).collect()
}
