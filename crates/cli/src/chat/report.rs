//! What the feed reports about a conversation.

use coven_api::SessionRecord;
use coven_api::acp_state::AcpStateRecord;
use coven_api::inbox::InboxItem;
use coven_api::message::MessageRecord;

#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Connected,
    Message(Box<MessageRecord>),
    State(Box<AcpStateRecord>),
    /// The permissions that wait for an answer.
    Questions(Vec<InboxItem>),
    /// The session has ended; nothing more comes.
    Ended(Box<SessionRecord>),
    /// The daemon does not answer; connecting is tried again.
    Lost(String),
    /// It will not come back: the session is gone, or cannot be followed.
    Refused(String),
}
