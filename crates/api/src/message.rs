//! Messages of an ACP session in `/api/v1`, and the requests that lead to them.

use coven_domain::message::{Role, StoredMessage};
use coven_domain::{MessageId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message_content::MessageContent;
#[cfg(feature = "schema")]
use crate::schema;

/// One message. A chunk of an unfinished message has `partial: true` in its content and the id of the message in
/// `message_id`; the finished message replaces its chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Message"))]
pub struct MessageRecord {
    /// Grows with every change; a message that changes gets a new one.
    pub number: u64,
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: MessageId,
    /// The message that this is, or is a chunk of.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub message_id: MessageId,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<Role>"))]
    pub role: Role,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub at: Timestamp,
    pub content: MessageContent,
}

impl From<&StoredMessage> for MessageRecord {
    fn from(message: &StoredMessage) -> Self {
        Self {
            number: message.number,
            id: message.id,
            message_id: message.message_id,
            role: message.role,
            at: message.at,
            content: MessageContent::read(&message.content),
        }
    }
}

/// `GET /api/v1/sessions/{id}/messages`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MessagesQuery {
    /// Messages with a greater number.
    pub after: Option<u64>,
    /// Only messages with a smaller number: the last `limit` of them. A number that no message has reached gives the newest.
    pub before: Option<u64>,
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page: another name for `after`.
    pub cursor: Option<u64>,
}

impl MessagesQuery {
    /// The last `limit` messages before a number, or of all.
    pub fn last(limit: usize, before: Option<u64>) -> Self {
        Self { before: Some(before.unwrap_or(u64::MAX)), limit: Some(limit), ..Self::default() }
    }
}

/// A page of messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MessageList"))]
pub struct MessagesResponse {
    pub items: Vec<MessageRecord>,
    /// The `after` of the next page, even if no message follows yet.
    pub next: u64,
}

/// The answer to `POST /api/v1/sessions/{id}/prompt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromptResponse {
    pub ok: bool,
    pub accepted: bool,
    /// The id of the user's message.
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub message_id: MessageId,
}

/// `POST /api/v1/sessions/{id}/mode`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ModeRequest {
    pub mode_id: String,
}

/// `POST /api/v1/sessions/{id}/config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ConfigOptionRequest {
    pub config_id: String,
    pub value: String,
}
