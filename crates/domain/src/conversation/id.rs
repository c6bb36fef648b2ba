//! The id of a conversation: chosen by the user or generated, and always safe as a file name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

const MAX_CHARS: usize = 128;
/// Leaves room for the date and the number.
const MAX_AGENT_CHARS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// Why a text is not a valid conversation id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadConversationId {
    #[error("the session ID is empty")]
    Empty,
    #[error("the session ID is {chars} characters long; the limit is {MAX_CHARS}")]
    TooLong { chars: usize },
    #[error("the session ID {id:?} starts with a dot; start it with a letter or a digit")]
    Hidden { id: String },
    #[error("the session ID {id:?} contains {found:?}; use letters, digits, '.', '_' and '-'")]
    Character { id: String, found: char },
}

impl ConversationId {
    /// Builds an id such as `2026-01-14-qa-test-123456`. The caller supplies a random `number`.
    pub fn generated(now: Timestamp, agent: Option<&str>, number: u32) -> Self {
        let name: String = agent.unwrap_or("chat").chars().take(MAX_AGENT_CHARS).map(plain).collect();
        let date: String = now.to_string().chars().take_while(|c| *c != 'T').collect();
        // Years before 0 have a sign.
        let date = date.trim_start_matches(['-', '+']);
        Self(format!("{date}-{name}-{:06}", number % 1_000_000))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn plain(c: char) -> char {
    if is_plain(c) { c } else { '-' }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ConversationId {
    type Err = BadConversationId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let chars = text.chars().count();
        if chars == 0 {
            return Err(BadConversationId::Empty);
        }
        if chars > MAX_CHARS {
            return Err(BadConversationId::TooLong { chars });
        }
        if let Some(found) = text.chars().find(|c| !is_plain(*c)) {
            return Err(BadConversationId::Character { id: text.to_owned(), found });
        }
        // This also excludes `.` and `..`.
        match text.starts_with('.') {
            true => Err(BadConversationId::Hidden { id: text.to_owned() }),
            false => Ok(Self(text.to_owned())),
        }
    }
}

impl TryFrom<String> for ConversationId {
    type Error = BadConversationId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_an_id() {
        for good in ["my-review", "session-123", "a", "A.b_c-9", "-x", &"x".repeat(128)] {
            assert_eq!(good.parse::<ConversationId>().expect(good).as_str(), good);
        }
        for bad in ["", ".", "..", ".hidden", "../../etc/passwd", "a/b", "a\\b", "a b", "a\0", "ä", "a\n", "~"] {
            assert!(bad.parse::<ConversationId>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<ConversationId>(serde_json::json!(bad)).is_err(), "{bad:?}");
        }
        let long = "x".repeat(129);
        assert_eq!(long.parse::<ConversationId>(), Err(BadConversationId::TooLong { chars: 129 }));
    }

    #[test]
    fn a_generated_id_has_the_date_the_agent_and_six_digits() {
        let now: Timestamp = "2026-01-14T23:59:59.999Z".parse().expect("a timestamp");
        let id = |agent, number| ConversationId::generated(now, agent, number);
        assert_eq!(id(Some("qa-test"), 123_456).as_str(), "2026-01-14-qa-test-123456");
        assert_eq!(id(None, 7).as_str(), "2026-01-14-chat-000007");
        assert_eq!(id(Some("../a b"), u32::MAX).as_str(), "2026-01-14-..-a-b-967295");
        for agent in [Some("é".repeat(500)), Some(String::new()), None] {
            for now in [now, Timestamp::from_millis(-70_000_000_000_000), Timestamp::from_millis(i64::MAX)] {
                let id = ConversationId::generated(now, agent.as_deref(), 1);
                assert_eq!(id.as_str().parse(), Ok(id));
            }
        }
    }
}
