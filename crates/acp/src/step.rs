//! What a step of the conversation brings: everything that must be stored, sent and done, in order.

use std::collections::HashMap;

use coven_domain::message::{Message, MessageChange, Piece, Role};
use coven_domain::permission::PermissionOption;
use coven_domain::{MessageId, PermissionId};
use serde_json::Value;
use uuid::Uuid;

use crate::call::Call;

/// A request for permission that just came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub id: PermissionId,
    pub title: String,
    pub options: Vec<PermissionOption>,
    pub tool_call: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnChange {
    Started,
    Ended { stop_reason: String },
}

/// Collected until it is stored, then done.
#[derive(Debug)]
pub struct Step {
    pub messages: Vec<MessageChange>,
    /// Where versions and pieces of a message stand in it.
    places: HashMap<MessageId, Vec<usize>>,
    /// Lines for the agent, without their ends.
    pub lines: Vec<String>,
    pub asks: Vec<Ask>,
    /// Requests for permission that nobody needs to answer any more.
    pub withdrawn: Vec<PermissionId>,
    pub calls: Vec<Call>,
    pub turns: Vec<TurnChange>,
    /// The session cannot be opened: why.
    pub failed: Option<String>,
    /// What an agent did that is worth a line in the daemon's own log.
    pub oddities: Vec<String>,
    /// More than text has come: the state must be stored.
    pub has_new_state: bool,
    new_id: fn() -> Uuid,
}

impl Step {
    /// `new_id` makes the ids of messages and requests.
    pub fn new(new_id: fn() -> Uuid) -> Self {
        Self {
            messages: Vec::new(),
            places: HashMap::new(),
            lines: Vec::new(),
            asks: Vec::new(),
            withdrawn: Vec::new(),
            calls: Vec::new(),
            turns: Vec::new(),
            failed: None,
            oddities: Vec::new(),
            has_new_state: false,
            new_id,
        }
    }

    /// Nothing to store but how far the stream was read.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
            && self.lines.is_empty()
            && self.asks.is_empty()
            && self.withdrawn.is_empty()
            && self.calls.is_empty()
            && self.turns.is_empty()
            && self.failed.is_none()
            && !self.has_new_state
    }

    pub(crate) fn message_id(&self) -> MessageId {
        MessageId::from_uuid((self.new_id)())
    }

    pub(crate) fn permission_id(&self) -> PermissionId {
        PermissionId::from_uuid((self.new_id)())
    }

    pub(crate) fn say(&mut self, role: Role, content: &Value) -> MessageId {
        let id = self.message_id();
        self.messages.push(MessageChange::Added(Message::new(id, role, content)));
        id
    }

    /// Earlier versions of the same step need not be stored at all: it takes the place of the last of them.
    pub(crate) fn put(&mut self, message: Message) {
        let id = message.id;
        match self.places.get(&id).and_then(|places| places.last()) {
            Some(&place) => self.messages[place] = MessageChange::Put(message),
            None => {
                self.places.insert(id, vec![self.messages.len()]);
                self.messages.push(MessageChange::Put(message));
            }
        }
    }

    /// Text that follows text of the same message becomes one piece.
    pub(crate) fn grow(&mut self, piece: Piece) {
        if let Some(MessageChange::Piece(last)) = self.messages.last_mut()
            && last.whole == piece.whole
        {
            last.text.push_str(&piece.text);
            return;
        }
        self.places.entry(piece.whole).or_default().push(self.messages.len());
        self.messages.push(MessageChange::Piece(piece));
    }
}
