//! `/api/v1/live`: events, terminals and input of any number of sessions on one WebSocket. Text frames are the messages below;
//! a binary frame is terminal output behind a header.

use coven_domain::SessionId;
use serde::{Deserialize, Serialize};

use crate::error::ErrorDetail;
use crate::event::EventRecord;
use crate::routes::Scope;
use crate::screen::Span;
use crate::session::InputRequest;

/// The version that `welcome` names. It grows when a message changes its meaning.
pub const VERSION: u32 = 1;
/// Unacknowledged bytes that a subscription may have if its client names no window.
pub const DEFAULT_WINDOW: u64 = 256 << 10;
/// The most data of one binary frame.
pub const MAX_DATA: usize = 64 << 10;

/// A message from client to server. `id` is the client's number for a subscription, `request` a number that answers repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum LiveRequest {
    /// Follows events or one session.
    Subscribe {
        id: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        topic: LiveTopic,
        /// Of events: the number after which to start. Without it, only new events are sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Id>"))]
        session_id: Option<SessionId>,
        /// Of a session; `bytes` if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<LiveMode>,
        /// Of a session: the first byte of the log to send. Without it, the screen is sent first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// Of a session: how many bytes may be unacknowledged; 262144 if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        /// Of a session; `jump` if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_lag: Option<LiveOnLag>,
    },
    /// Everything before byte `offset` of the log is painted.
    Ack {
        id: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        offset: u64,
    },
    /// Skips to what the session shows now.
    Jump {
        id: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
    },
    Unsubscribe {
        id: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
    },
    /// Types into a session: either `data` or `data_base64`.
    Input {
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
        session_id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data_base64: Option<String>,
    },
    /// Changes the size of a session's terminal.
    Resize {
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
        session_id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        rows: u16,
        cols: u16,
    },
    /// Signals the processes in the foreground of a session's terminal. Never waits behind input.
    Signal {
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Id"))]
        session_id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        signal: LiveSignal,
    },
}

impl LiveRequest {
    /// Builds an `input` message of any bytes.
    pub fn input(session_id: SessionId, bytes: &[u8], request: Option<u64>) -> Self {
        let InputRequest { data, data_base64 } = InputRequest::of(bytes);
        Self::Input { session_id, request, data, data_base64 }
    }

