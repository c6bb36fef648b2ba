//! What passes between the browser and its connection to the daemon.

use super::item::Item;
use coven_api::inbox::InboxItem;

use super::preview::Picture;

/// What the connection tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Events are followed.
    Connected,
    /// The daemon does not answer; it is tried again and again. Says why.
    Lost(String),
    /// The list is read from its beginning: pages follow, then `ReadingEnded`.
    ReadingStarted,
    Page {
        sessions: Vec<Item>,
        total: u64,
    },
    ReadingEnded,
    Changed(Box<Item>),
    Gone(String),
    /// All conversations, the most recent first.
    Conversations(Vec<Item>),
    /// Something new waits in the inbox.
    Waits(Box<InboxItem>),
    /// The screen of a session, or why there is none.
    Screen {
        id: String,
        screen: Result<Picture, String>,
    },
    Answered {
        request: Request,
        answer: Result<(), String>,
    },
}

/// The session whose screen is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    pub id: String,
    /// It runs, so its screen changes.
    pub is_live: bool,
}

/// Something to be done to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub id: String,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A line without its end; it is sent with the key Enter.
    Input(String),
    /// With the size of the browser's own terminal.
    Start {
        rows: u16,
        cols: u16,
    },
    Finish,
    Kill,
    Archive,
    Sacrifice,
}
