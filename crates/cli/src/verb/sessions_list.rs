//! What `coven sessions` prints: the daemon's sessions and the conversations of `coven spawn` in one list, newest first.

use coven_api::{ConversationRecord, SessionRecord};
use coven_client::ClientError;
use coven_domain::Timestamp;
use coven_domain::conversation::Summary;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::table::Table;
use crate::wording;

#[derive(Deserialize)]
pub struct Page<'a> {
    #[serde(borrow)]
    pub sessions: &'a RawValue,
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct Created {
    created_at: String,
}

/// One array of all records: sessions as the daemon wrote them.
pub fn array(pages: &[Vec<u8>], conversations: &[Summary], limit: usize) -> Result<Vec<u8>, Failure> {
    if conversations.is_empty() {
        return joined(pages);
    }
    let mut records: Vec<(String, String)> = Vec::new();
    for page in pages {
        let page: Page<'_> = serde_json::from_slice(page).map_err(ClientError::from)?;
        let sessions: Vec<&RawValue> = serde_json::from_str(page.sessions.get()).map_err(ClientError::from)?;
        for session in sessions {
            let created: Created = serde_json::from_str(session.get()).map_err(ClientError::from)?;
            records.push((created.created_at, session.get().to_owned()));
        }
    }
    for summary in conversations {
        let text = serde_json::to_string(&ConversationRecord::from(summary)).expect("plain data");
        records.push((summary.created_at.to_string(), text));
    }
    newest_first(&mut records, limit);
    let texts: Vec<String> = records.into_iter().map(|(_, text)| text).collect();
    Ok(format!("[{}]\n", texts.join(",")).into_bytes())
}

fn joined(pages: &[Vec<u8>]) -> Result<Vec<u8>, Failure> {
    let mut out = b"[".to_vec();
    for page in pages {
        let page: Page<'_> = serde_json::from_slice(page).map_err(ClientError::from)?;
        let records = page.sessions.get().trim().trim_start_matches('[').trim_end_matches(']').trim();
        if !records.is_empty() {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(records.as_bytes());
        }
    }
    out.extend_from_slice(b"]\n");
    Ok(out)
}

pub fn table(
    pages: &[Vec<u8>],
    conversations: &[Summary],
    limit: usize,
    now: Timestamp,
    width: Option<usize>,
) -> Result<String, Failure> {
    let mut rows: Vec<(String, [String; 6])> = Vec::new();
    for page in pages {
        let page: Page<'_> = serde_json::from_slice(page).map_err(ClientError::from)?;
        let records: Vec<SessionRecord> = serde_json::from_str(page.sessions.get()).map_err(ClientError::from)?;
        for record in records {
            let id = wording::short_id(&record.id).to_owned();
            let status = match record.archived_at {
                Some(_) => format!("{}, archived", record.status),
                None => record.status,
            };
            let age = wording::age(&record.created_at, now);
            rows.push((record.created_at, [id, status, record.harness, record.title, age, record.cwd]));
        }
    }
    for it in conversations {
        let created_at = it.created_at.to_string();
        let age = wording::age(&created_at, now);
        let [harness, cwd] = [&it.harness, &it.cwd].map(|text| text.clone().unwrap_or_else(|| "-".to_owned()));
        rows.push((created_at, [it.id.to_string(), it.status.to_string(), harness, title(it), age, cwd]));
    }
    newest_first(&mut rows, limit);
    let mut table = Table::new(&["ID", "STATUS", "HARNESS", "TITLE", "AGE", "CWD"], &[5, 3]);
    for (_, row) in rows {
        table.row(row);
    }
    Ok(table.text(width))
}

/// Its own title, or what it is.
pub fn title(summary: &Summary) -> String {
    if let Some(title) = &summary.title {
        return wording::plain(title);
    }
    let turns = if summary.turn_count == 1 { "turn" } else { "turns" };
    let with = summary.agent.as_ref().map(|agent| format!(" with {agent}")).unwrap_or_default();
    format!("conversation{with}, {} {turns}", summary.turn_count)
}

/// What was in order stays in it where times are the same. Times in ISO 8601 sort as they are.
fn newest_first<T>(rows: &mut Vec<(String, T)>, limit: usize) {
    rows.sort_by(|(a, _), (b, _)| b.cmp(a));
    rows.truncate(limit);
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

    #[test]
    fn pages_become_one_array_and_records_stay_as_they_came() {
        let first = br#"{"sessions":[{"id":"a","x":[1.0, 2]},{"id":"b"}],"total":3,"next":"c"}"#.to_vec();
        let last = br#"{"sessions": [ {"id":"c"} ],"total":3,"next":null}"#.to_vec();
        let out = array(&[first, last], &[], usize::MAX).expect("sound pages");
        assert_eq!(String::from_utf8_lossy(&out), "[{\"id\":\"a\",\"x\":[1.0, 2]},{\"id\":\"b\"},{\"id\":\"c\"}]\n");
        let none = br#"{"sessions":[],"total":0,"next":null}"#.to_vec();
        assert_eq!(array(&[none], &[], usize::MAX).expect("a sound page"), b"[]\n");
    }

    #[test]
    fn conversations_stand_among_the_sessions_by_their_time() {
        let at = |second: i64| Timestamp::from_millis(second * 1000).to_string();
        let page = format!(
            r#"{{"sessions":[{{"id":"new","created_at":"{}"}},{{"id":"old","x":1.0,"created_at":"{}"}}],"next":null}}"#,
            at(9),
            at(1)
        );
        let out = array(&[page.clone().into_bytes()], &[conversation(5)], usize::MAX).expect("a sound page");
        let records: Vec<serde_json::Value> = serde_json::from_slice(&out).expect("an array");
        let ids: Vec<&str> = records.iter().filter_map(|record| record["id"].as_str()).collect();
        assert_eq!(ids, ["new", "talk", "old"]);
        assert_eq!(
            (&records[1]["kind"], &records[1]["resume"]),
            (&"conversation".into(), &"coven spawn --resume talk".into())
        );
        let out = array(&[page.into_bytes()], &[conversation(5)], 2).expect("a sound page");
        assert!(!String::from_utf8_lossy(&out).contains("old"));
    }

    #[test]
    fn a_conversation_in_the_table_says_what_it_is() {
        let text = table(&[], &[conversation(5)], usize::MAX, Timestamp::from_millis(65_000), None).expect("a table");
        let row: Vec<&str> =
            text.lines().nth(1).expect("a row").split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(row, ["talk", "active", "claude", "conversation with reviewer, 4 turns", "1m", "-"]);
    }
}
