//! The message history of an ACP session: messages, and how they change while they arrive.

use serde_json::{Map, Value, json};

use crate::string_enum;
use crate::{MessageId, Timestamp};

string_enum! {
    /// The author of a message.
    pub enum Role { User = "user", Agent = "agent", System = "system" }
}

string_enum! {
    /// What an agent is doing. `working`: a turn is running; `waiting`: the turn waits for a permission.
    pub enum Activity {
        Opening = "opening",
        Idle = "idle",
        Working = "working",
        Waiting = "waiting",
        Ended = "ended",
    }
}

/// A message as it is from now on. Its content is JSON text with a `type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub role: Role,
    pub content: String,
}

impl Message {
    pub fn new(id: MessageId, role: Role, content: &Value) -> Self {
        Self { id, role, content: content.to_string() }
    }
}

string_enum! {
    /// The kind of a streamed text.
    pub enum TextKind { Text = "text", Thought = "thought" }
}

/// One change of a session's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageChange {
    /// A new message.
    Added(Message),
    /// Replaces the message with the same id: an earlier version or its chunks.
    Replaced(Message),
    /// A chunk of an unfinished message.
    Chunk(Chunk),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub id: MessageId,
    /// The message that the chunk belongs to.
    pub message_id: MessageId,
    pub role: Role,
    pub kind: TextKind,
    pub text: String,
    pub is_replayed: bool,
}

impl Chunk {
    pub fn content(&self) -> Value {
        text_content(self.kind, &self.text, true, self.is_replayed)
    }
}

/// `{"type":"text","text":…,"partial":…}`.
pub fn text_content(kind: TextKind, text: &str, is_partial: bool, is_replayed: bool) -> Value {
    let mut content = json!({ "type": kind.as_str(), "text": text, "partial": is_partial });
    if is_replayed {
        content["replayed"] = Value::Bool(true);
    }
    content
}

/// A system message about an end or a failure, with further fields.
pub fn error_content(message: &str, more: Map<String, Value>) -> Value {
    let mut content = Map::from_iter([("type".to_owned(), json!("error")), ("message".to_owned(), json!(message))]);
    content.extend(more);
    Value::Object(content)
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// Grows with every change of the session's messages.
    pub number: u64,
    pub id: MessageId,
    /// The message that this is, or is a chunk of.
    pub message_id: MessageId,
    pub role: Role,
    pub at: Timestamp,
    pub content: String,
    pub is_chunk: bool,
}
