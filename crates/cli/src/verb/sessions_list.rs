//! Formats the list of `coven sessions`: sessions of the daemon and conversations of `coven spawn`, newest first.

use std::time::Duration;

use coven_api::list::{ListKey, TimeCursor};
use coven_api::{ConversationRecord, List, SessionRecord};
use coven_client::ClientError;
use coven_domain::conversation::Summary;
use coven_domain::{SessionId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::activity::{self, Group};
use crate::failure::Failure;
use crate::format;
use crate::table::Table;

/// A page without sessions.
pub const EMPTY: &[u8] = br#"{"items":[],"next":null}"#;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: &'a RawValue,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    created_at: Timestamp,
}

/// Cursor of a page: the session or conversation that it ends with. Of the same millisecond, sessions come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(TimeCursor);

impl From<TimeCursor> for Cursor {
    fn from(place: TimeCursor) -> Self {
        Self(place)
    }
}

impl Cursor {
    /// Returns the place after which the page of sessions starts.
    pub fn of_sessions(&self) -> TimeCursor {
        match self.0.id.parse::<SessionId>() {
            Ok(_) => self.0.clone(),
            // Sessions of the same millisecond come before a conversation, so continue with the previous millisecond.
            Err(_) => TimeCursor::new(self.0.at.before(Duration::from_millis(1)), SessionId::from_uuid(Uuid::nil())),
        }
    }

    /// Returns whether the conversation comes after this cursor.
    pub fn is_before(&self, it: &Summary) -> bool {
        match self.0.id.parse::<SessionId>() {
            Ok(_) => it.created_at <= self.0.at,
            Err(_) => it.created_at < self.0.at || (it.created_at == self.0.at && *it.id.as_str() > *self.0.id),
        }
    }
}

/// Formats a page as JSON, with sessions as the daemon wrote them. Without conversations no session is parsed.
pub fn page(list: ListKey, sessions: &[u8], conversations: &[Summary], limit: usize) -> Result<String, Failure> {
    let Page { items, next } = serde_json::from_slice(sessions).map_err(ClientError::from)?;
    if conversations.is_empty() {
        return Ok(render(items.get(), next.as_deref()));
    }
    let mut records: Vec<(TimeCursor, String)> = Vec::new();
    for session in serde_json::from_str::<Vec<&RawValue>>(items.get()).map_err(ClientError::from)? {
        let row: Row = serde_json::from_str(session.get()).map_err(ClientError::from)?;
        records.push((TimeCursor::new(row.created_at, row.id), session.get().to_owned()));
    }
    for summary in conversations {
        let text = serde_json::to_string(&ConversationRecord::from(summary)).expect("plain data");
        records.push((TimeCursor::new(summary.created_at, &summary.id), text));
    }
    let next = cut(list, &mut records, limit, next.is_some());
    let texts: Vec<&str> = records.iter().map(|(_, text)| text.as_str()).collect();
    Ok(render(&format!("[{}]", texts.join(",")), next.as_deref()))
}

fn render(items: &str, next: Option<&str>) -> String {
    let next = serde_json::to_string(&next).expect("plain data");
    format!("{{\"items\":{items},\"next\":{next}}}\n")
}

/// Formats the same page as a table, by group: needs you, working, idle, finished. Returns it with its `next`.
pub fn table(
    list: ListKey,
    sessions: &[u8],
    conversations: &[Summary],
    limit: usize,
    now: Timestamp,
    width: Option<usize>,
) -> Result<(String, Option<String>), Failure> {
    let mut rows: Vec<(TimeCursor, (Group, [String; 8]))> = Vec::new();
    let page: List<SessionRecord> = serde_json::from_slice(sessions).map_err(ClientError::from)?;
    for record in page.items {
        let status = match (record.archived_at, record.queued_launch()) {
            (Some(_), _) => format!("{}, archived", record.status),
            (None, Some(queued)) => format!("{}, queued {}", record.status, queued.place),
            (None, None) => record.status.to_string(),
        };
        let age = format::format_duration(now.since(record.created_at));
        let (group, doing) = (Group::of(&record), activity::cell(&record, now));
        let detail = record.activity_detail.unwrap_or_default();
        let row = [record.id.short(), status, doing, detail, record.harness, record.title, age, record.cwd];
        rows.push((TimeCursor::new(record.created_at, record.id), (group, row)));
    }
    for it in conversations {
        let age = format::format_duration(now.since(it.created_at));
        let [harness, cwd] = [&it.harness, &it.cwd].map(|text| text.clone().unwrap_or_else(|| "-".to_owned()));
        let (status, none) = (it.status.to_string(), "-".to_owned());
        let row = [it.id.to_string(), status, none, String::new(), harness, title(it), age, cwd];
        rows.push((TimeCursor::new(it.created_at, &it.id), (Group::Finished, row)));
    }
    let next = cut(list, &mut rows, limit, page.next.is_some());
    // The page is the newest; within it, the sessions that need the user come first.
    rows.sort_by_key(|(_, (group, _))| *group);
    let head = ["ID", "STATUS", "ACTIVITY", "DETAIL", "HARNESS", "TITLE", "AGE", "CWD"];
    let mut table = Table::new(&head, &[7, 5, 3]);
    for (_, (_, row)) in rows {
        table.row(row);
    }
    Ok((table.text(width), next))
}

