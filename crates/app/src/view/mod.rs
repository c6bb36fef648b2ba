//! The views: what the left side lists, and how it is drawn.

pub mod agents;
pub mod board;
pub mod history;
pub mod inbox;

use crate::frame::canvas::Piece;
use crate::world::Subject;

/// One line of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum ListLine {
    Heading(String),
    Row {
        subject: Subject,
        /// The mark, the harness and the title.
        pieces: Vec<Piece>,
        /// At the right edge: the age.
        right: String,
        /// A second, dimmed part behind the title if there is room.
        detail: String,
    },
}

impl ListLine {
    pub const fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Row { subject, .. } => Some(subject),
            Self::Heading(_) => None,
        }
    }
}

/// Reports whether all words of a filter occur in one of the texts.
pub fn matches(filter: &str, texts: &[&str]) -> bool {
    let all = texts.join(" ").to_lowercase();
    filter.to_lowercase().split_whitespace().all(|word| all.contains(word))
}

/// Formats an age in its largest unit; below a minute it is `now`, so that an idle screen does not change every second.
pub fn age(since: coven_domain::Timestamp, now: coven_domain::Timestamp) -> String {
    match now.since(since).as_secs() {
        0..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
