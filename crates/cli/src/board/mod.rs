//! The board: `coven board` on a terminal. Tasks by state, who works on them, what waits for a human.
//!
//! `state`, `keys` and `mouse` decide, `view` draws, `feed` talks to the daemon on a thread of its own; this file joins them.

mod act;
mod card;
mod feed;
#[cfg(test)]
mod feed_tests;
#[cfg(test)]
mod fixtures;
mod follow;
mod form;
mod inbox;
mod keys;
mod layout;
pub mod lines;
mod mouse;
mod offer;
pub mod once;
mod page;
pub mod read;
mod report;
mod state;
pub mod tasks;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use coven_holder::clock::now;
use crossterm::event::Event;
use ratatui::layout::Size;
use signal_hook::low_level::emulate_default_handler;

use self::feed::Feed;
use self::report::{Report, Request};
use self::state::{App, Effect, Message};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::inbox_alerts;
use crate::tui::input::Input;
use crate::tui::terminal::Terminal;
use crate::tui::view::Theme;

/// How long a report of the daemon may wait for the screen; keys are handled at once.
const REPORT_LATENCY: Duration = Duration::from_millis(40);

/// Where to look, and where the user was: `open` writes the latter back, so that a caller who opens the board again
/// after an attach opens it at the same place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoardOptions {
    /// To the home's daemon.
    pub connector: DaemonConnector,
    /// The repository that new tasks are about, where the home is nobody's project.
    pub repo: Option<String>,
    /// Who does what is done here, inside a session.
    pub by: Option<String>,
    /// The id of the task to select first.
    pub selected: Option<String>,
    /// What was typed after `/`.
    pub filter: String,
    /// Closed tasks have no column.
    pub hides_closed: bool,
    /// What went wrong since the board was left.
    pub problem: Option<String>,
    /// Whether the bell rings when something new waits in the inbox.
    pub rings: bool,
}

/// What the user wants done once the screen is the caller's again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Quit,
    /// Attach to this session.
    Attach(String),
    /// Answer question sets.
    Answer,
}

/// Shows the board until the user leaves it. The terminal is as it was before, however this ends: also when a signal
/// ends the program.
pub fn open(options: &mut BoardOptions) -> Result<Outcome, Failure> {
    let mut feed = Feed::start(options.connector.clone(), options.by.clone()).map_err(Failure::Runtime)?;
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
    let mut input = Input::listen().map_err(Failure::Terminal)?;
    let mut terminal = Terminal::take().map_err(Failure::Terminal)?;
    let size = terminal.size().map_err(Failure::Terminal)?;
    let mut app = App::new(options, size, now());
    let end = run(&mut app, &mut terminal, &mut input, &mut feed, options.rings);
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

fn run(
    app: &mut App,
    terminal: &mut Terminal,
    input: &mut Input,
    feed: &mut Feed,
    rings: bool,
) -> Result<End, Failure> {
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
            let reports = feed.reports().map_err(|_| feed_ended())?;
            if !reports.is_empty() {
                messages.push(Message::Reports(reports));
            }
            let now = now();
            let is_due = now.as_millis() / 1000 != app.now.as_millis() / 1000 || news.is_continued;
            if is_due || !messages.is_empty() {
                messages.insert(0, Message::Clock(now));
            }
        }
        for message in messages {
            for effect in app.update(message) {
                match effect {
                    Effect::Leave(outcome) => return Ok(End::Left(outcome)),
                    Effect::Ask(request) => ask(app, feed, request),
                    Effect::Watch(sessions) => feed.watch(sessions),
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
        Event::Resize(width, height) => Some(Message::Resized(Size { width, height })),
        Event::FocusGained | Event::FocusLost => None,
    }
}

fn ask(app: &mut App, feed: &Feed, request: Request) {
    if let Err(request) = feed.ask(request) {
        let answer = Err("too much is under way; try again in a moment".to_owned());
        // A refusal has no effects.
        app.update(Message::Reports(vec![Report::Answered { request: Box::new(request), answer }]));
    }
}

fn feed_ended() -> Failure {
    Failure::failed("the board's connection ended unexpectedly", "Run `coven board` again")
}
