//! Reads a line: one pass over the text, fields that nobody knows passed over.

use std::borrow::Cow;

use serde::Deserialize;

use super::{ConversationState, Line, Metadata, Role, Trim, Turn, Usage};
use crate::Timestamp;

/// Why a line is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadLine {
    /// From 1, in bytes; none where the line as a whole is wrong.
    pub column: Option<usize>,
    pub why: String,
}

impl BadLine {
    fn missing(field: &str) -> Self {
        Self { column: None, why: format!("missing field `{field}`") }
    }
}

impl From<serde_json::Error> for BadLine {
    fn from(error: serde_json::Error) -> Self {
        let mut why = error.to_string();
        // The place is told beside it.
        if let Some(at) = why.rfind(" at line ") {
            why.truncate(at);
        }
        Self { column: Some(error.column()).filter(|column| *column > 0), why }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Metadata,
    Turn,
    Status,
    Clear,
    Trim,
    Rename,
    #[serde(other)]
    Unknown,
}

/// Borrowed where the text has no escapes: only then does a `Cow` in an `Option` borrow.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// All fields of all types: the type may stand anywhere on the line, and a second pass would cost as much as the first.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(borrow)]
    session_id: Option<Text<'a>>,
    agent: Option<String>,
    #[serde(borrow)]
    created_at: Option<Text<'a>>,
    status: Option<ConversationState>,
    harness: Option<String>,
    cwd: Option<String>,
    role: Option<Role>,
    content: Option<String>,
    #[serde(borrow)]
    timestamp: Option<Text<'a>>,
    tokens: Option<u64>,
    interrupted: Option<bool>,
    harness_session: Option<String>,
    usage: Option<Usage>,
    turns: Option<u64>,
    kept_first: Option<usize>,
    kept_last: Option<usize>,
    dropped: Option<usize>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct KindOnly {
    #[serde(rename = "type")]
    kind: Kind,
}

pub(super) fn line(text: &str) -> Result<Option<Line>, BadLine> {
    // The parser would take a list for the fields in their order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(BadLine { column: None, why: "it is not a JSON object".to_owned() });
    }
    let fields: Fields = match serde_json::from_str(text) {
        Ok(fields) => fields,
        // Another type may use our names for something else.
        Err(error) => {
            return match serde_json::from_str(text) {
                Ok(KindOnly { kind: Kind::Unknown }) => Ok(None),
                _ => Err(error.into()),
            };
        }
    };
    let timestamp = || moment(fields.timestamp.as_ref(), "timestamp");
    Ok(Some(match fields.kind {
        Kind::Unknown => return Ok(None),
        Kind::Turn => Line::Turn(Turn {
            role: fields.role.ok_or_else(|| BadLine::missing("role"))?,
            timestamp: timestamp()?,
            content: fields.content.ok_or_else(|| BadLine::missing("content"))?,
            tokens: fields.tokens,
            interrupted: fields.interrupted.unwrap_or(false),
            harness_session: fields.harness_session,
            usage: fields.usage,
            number: fields.turns,
        }),
        Kind::Metadata => Line::Metadata(Metadata {
            session_id: fields.session_id.ok_or_else(|| BadLine::missing("session_id"))?.0.into_owned(),
            agent: fields.agent,
            created_at: moment(fields.created_at.as_ref(), "created_at")?,
            status: fields.status.unwrap_or(ConversationState::Active),
            harness: fields.harness,
            cwd: fields.cwd,
        }),
        Kind::Status => {
            Line::Status { status: fields.status.ok_or_else(|| BadLine::missing("status"))?, timestamp: timestamp()? }
        }
        Kind::Clear => Line::Clear { timestamp: timestamp()? },
        Kind::Trim => Line::Trim {
            trim: Trim {
                kept_first: fields.kept_first.ok_or_else(|| BadLine::missing("kept_first"))?,
                kept_last: fields.kept_last.ok_or_else(|| BadLine::missing("kept_last"))?,
                dropped: fields.dropped.unwrap_or(0),
            },
            timestamp: timestamp()?,
        },
        Kind::Rename => {
            Line::Rename { timestamp: timestamp()?, title: fields.title.ok_or_else(|| BadLine::missing("title"))? }
        }
    }))
}

