//! What the feed tells the screen, and what the screen asks of it.

use coven_api::SessionRecord;
use coven_api::acp_state::AcpStateRecord;
use coven_api::inbox::InboxItem;
use coven_api::message::MessageRecord;
use coven_domain::MessageId;

#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Connected,
    Message(Box<MessageRecord>),
    State(Box<AcpStateRecord>),
    /// The questions that wait for an answer, and those that did and do no more.
    Questions {
        pending: Vec<InboxItem>,
        settled: Vec<InboxItem>,
    },
    /// Something new waits in the inbox, of this session or another.
    Waits(Box<InboxItem>),
    /// The session is over; nothing more comes.
    Ended(Box<SessionRecord>),
    /// The daemon is away; it is looked for.
    Lost(String),
    /// It will not come back: the session is gone, or is none that can be followed.
    Refused(String),
    Answered {
        request: Request,
        answer: Result<Answer, String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Prompt(String),
    Cancel,
    Mode(String),
    Config {
        id: String,
        value: String,
    },
    /// An answer to a question of the inbox.
    Answer {
        question: String,
        answer: Chosen,
    },
}

/// How a question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    Option(String),
    Allow,
    Deny,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Done,
    /// The id of the message that the prompt became.
    Accepted(MessageId),
    Settled(Box<InboxItem>),
}
