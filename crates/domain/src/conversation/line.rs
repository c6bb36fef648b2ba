//! The lines of a conversation file. Field names and their order are part of the file format.

use serde::{Deserialize, Serialize};

use super::{BadLine, ConversationState, Trim, estimated_tokens, parse};
use crate::{Timestamp, string_enum};

string_enum! {
    pub enum TurnRole { User = "user", Assistant = "assistant" }
}

impl TurnRole {
    /// Returns the label before the text in a prompt.
    pub const fn label(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Assistant => "Assistant",
        }
    }
}

/// A line of a conversation file. Readers ignore lines of other types, which other tools write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    Metadata(Metadata),
    Turn(Turn),
    Status {
        status: ConversationState,
        timestamp: Timestamp,
    },
    /// The next prompt contains no earlier turns.
    Clear {
        timestamp: Timestamp,
    },
    /// The next prompt contains only the first and last turns.
    Trim {
        #[serde(flatten)]
        trim: Trim,
        timestamp: Timestamp,
    },
    Rename {
        title: String,
        timestamp: Timestamp,
    },
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub session_id: String,
    pub agent: Option<String>,
    #[serde(deserialize_with = "parse::moment")]
    pub created_at: Timestamp,
    /// The initial status; later changes are separate lines.
    #[serde(default = "parse::active", deserialize_with = "parse::status")]
    pub status: ConversationState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// One message of the user or the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub role: TurnRole,
    pub content: String,
    #[serde(deserialize_with = "parse::moment")]
    pub timestamp: Timestamp,
    pub tokens: Option<u64>,
    /// The user interrupted the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The id with which the harness resumes its own session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness_session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The number of the turn in its file, from 1; the writer sets it. It is the last field of the line: a list of
    /// conversations reads it from the end of the file, however long the line is.
    #[serde(rename = "turns", skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

/// Token counts from the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
}

impl Metadata {
    /// Replaces a lost first line.
    pub fn rebuilt(session_id: String, created_at: Timestamp) -> Self {
        Self { session_id, agent: None, created_at, status: parse::active(), harness: None, cwd: None }
    }
}

impl Turn {
    pub fn new(role: TurnRole, content: impl Into<String>, timestamp: Timestamp) -> Self {
        let content = content.into();
        let tokens = Some(estimated_tokens(&content));
        Self { role, content, timestamp, tokens, interrupted: false, harness_session: None, usage: None, number: None }
    }

    /// Returns the recorded token count, or an estimate if there is none.
    pub fn tokens_or_estimate(&self) -> u64 {
        self.tokens.unwrap_or_else(|| estimated_tokens(&self.content))
    }
}

impl Line {
    /// Parses one line without its line end. Returns `None` for an unknown type.
    pub fn parse(text: &str) -> Result<Option<Self>, BadLine> {
        parse::line(text)
    }

    /// Returns the state of the conversation after this line, if the line changes it.
    pub fn status_after(&self) -> Option<ConversationState> {
        match self {
            Self::Status { status, .. } => Some(*status),
            // A tool that numbers turns also records a status when it exits; until then the conversation is active.
            Self::Turn(turn) => turn.number.map(|_| ConversationState::Active),
            Self::Metadata(_) | Self::Clear { .. } | Self::Trim { .. } | Self::Rename { .. } => None,
        }
    }

    /// Appends this line with its line end.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self).expect("a line serializes without error");
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_768_384_800_123);

    fn text(line: &Line) -> String {
        let mut out = Vec::new();
        line.write_to(&mut out);
        String::from_utf8(out).expect("JSON")
    }

    #[test]
    fn chat_10_lines_look_as_specified() {
        let metadata = Metadata {
            session_id: "session-123".into(),
            agent: None,
            created_at: NOW,
            status: ConversationState::Active,
            harness: Some("claude".into()),
            cwd: Some("/work".into()),
        };
        let user = Turn { tokens: None, ..Turn::new(TurnRole::User, "line one\n\"two\"", NOW) };
        let assistant = Turn {
            tokens: Some(42),
            interrupted: true,
            harness_session: Some("s-1".into()),
            usage: Some(Usage { input: 30, output: 12 }),
            number: Some(2),
            ..Turn::new(TurnRole::Assistant, "yes", NOW)
        };
        let trim = Trim { kept_first: 2, kept_last: 10, dropped: 8 };
        let at = "\"timestamp\":\"2026-01-14T10:00:00.123Z\"";
        let expected = [
            (
                Line::Metadata(metadata),
                "{\"type\":\"metadata\",\"session_id\":\"session-123\",\"agent\":null,\
                 \"created_at\":\"2026-01-14T10:00:00.123Z\",\"status\":\"active\",\"harness\":\"claude\",\"cwd\":\"/work\"}\n"
                    .to_owned(),
            ),
            (
                Line::Turn(user),
                format!(
                    "{{\"type\":\"turn\",\"role\":\"user\",\"content\":\"line one\\n\\\"two\\\"\",{at},\"tokens\":null}}\n"
                ),
            ),
            (
                Line::Turn(assistant),
                format!(
                    "{{\"type\":\"turn\",\"role\":\"assistant\",\"content\":\"yes\",{at},\"tokens\":42,\"interrupted\":true,\
                     \"harness_session\":\"s-1\",\"usage\":{{\"input\":30,\"output\":12}},\"turns\":2}}\n"
                ),
            ),
            (
                Line::Status { status: ConversationState::Completed, timestamp: NOW },
                format!("{{\"type\":\"status\",\"status\":\"completed\",{at}}}\n"),
            ),
            (Line::Clear { timestamp: NOW }, format!("{{\"type\":\"clear\",{at}}}\n")),
            (
                Line::Trim { trim, timestamp: NOW },
                format!("{{\"type\":\"trim\",\"kept_first\":2,\"kept_last\":10,\"dropped\":8,{at}}}\n"),
            ),
            (
                Line::Rename { title: "Fix it".into(), timestamp: NOW },
                format!("{{\"type\":\"rename\",\"title\":\"Fix it\",{at}}}\n"),
            ),
        ];
        for (line, written) in expected {
            assert_eq!(text(&line), written);
            assert_eq!(Line::parse(written.trim_end()), Ok(Some(line)), "the line parses back");
        }
    }

    #[test]
    fn chat_10_the_turn_number_ends_its_line_regardless_of_the_text() {
        let turn = Turn { number: Some(7), ..Turn::new(TurnRole::User, "\",\"turns\":99}", NOW) };
        assert!(text(&Line::Turn(turn)).ends_with(",\"turns\":7}\n"));
    }
}
