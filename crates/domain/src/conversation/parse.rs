//! Parses a line. Turns, which are nearly all lines of a file, need one pass. Unknown fields are ignored.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

use super::{ConversationState, Line, Metadata, Trim};
use crate::Timestamp;

/// Prefix of a turn as coven and many other programs write it.
const TURN: [&str; 2] = ["{\"type\":\"turn\",", "{\"type\": \"turn\","];

/// Why a line is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct BadLine {
    /// Byte column, from 1; `None` if the line as a whole is invalid.
    pub column: Option<usize>,
    pub why: String,
}

impl From<serde_json::Error> for BadLine {
    fn from(error: serde_json::Error) -> Self {
        let mut why = error.to_string();
        // The position is reported separately.
        if let Some(at) = why.rfind(" at line ") {
            why.truncate(at);
        }
        Self { column: Some(error.column()).filter(|column| *column > 0), why }
    }
}

#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type")]
    kind: Kind,
}

#[derive(Deserialize)]
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

#[derive(Deserialize)]
struct Status {
    status: ConversationState,
    #[serde(deserialize_with = "moment")]
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Clear {
    #[serde(deserialize_with = "moment")]
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Trimmed {
    kept_first: usize,
    kept_last: usize,
    #[serde(default)]
    dropped: usize,
    #[serde(deserialize_with = "moment")]
    timestamp: Timestamp,
}

#[derive(Deserialize)]
struct Rename {
    title: String,
    #[serde(deserialize_with = "moment")]
    timestamp: Timestamp,
}

pub(super) fn line(text: &str) -> Result<Option<Line>, BadLine> {
    if TURN.iter().any(|start| text.starts_with(start)) {
        return fields(text).map(|turn| Some(Line::Turn(turn)));
    }
    // serde would also accept an array of the fields in order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(BadLine { column: None, why: "not a JSON object".to_owned() });
    }
    let Typed { kind } = fields(text)?;
    Ok(Some(match kind {
        Kind::Unknown => return Ok(None),
        Kind::Turn => Line::Turn(fields(text)?),
        Kind::Metadata => Line::Metadata(fields::<Metadata>(text)?),
        Kind::Status => {
            let Status { status, timestamp } = fields(text)?;
            Line::Status { status, timestamp }
        }
        Kind::Clear => {
            let Clear { timestamp } = fields(text)?;
            Line::Clear { timestamp }
        }
        Kind::Trim => {
            let Trimmed { kept_first, kept_last, dropped, timestamp } = fields(text)?;
            Line::Trim { trim: Trim { kept_first, kept_last, dropped }, timestamp }
        }
        Kind::Rename => {
            let Rename { title, timestamp } = fields(text)?;
            Line::Rename { title, timestamp }
        }
    }))
}

fn fields<T: DeserializeOwned>(text: &str) -> Result<T, BadLine> {
    Ok(serde_json::from_str(text)?)
}

/// Parses a timestamp in any of the forms that programs write.
pub(super) fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    /// Borrowed to save an allocation on every line.
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    let Text(text) = Text::deserialize(deserializer)?;
    text.parse()
        .or_else(|_| without_zone(&text))
        .map_err(|_| D::Error::custom(format_args!("{text:?} is not a timestamp such as 2026-01-14T10:00:00Z")))
}

/// Parses a status that may be null.
pub(super) fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ConversationState, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_else(active))
}

pub(super) fn active() -> ConversationState {
    ConversationState::Active
}

/// Parses a timestamp without a zone as UTC, because many programs omit the zone.
fn without_zone(text: &str) -> Result<Timestamp, jiff::Error> {
    let moment = text.parse::<jiff::civil::DateTime>()?.to_zoned(jiff::tz::TimeZone::UTC)?;
    Ok(Timestamp::from_millis(moment.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Turn;

    fn turn(text: &str) -> Turn {
        match Line::parse(text).expect("a valid line") {
            Some(Line::Turn(turn)) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chat_11_missing_optional_fields_and_unknown_fields_are_accepted() {
        let plain = turn(r#"{"type":"turn","role":"user","content":"hi","timestamp":"2026-01-14T10:00:00Z"}"#);
        assert_eq!((plain.tokens, plain.interrupted, plain.number), (None, false, None));
        let more = r#"{ "mood": {"a":[1]}, "timestamp":"2026-01-14T10:00:00Z", "content":"hi", "role":"user", "type":"turn" }"#;
        assert_eq!(turn(more), plain, "in any order, with unknown fields");
        for time in ["2026-01-14T10:00:00", "2026-01-14T12:00:00+02:00", "2026-01-14 10:00:00Z"] {
            let text = format!(r#"{{"type":"turn","role":"user","content":"hi","timestamp":"{time}"}}"#);
            assert_eq!(turn(&text), plain, "{time}");
        }
        for more in ["", r#","agent":null,"status":null"#] {
            let bare = format!(r#"{{"type":"metadata","session_id":"s","created_at":"2026-01-14T10:00:00Z"{more}}}"#);
            let Ok(Some(Line::Metadata(metadata))) = Line::parse(&bare) else { panic!("not valid metadata") };
            assert_eq!((metadata.agent, metadata.status), (None, ConversationState::Active));
        }
    }

    #[test]
    fn chat_11_lines_of_other_types_are_ignored_regardless_of_their_contents() {
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
    fn chat_11_a_bad_line_is_reported_with_its_position_and_reason() {
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
