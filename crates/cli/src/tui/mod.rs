//! The session browser: `coven sessions` on a terminal.
//!
//! `state` decides, `view` draws, `feed` talks to the daemon on a thread of its own; this file joins them.

mod clean;
mod feed;
mod keys;
mod layout;
mod list;
mod preview;
mod request;
mod sse;
mod state;
mod terminal;
mod view;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event;

use self::feed::Feed;
use self::state::{App, Effect, Message};
use self::terminal::Terminal;

/// How long a report of the daemon may wait for the screen; keys are handled at once.
const REPORT_LATENCY: Duration = Duration::from_millis(40);

/// Where to look, and where the user was: `browse` writes the latter back, so that a caller who opens the browser
/// again after an attach opens it at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrowseOptions {
    /// The Unix socket of the home's daemon.
    pub socket: PathBuf,
    /// Archived sessions are listed too.
    pub include_archived: bool,
    /// The id of the session to select first; the newest if there is none.
    pub selected: Option<String>,
    /// What was typed after `/`.
    pub filter: String,
}

/// What the user wants done once the screen is the caller's again. Ids are whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Quit,
    /// Attach; a finished session is opened as a log.
    Attach(String),
    /// Replay in its original timing.
    Replay(String),
    /// Summon from the archive, then replay and follow.
    Summon(String),
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the terminal could not be taken over; use `coven sessions --plain`")]
    Terminal(#[source] std::io::Error),
    #[error("the browser's connection could not be set up; use `coven sessions --plain`")]
    Feed(#[source] std::io::Error),
    #[error("the browser's connection ended unexpectedly; run `coven sessions` again")]
    FeedEnded,
    /// A signal asked the program to end; the terminal has been restored.
    #[error("ended by signal {0}")]
    Signalled(i32),
}

/// Shows the browser until the user leaves it. The terminal is as it was before, however this ends.
pub fn browse(options: &mut BrowseOptions) -> Result<Outcome, Failure> {
    todo!("{options:?}")
}
