//! Who writes a text, and the names of messages that are not shown.

use coven_api::message::MessageRecord;
use coven_api::message_content::{MessageContent, MessageText};
use coven_domain::message::Role;

/// Who writes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    User,
    Agent,
    /// The agent, to itself.
    Thought,
}

/// The text of a message and its writer; none if the message is not a text.
pub fn spoken(message: &MessageRecord) -> Option<(Voice, &MessageText)> {
    match &message.content {
        MessageContent::Text(text) if message.role == Role::User => Some((Voice::User, text)),
        MessageContent::Text(text) => Some((Voice::Agent, text)),
        MessageContent::Thought(text) => Some((Voice::Thought, text)),
        _ => None,
    }
}

/// The prompt of a user.
pub fn prompt(message: &MessageRecord) -> Option<&str> {
    spoken(message).filter(|(voice, _)| *voice == Voice::User).map(|(_, text)| text.text.as_str())
}

/// The name of an update that this version does not know.
pub fn update_name(update: &serde_json::Value) -> &str {
    update["sessionUpdate"].as_str().or(update["type"].as_str()).unwrap_or("update")
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{agent, user};
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_has_the_voice_of_its_role() {
        let hello = MessageText::whole("hello");
        assert_eq!(spoken(&user(1, "hello")), Some((Voice::User, &hello)));
        assert_eq!(spoken(&agent(1, "a", "hello")), Some((Voice::Agent, &hello)));
        assert_eq!((prompt(&user(1, "hello")), prompt(&agent(1, "a", "hello"))), (Some("hello"), None));
    }

    #[test]
    fn an_unknown_update_is_shown_by_name() {
        assert_eq!(update_name(&json!({"sessionUpdate": "weather", "x": 1})), "weather");
        assert_eq!(update_name(&json!({"type": "hologram"})), "hologram");
        assert_eq!(update_name(&json!(null)), "update");
    }
}