fn moment(text: Option<&Text<'_>>, field: &str) -> Result<Timestamp, BadLine> {
    let text = text.ok_or_else(|| BadLine::missing(field))?.0.as_ref();
    text.parse()
        .or_else(|_| without_zone(text))
        .map_err(|_| BadLine { column: None, why: format!("{field} {text:?} is not a time like 2026-01-14T10:00:00Z") })
}

/// Many programs write UTC without saying so.
fn without_zone(text: &str) -> Result<Timestamp, jiff::Error> {
    let moment = text.parse::<jiff::civil::DateTime>()?.to_zoned(jiff::tz::TimeZone::UTC)?;
    Ok(Timestamp::from_millis(moment.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(text: &str) -> Turn {
        match Line::parse(text).expect("sound") {
            Some(Line::Turn(turn)) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chat_11_what_may_be_missing_and_what_is_too_much_is_accepted() {
        let plain = turn(r#"{"type":"turn","role":"user","content":"hi","timestamp":"2026-01-14T10:00:00Z"}"#);
        assert_eq!((plain.tokens, plain.interrupted, plain.number), (None, false, None));
        let more = r#"{ "mood": {"a":[1]}, "timestamp":"2026-01-14T10:00:00Z", "content":"hi", "role":"user", "type":"turn" }"#;
        assert_eq!(turn(more), plain, "in any order, with fields of others");
        for time in ["2026-01-14T10:00:00", "2026-01-14T12:00:00+02:00", "2026-01-14 10:00:00Z"] {
            let text = format!(r#"{{"type":"turn","role":"user","content":"hi","timestamp":"{time}"}}"#);
            assert_eq!(turn(&text), plain, "{time}");
        }
        let bare = r#"{"type":"metadata","session_id":"s","created_at":"2026-01-14T10:00:00Z"}"#;
        let Ok(Some(Line::Metadata(metadata))) = Line::parse(bare) else { panic!("sound") };
        assert_eq!((metadata.agent, metadata.status), (None, ConversationState::Active));
    }

    #[test]
    fn chat_11_lines_of_other_types_are_passed_over_whatever_they_hold() {
        for text in [
            r#"{"type":"summary"}"#,
            r#"{"type":"tool","content":[1,2],"status":7}"#,
            r#"{"role":3,"type":""}"#,
            r#"{"title":{},"title":2,"type":"note"}"#,
        ] {
            assert_eq!(Line::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn chat_11_a_bad_line_is_told_with_its_place_and_reason() {
        let why = |text: &str| Line::parse(text).expect_err(text);
        let cut = why(r#"{"type":"turn","role":"user","con"#);
        assert!(cut.column == Some(33) && cut.why.contains("EOF"), "{cut:?}");
        let time = why(r#"{"type":"turn","role":"user","content":"hi","timestamp":"soon"}"#);
        assert!(time.why.contains("\"soon\"") && time.why.contains("2026-01-14T10:00:00Z"), "{time:?}");
        for (text, word) in [
            ("", "not a JSON object"),
            ("7", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{}", "missing field `type`"),
            (r#"{"type":7}"#, "expected value"),
            (r#"{"type":"turn"}"#, "missing field `role`"),
            (r#"{"type":"turn","role":"user","timestamp":"2026-01-14T10:00:00Z"}"#, "missing field `content`"),
            (r#"{"type":"turn","role":"robot"}"#, "unknown variant `robot`"),
            (r#"{"type":"turn","role":"user","content":5}"#, "invalid type"),
            (r#"{"type":"clear","timestamp":"2026-01-14T10:00:00Z"} x"#, "trailing characters"),
            (r#"{"type":"status","timestamp":"2026-01-14T10:00:00Z"}"#, "missing field `status`"),
        ] {
            assert!(why(text).why.contains(word), "{text}: {:?}", why(text));
        }
    }
}