    /// The scope that a client needs to send this, beside the scope of the route.
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Subscribe { .. } | Self::Ack { .. } | Self::Jump { .. } | Self::Unsubscribe { .. } => Scope::View,
            Self::Input { .. } | Self::Resize { .. } | Self::Signal { .. } => Scope::Type,
        }
    }

    /// The subscription that this is about, and the number that answers repeat.
    pub const fn subject(&self) -> (Option<u32>, Option<u64>) {
        match self {
            Self::Subscribe { id, request, .. }
            | Self::Ack { id, request, .. }
            | Self::Jump { id, request }
            | Self::Unsubscribe { id, request } => (Some(*id), *request),
            Self::Input { request, .. } | Self::Resize { request, .. } | Self::Signal { request, .. } => {
                (None, *request)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LiveTopic {
    Events,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LiveMode {
    /// What the session wrote, byte for byte.
    #[default]
    Bytes,
    /// The rows of its screen as styled text.
    Rows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LiveOnLag {
    /// Skips to a fresh screen.
    #[default]
    Jump,
    /// Continues with the next byte.
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum LiveSignal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Stop,
    Tstp,
    Winch,
}

/// A message from server to client. `id` is the subscription it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveMessage {
    /// The first message of a connection. `event_number` is the newest event.
    Welcome {
        version: u32,
        event_number: u64,
    },
    /// `offset` is the byte of the log or the number of the event after which the subscription starts.
    Subscribed {
        id: u32,
        offset: u64,
    },
    /// Nothing more comes for this id.
    Unsubscribed {
        id: u32,
    },
    /// The session has received the input, size or signal of this request.
    Accepted {
        request: u64,
    },
    Event {
        id: u32,
        event: EventRecord,
    },
    /// Events were lost: they had expired. Read `/state`; the events after `event_number` follow.
    Gap {
        id: u32,
        event_number: u64,
    },
    /// The whole screen when the log had `offset` bytes: as ANSI in `data`, or as rows in `lines`.
    Screen {
        id: u32,
        offset: u64,
        rows: u16,
        cols: u16,
        title: Option<String>,
        cursor: LiveCursor,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<Vec<Vec<Span>>>,
    },
    /// The rows that changed since the last message, when the log had `offset` bytes.
    Rows {
        id: u32,
        offset: u64,
        cursor: LiveCursor,
        changed: Vec<LiveRow>,
    },
    /// A window's bytes are unacknowledged. The subscription pauses until an `ack` or `jump`.
    Lagging {
        id: u32,
        offset: u64,
        end: u64,
    },
    /// The bytes between were skipped, or the log no longer has them. A `screen` follows.
    Jump {
        id: u32,
        from: u64,
        to: u64,
    },
    /// The terminal has a new size from here on.
    Resize {
        id: u32,
        rows: u16,
        cols: u16,
    },
    /// The session has ended, and all its output was sent. `exit_code` is `null` where it is not known.
    Exit {
        id: u32,
        exit_code: Option<i32>,
        offset: u64,
    },
    /// A message was refused, or a subscription failed. The connection stays open.
    Error {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<u64>,
        error: ErrorDetail,
    },
    /// The daemon stops; the connection closes with 1001. Sessions keep running.
    Stopping {},
}

impl LiveMessage {
    /// The text of an `event` message around an event that is JSON already.
    pub fn event_text(id: u32, event: &str) -> String {
        format!(r#"{{"type":"event","id":{id},"event":{event}}}"#)
    }
}

/// Where the cursor is, counted from 0 at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveCursor {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
}

/// One row of the screen, counted from 0 at the top, without trailing blanks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveRow {
    pub row: u16,
    pub spans: Vec<Span>,
}

/// The header of a binary frame: the subscription, and the offset of the first byte of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputHeader {
    pub id: u32,
    pub offset: u64,
}

impl OutputHeader {
    pub const BYTES: usize = 16;
    const OUTPUT: u8 = 1;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = Self::OUTPUT;
        bytes[4..8].copy_from_slice(&self.id.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Splits a binary frame into header and data; `None` if it is not output.
    pub fn decode(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (header, data) = frame.split_first_chunk::<{ Self::BYTES }>()?;
        let (kind, rest) = header.split_first_chunk::<4>()?;
        let (id, offset) = rest.split_first_chunk::<4>()?;
        let header =
            Self { id: u32::from_be_bytes(*id), offset: u64::from_be_bytes(offset.try_into().expect("8 of 16 bytes")) };
        (*kind == [Self::OUTPUT, 0, 0, 0]).then_some((header, data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::screen::Color;

    #[test]
    fn a_header_has_its_fields_where_the_interface_puts_them() {
        let header = OutputHeader { id: 0x0102_0304, offset: 0x1122_3344_5566_7788 };
        let bytes = header.encode();
        assert_eq!(bytes, [1, 0, 0, 0, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(OutputHeader::decode(&[&bytes[..], b"data"].concat()), Some((header, &b"data"[..])));
        assert_eq!(OutputHeader::decode(&bytes[..15]), None);
        assert_eq!(OutputHeader::decode(&[2; 20]), None);
    }

    #[test]
    fn requests_are_objects_with_known_names_only() {
        let subscribe: LiveRequest =
            serde_json::from_str(r#"{"type":"subscribe","id":1,"topic":"events","since":17}"#).expect("a request");
        assert_eq!((subscribe.subject(), subscribe.scope()), ((Some(1), None), Scope::View));
        for wrong in [
            r#"{"type":"ack","id":1,"offset":2,"more":3}"#,
            r#"{"type":"ack","id":1}"#,
            r#"{"type":"ack","id":-1,"offset":2}"#,
            r#"{"type":"nosuch"}"#,
            r#"{"id":1}"#,
        ] {
            assert!(serde_json::from_str::<LiveRequest>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn input_and_what_changes_a_session_need_the_scope_to_type() {
        let session_id: SessionId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().expect("an id");
        let typed = LiveRequest::input(session_id, &[0xff], Some(7));
        assert_eq!((typed.subject(), typed.scope()), ((None, Some(7)), Scope::Type));
        let expected = json!({ "type": "input", "session_id": session_id, "request": 7, "data_base64": "/w==" });
        assert_eq!(serde_json::to_value(&typed).expect("plain data"), expected);
        let signal = LiveRequest::Signal { session_id, request: None, signal: LiveSignal::Int };
        assert_eq!(
            (signal.scope(), serde_json::to_value(&signal).expect("plain data")["signal"].take()),
            (Scope::Type, json!("INT"))
        );
    }

    #[test]
    fn messages_have_the_keys_of_the_interface() {
        let span = Span { text: "x".into(), fg: Some(Color::Indexed { index: 1 }), bold: true, ..Span::default() };
        assert_eq!(
            serde_json::to_value(&span).expect("plain data"),
            json!({ "text": "x", "fg": { "type": "indexed", "index": 1 }, "bold": true })
        );
        assert_eq!(serde_json::to_string(&LiveMessage::Stopping {}).expect("plain data"), r#"{"type":"stopping"}"#);
        let event = json!({ "type": "event", "id": 3, "event": { "number": 1 } });
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&LiveMessage::event_text(3, r#"{"number":1}"#)).ok(),
            Some(event)
        );
        let exit = LiveMessage::Exit { id: 2, exit_code: None, offset: 9 };
        assert_eq!(
            serde_json::to_string(&exit).expect("plain data"),
            r#"{"type":"exit","id":2,"exit_code":null,"offset":9}"#
        );
    }
}
