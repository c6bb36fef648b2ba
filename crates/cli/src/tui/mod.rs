//! The session browser: `coven sessions` on a terminal.
//!
//! `state` and `control` decide, `view` draws, `feed` talks to the daemon on a thread of its own; this file joins them.

mod control;
mod feed;
#[cfg(test)]
mod feed_tests;
#[cfg(test)]
mod fixtures;
mod follow;
pub mod input;
mod item;
mod layout;
pub mod line;
mod list;
mod offer;
mod preview;
mod report;
mod request;
#[cfg(test)]
mod scripted_daemon;
#[cfg(test)]
pub use scripted_daemon::read_request;
mod shelf;
pub mod state;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod text;
pub mod view;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use coven_holder::clock::now;
use coven_interop::conversations::Conversations;
use crossterm::event::Event;
use signal_hook::low_level::emulate_default_handler;

use self::feed::Feed;
use self::input::Input;
use self::report::Report;
use self::shelf::Shelf;
use self::state::{App, Effect, Message};
use self::terminal::Terminal;
use self::view::Theme;
use crate::failure::Failure;
use crate::inbox_alerts;

/// How long a report of the daemon may wait for the screen; keys are handled at once.
const REPORT_LATENCY: Duration = Duration::from_millis(40);

/// Where to look, and where the user was: `browse` writes the latter back, so that a caller who opens the browser
/// again after an attach opens it at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrowseOptions {
    /// The Unix socket of the home's daemon.
    pub socket: PathBuf,
    /// The session that the browser itself runs in.
    pub own_session: Option<String>,
    /// Archived sessions are listed too.
    pub include_archived: bool,
    /// The id of the session to select first; the newest if there is none.
    pub selected: Option<String>,
    /// What was typed after `/`.
    pub filter: String,
    /// Where this user's conversations are; none are shown without.
    pub conversations: Option<Conversations>,
    /// Whether the bell rings when something new waits in the inbox.
    pub rings: bool,
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
    /// Go on with a conversation.
    Resume(String),
}

/// Shows the browser until the user leaves it. The terminal is as it was before, however this ends: also when a
/// signal ends the program.
pub fn browse(options: &mut BrowseOptions) -> Result<Outcome, Failure> {
    let shelf = options.conversations.clone().map(Shelf::open).transpose().map_err(Failure::Runtime)?;
    let mut feed = Feed::start(options.socket.clone(), options.include_archived).map_err(Failure::Runtime)?;
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
    let mut input = Input::listen().map_err(Failure::Terminal)?;
    let mut terminal = Terminal::take().map_err(Failure::Terminal)?;
    let size = terminal.size().map_err(Failure::Terminal)?;
    let mut app = App::new(options, size, now());
    let end = run(&mut app, &mut terminal, &mut input, &mut Sources { feed: &mut feed, shelf }, options.rings);
    drop(terminal);
    app.remember(options);
    match end? {
        End::Left(outcome) => Ok(outcome),
        End::Signalled(signal) => {
            emulate_default_handler(signal).map_err(Failure::Terminal)?;
            // Only a signal that ends programs by default is listened for.
            Ok(Outcome::Quit)
        }
    }
}

enum End {
    Left(Outcome),
    Signalled(i32),
}

/// Where the rows come from.
struct Sources<'f> {
    feed: &'f mut Feed,
    shelf: Option<Shelf>,
}

fn run(
    app: &mut App,
    terminal: &mut Terminal,
    input: &mut Input,
    sources: &mut Sources<'_>,
    rings: bool,
) -> Result<End, Failure> {
    let Sources { feed, shelf } = sources;
    let theme = Theme::of(std::env::var_os("NO_COLOR").as_deref());
    loop {
        terminal.draw(|frame| view::draw(frame, app, theme)).map_err(Failure::Terminal)?;
        let mut messages = Vec::new();
        // Nothing is drawn until something is new, at the latest when the ages have changed.
        while messages.is_empty() {
            let news = input.wait(REPORT_LATENCY).map_err(Failure::Terminal)?;
            if let Some(signal) = news.ending {
                return Ok(End::Signalled(signal));
            }
            if news.is_continued {
                terminal.retake().map_err(Failure::Terminal)?;
            }
            messages.extend(news.events.into_iter().filter_map(message));
            // Asked for, too: the news of it is lost when a key comes at the same moment.
            let size = terminal.size().map_err(Failure::Terminal)?;
            if size != app.size {
                messages.push(Message::Resized(size));
            }
            let mut reports = feed.reports().map_err(|_| feed_ended())?;
            reports.extend(shelf.as_ref().and_then(Shelf::news).map(Report::Conversations));
            if !reports.is_empty() {
                messages.push(Message::Reports(reports));
            }
            let now = now();
            if now.as_millis() / 1000 != app.now.as_millis() / 1000 || news.is_continued {
                messages.push(Message::Clock(now));
            }
        }
        for message in messages {
            for effect in app.update(message) {
                match effect {
                    Effect::Leave(outcome) => return Ok(End::Left(outcome)),
                    Effect::Ask(request) => ask(app, feed, request),
                    Effect::Watch(watched) => feed.watch(watched),
                    Effect::Recall { id, columns } => {
                        let screen = shelf.as_ref().map_or(Err(String::new()), |shelf| shelf.picture(&id, columns));
                        app.update(Message::Reports(vec![Report::Screen { id, screen }]));
                    }
                    Effect::Read { include_archived } => feed.read(include_archived),
                    Effect::Bell if rings => inbox_alerts::ring().map_err(Failure::Terminal)?,
                    Effect::Bell => {}
                    Effect::Redraw => terminal.forget().map_err(Failure::Terminal)?,
                    Effect::Suspend => terminal.suspend().map_err(Failure::Terminal)?,
                }
            }
        }
    }
}

fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) => Some(Message::Key(key)),
        Event::Mouse(mouse) => Some(Message::Mouse(mouse)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Resize(width, height) => Some(Message::Resized(ratatui::layout::Size { width, height })),
        Event::FocusGained | Event::FocusLost => None,
    }
}

fn ask(app: &mut App, feed: &Feed, request: report::Request) {
    if let Err(request) = feed.ask(request) {
        let answer = Err("too much is under way; try again in a moment".to_owned());
        // An answer has no effects.
        app.update(Message::Reports(vec![Report::Answered { request, answer }]));
    }
}

fn feed_ended() -> Failure {
    Failure::failed("the browser's connection ended unexpectedly", "Run `coven sessions` again")
}
