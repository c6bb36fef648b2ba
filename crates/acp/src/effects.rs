//! The effects of one transition: everything to store, send and execute, in order.

use std::collections::HashMap;

use coven_domain::message::{Chunk, Message, MessageChange, Role};
use coven_domain::request::PermissionOption;
use coven_domain::{MessageId, RequestId};
use serde_json::Value;
use uuid::Uuid;

use crate::call::Call;

/// A new permission request.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    pub id: RequestId,
    pub title: String,
    pub options: Vec<PermissionOption>,
    pub tool_call: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnChange {
    Started,
    Ended { stop_reason: String },
}

/// Effects collected from a transition. The daemon stores them before it executes them.
#[derive(Debug)]
pub struct Effects {
    pub messages: Vec<MessageChange>,
    /// Indexes in `messages` of the versions and chunks of each message.
    indexes: HashMap<MessageId, Vec<usize>>,
    /// Lines for the agent, without line endings.
    pub lines: Vec<String>,
    pub permission_requests: Vec<PermissionRequest>,
    /// Permission requests that no longer need an answer.
    pub withdrawn: Vec<RequestId>,
    pub calls: Vec<Call>,
    pub turns: Vec<TurnChange>,
    /// Why the session cannot be opened.
    pub failed: Option<String>,
    /// Unexpected behavior of the agent, for the daemon's own log.
    pub warnings: Vec<String>,
    /// The state changed and must be stored; text chunks alone do not change it.
    pub has_new_state: bool,
    new_id: fn() -> Uuid,
}

impl Effects {
    /// Creates an empty effects; `new_id` generates the ids of messages and permission requests.
    pub fn new(new_id: fn() -> Uuid) -> Self {
        Self {
            messages: Vec::new(),
            indexes: HashMap::new(),
            lines: Vec::new(),
            permission_requests: Vec::new(),
            withdrawn: Vec::new(),
            calls: Vec::new(),
            turns: Vec::new(),
            failed: None,
            warnings: Vec::new(),
            has_new_state: false,
            new_id,
        }
    }

    /// Reports whether there is nothing to store except the read offset.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
            && self.lines.is_empty()
            && self.permission_requests.is_empty()
            && self.withdrawn.is_empty()
            && self.calls.is_empty()
            && self.turns.is_empty()
            && self.failed.is_none()
            && !self.has_new_state
    }

    pub(crate) fn message_id(&self) -> MessageId {
        MessageId::from_uuid((self.new_id)())
    }

    pub(crate) fn permission_id(&self) -> RequestId {
        RequestId::from_uuid((self.new_id)())
    }

    pub(crate) fn add_message(&mut self, role: Role, content: &Value) -> MessageId {
        let id = self.message_id();
        self.messages.push(MessageChange::Added(Message::new(id, role, content)));
        id
    }

    /// Adds a new version of a message. It replaces an earlier version in the same effects, which need not be stored.
    pub(crate) fn put(&mut self, message: Message) {
        let id = message.id;
        match self.indexes.get(&id).and_then(|indexes| indexes.last()) {
            Some(&index) => self.messages[index] = MessageChange::Replaced(message),
            None => {
                self.indexes.insert(id, vec![self.messages.len()]);
                self.messages.push(MessageChange::Replaced(message));
            }
        }
    }

    /// Adds a chunk; directly consecutive chunks of one message are merged.
    pub(crate) fn append_chunk(&mut self, chunk: Chunk) {
        if let Some(MessageChange::Chunk(last)) = self.messages.last_mut()
            && last.message_id == chunk.message_id
        {
            last.text.push_str(&chunk.text);
            return;
        }
        self.indexes.entry(chunk.message_id).or_default().push(self.messages.len());
        self.messages.push(MessageChange::Chunk(chunk));
    }
}
