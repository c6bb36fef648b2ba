//! The last line that a session wrote.

use coven_api::ErrorCode;
use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::message_content::MessageContent;
use coven_api::routes::{Endpoint, ListMessages, ReadLog, ReadScreen};
use coven_api::screen::ScreenQuery;
use coven_api::session::LogQuery;
use coven_client::{Client, ClientError};
use coven_domain::message::Role;
use serde_json::Value;

use crate::format::sanitize_line;

/// How much of the end of a log is searched for something to read.
const TAIL_BYTES: u64 = 32 << 10;
const PAGE: usize = 1000;

/// Reads the last line that a session wrote.
pub async fn last_line(client: &mut Client, id: &str) -> Result<Option<String>, ClientError> {
    match client.call(ReadScreen::of(id).query(&unseen())).await {
        Ok(screen) if is_machine_talk(&screen.text) => from_log(client, id, screen.offset).await,
        Ok(screen) => Ok(last_readable(&screen.text)),
        // It has no terminal: it speaks in messages.
        Err(error) if error.is(ErrorCode::SessionConflict) => {
            let page = client.call(ListMessages::of(id).query(&MessagesQuery::last(PAGE, None))).await?;
            Ok(page.items.iter().rev().filter(|it| it.role != Role::User).find_map(said_in))
        }
        Err(error) => Err(error),
    }
}

/// Reading one line does not mark the session as seen.
fn unseen() -> ScreenQuery {
    ScreenQuery { look: Some(false), ..ScreenQuery::default() }
}

/// The last line of a message that is meant for people.
fn said_in(message: &MessageRecord) -> Option<String> {
    match &message.content {
        MessageContent::Text(text) | MessageContent::Thought(text) => last_readable(&text.text),
        MessageContent::Tool(call) => last_readable(&call.tool),
        MessageContent::Plan { steps, .. } => steps.iter().rev().find_map(|step| last_readable(&step.content)),
        MessageContent::Error { message, .. } => last_readable(message),
        MessageContent::Content { content: value } | MessageContent::Update { update: value } => told(value),
        MessageContent::Cancelled { .. } | MessageContent::Turn { .. } | MessageContent::Ended { .. } => None,
    }
}

/// Harnesses that answer one prompt write a JSON object per line, which a screen breaks anywhere.
fn is_machine_talk(screen: &str) -> bool {
    screen.contains("{\"")
}

async fn from_log(client: &mut Client, id: &str, end: u64) -> Result<Option<String>, ClientError> {
    let from = end.saturating_sub(TAIL_BYTES);
    let query = LogQuery { from: Some(from), to: Some(end), ..LogQuery::default() };
    let bytes = client.bytes(ReadLog::of(id).query(&query)).await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().rev().find_map(|line| match line.trim().starts_with('{') {
        true => serde_json::from_str(line.trim()).ok().and_then(|object: Value| told(&object)),
        false => last_readable(line),
    }))
}

/// The last line with a letter or a digit in it: frames and rulers say nothing.
fn last_readable(text: &str) -> Option<String> {
    let is_readable = |line: &&str| line.chars().any(char::is_alphanumeric);
    text.lines().rev().find(is_readable).map(|line| sanitize_line(line.trim()))
}

/// The last thing in an object that is meant for people.
fn told(value: &Value) -> Option<String> {
    const WORDS: [&str; 5] = ["text", "result", "title", "command", "message"];
    match value {
        Value::Object(fields) => {
            let direct =
                WORDS.iter().find_map(|word| fields.get(*word).and_then(Value::as_str).and_then(last_readable));
            direct.or_else(|| fields.values().rev().find_map(told))
        }
        Value::Array(items) => items.iter().rev().find_map(told),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_line_is_the_last_with_something_to_read() {
        assert_eq!(last_readable("one\n two \n──────\n  \n").as_deref(), Some("two"));
        assert_eq!(last_readable("\u{1b}[2Jx").as_deref(), Some(" [2Jx"));
        assert_eq!(last_readable("\n──\n"), None);
    }

    #[test]
    fn what_an_object_tells_people_is_found() {
        let said =
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "first\nthen this\n"}]}});
        assert_eq!(told(&said).as_deref(), Some("then this"));
        assert_eq!(told(&json!({"type": "result", "result": "done"})).as_deref(), Some("done"));
        assert_eq!(told(&json!({"type": "system", "session_id": "7"})), None);
    }
}