/// Sorts the rows, newest first, and keeps a page of them. Rows of the same time keep their order. Returns the page's `next`.
fn cut<T>(list: ListKey, rows: &mut Vec<(TimeCursor, T)>, limit: usize, has_more: bool) -> Option<String> {
    rows.sort_by_key(|(place, _)| std::cmp::Reverse(place.at));
    let has_more = has_more || rows.len() > limit;
    rows.truncate(limit);
    rows.last().filter(|_| has_more).map(|(place, _)| list.cursor(place))
}

/// Returns the title of a conversation, or a description.
pub fn title(summary: &Summary) -> String {
    if let Some(title) = &summary.title {
        return format::sanitize_line(title);
    }
    let turns = if summary.turn_count == 1 { "turn" } else { "turns" };
    let with = summary.agent.as_ref().map(|agent| format!(" with {agent}")).unwrap_or_default();
    format!("conversation{with}, {} {turns}", summary.turn_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::conversation::ConversationState;

    fn conversation(second: i64) -> Summary {
        Summary {
            id: "talk".parse().expect("a name"),
            title: None,
            agent: Some("reviewer".to_owned()),
            harness: Some("claude".to_owned()),
            cwd: None,
            turn_count: 4,
            created_at: Timestamp::from_millis(second * 1000),
            status: ConversationState::Active,
            last_activity_at: Timestamp::from_millis(second * 1000),
            size_bytes: 1,
        }
    }

    const NEW: &str = "10000000-0000-4000-8000-000000000000";
    const OLD: &str = "20000000-0000-4000-8000-000000000000";

    fn key() -> ListKey {
        ListKey::new(&["sessions"])
    }

    fn at(second: i64) -> String {
        Timestamp::from_millis(second * 1000).to_string()
    }

    fn ids(page: &str) -> (Vec<String>, Option<String>) {
        let page: serde_json::Value = serde_json::from_str(page).expect("a page");
        let ids = page["items"].as_array().expect("a list").iter().filter_map(|it| it["id"].as_str());
        (ids.map(str::to_owned).collect(), page["next"].as_str().map(str::to_owned))
    }

    #[test]
    fn sessions_and_cursor_are_unchanged() {
        let sessions = br#"{"items":[{"id":"a", "x":[1.0, 2]}],"next":"1_a","total":7}"#;
        let expected = "{\"items\":[{\"id\":\"a\", \"x\":[1.0, 2]}],\"next\":\"1_a\"}\n";
        assert_eq!(page(key(), sessions, &[], 1).expect("a valid page"), expected);
        assert_eq!(page(key(), EMPTY, &[], 1).expect("a valid page"), "{\"items\":[],\"next\":null}\n");
    }

    #[test]
    fn sessions_and_conversations_are_sorted_by_time_and_either_can_end_a_page() {
        let sessions = format!(
            r#"{{"items":[{{"id":"{NEW}","created_at":"{}"}},{{"id":"{OLD}","created_at":"{}"}}],"next":null}}"#,
            at(9),
            at(1)
        );
        let all = page(key(), sessions.as_bytes(), &[conversation(5)], 3).expect("a valid page");
        assert_eq!(ids(&all), (vec![NEW.to_owned(), "talk".to_owned(), OLD.to_owned()], None));
        let (shown, next) = ids(&page(key(), sessions.as_bytes(), &[conversation(5)], 2).expect("a valid page"));
        assert_eq!((shown.len(), next.clone()), (2, Some(key().cursor("5000_talk"))));

        let after_talk = Cursor(key().place(next.as_deref()).expect("our cursor").expect("more"));
        assert_eq!(after_talk.of_sessions().to_string(), "4999_00000000-0000-0000-0000-000000000000");
        assert!(!after_talk.is_before(&conversation(5)) && after_talk.is_before(&conversation(4)));
        let after_new = Cursor(TimeCursor::new(Timestamp::from_millis(5000), NEW));
        assert_eq!(after_new.of_sessions().to_string(), format!("5000_{NEW}"));
        assert!(after_new.is_before(&conversation(5)) && !after_new.is_before(&conversation(6)));
    }

    #[test]
    fn an_untitled_conversation_has_a_description() {
        let now = Timestamp::from_millis(65_000);
        let (text, next) = table(key(), EMPTY, &[conversation(5)], 1, now, None).expect("a table");
        assert_eq!(next, None);
        let row: Vec<&str> =
            text.lines().nth(1).expect("a row").split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(row, ["talk", "active", "-", "claude", "conversation with reviewer, 4 turns", "1m", "-"]);
    }
}
