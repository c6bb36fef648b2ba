//! The answering screen: `coven answer` on a terminal. Needs no daemon.
//!
//! `state`, `news`, `control`, `entry` and `mouse` decide, `page` and `view` draw, `feed` reads and writes the folder of
//! question sets on a thread of its own; this file joins them.

mod control;
mod draft;
mod entry;
mod feed;
#[cfg(test)]
mod feed_tests;
#[cfg(test)]
mod fixtures;
mod layout;
mod markdown;
mod mouse;
mod news;
mod page;
mod reply;
mod state;
mod tabs;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use coven_holder::clock::now;
use coven_interop::questions::QuestionFolder;
use crossterm::event::Event;
use ratatui::layout::Size;
use signal_hook::low_level::emulate_default_handler;

use self::draft::Drafts;
use self::feed::{Feed, Request, Wanted};
use self::state::{App, Effect, Message, Report};
use crate::failure::Failure;
use crate::inbox_alerts;
use crate::tui::input::Input;
use crate::tui::terminal::Terminal;
use crate::tui::view::Theme;

/// How long the screen waits when nothing happens: the waiting time of a set is shown to the second.
const REST: Duration = Duration::from_secs(1);

/// Shows the sets that wait until the user leaves; how many still wait then. The terminal is as it was before, however
/// this ends: also when a signal ends the program.
pub fn open(folder: QuestionFolder, rings: bool) -> Result<usize, Failure> {
    let drafts = Drafts::locate();
    let (feed, bell) = Feed::start(folder, drafts.clone()).map_err(Failure::Runtime)?;
    // Before the terminal is changed, so that no signal finds it changed and unguarded.
    let mut input = Input::listen().map_err(Failure::Terminal)?.with_bell(bell);
    let mut terminal = Terminal::take().map_err(Failure::Terminal)?;
    let size = terminal.size().map_err(Failure::Terminal)?;
    let mut screen = Screen { app: App::new(size, now()), drafts, feed, rings };
    let end = screen.run(&mut terminal, &mut input);
    drop(terminal);
    let waiting = screen.close();
    match end? {
        End::Left => Ok(waiting),
        End::Signalled(signal) => {
            emulate_default_handler(signal).map_err(Failure::Terminal)?;
            // Only a signal that ends programs by default is listened for.
            Ok(waiting)
        }
    }
}

enum End {
    Left,
    Signalled(i32),
}

struct Screen {
    app: App,
    drafts: Drafts,
    feed: Feed,
    /// Whether the bell rings for new sets.
    rings: bool,
}

impl Screen {
    fn run(&mut self, terminal: &mut Terminal, input: &mut Input) -> Result<End, Failure> {
        let theme = Theme::of(std::env::var_os("NO_COLOR").as_deref());
        loop {
            terminal.draw(|frame| view::draw(frame, &self.app, theme)).map_err(Failure::Terminal)?;
            let news = input.wait(REST).map_err(Failure::Terminal)?;
            if let Some(signal) = news.ending {
                return Ok(End::Signalled(signal));
            }
            if news.is_continued {
                terminal.retake().map_err(Failure::Terminal)?;
            }
            let mut messages: Vec<Message> = news.events.into_iter().filter_map(message).collect();
            let reports = self.feed.reports().map_err(|_| feed_ended())?;
            messages.extend(reports.into_iter().map(Message::Report));
            if messages.is_empty() {
                messages.push(Message::Clock);
            }
            for message in messages {
                for effect in self.app.update(message, now()) {
                    if self.perform(effect, terminal)? {
                        return Ok(End::Left);
                    }
                }
            }
        }
    }

    /// Whether the screen is to be left.
    fn perform(&mut self, effect: Effect, terminal: &mut Terminal) -> Result<bool, Failure> {
        match effect {
            Effect::Answer { id, answers } => self.ask(Request { id, what: Wanted::Answers(answers) }),
            Effect::Reject { id, reason } => self.ask(Request { id, what: Wanted::Rejection(reason) }),
            Effect::KeepDraft { id, draft } => {
                if let Err(error) = self.drafts.save(&id, &draft) {
                    self.app.problem(format!("what you chose cannot be kept for next time: {error}"));
                }
            }
            Effect::DropDraft(id) => self.drafts.remove(&id),
            Effect::Bell if self.rings => inbox_alerts::ring().map_err(Failure::Terminal)?,
            Effect::Bell => {}
            Effect::Redraw => terminal.forget().map_err(Failure::Terminal)?,
            Effect::Suspend => terminal.suspend().map_err(Failure::Terminal)?,
            Effect::Leave => return Ok(true),
        }
        Ok(false)
    }

    fn ask(&mut self, request: Request) {
        if let Err(Request { id, what }) = self.feed.ask(request) {
            let result = Err("too much is under way; try again in a moment".to_owned());
            // A refusal has no effects.
            self.app.update(Message::Report(Report::Sent { id, what: what.kind(), result }), now());
        }
    }

    /// Lets answers that are under way arrive; how many sets still wait.
    fn close(self) -> usize {
        let Self { mut app, drafts, feed, rings: _ } = self;
        for report in feed.close() {
            for effect in app.update(Message::Report(report), now()) {
                if let Effect::DropDraft(id) = effect {
                    drafts.remove(&id);
                }
            }
        }
        app.queue.len()
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

fn feed_ended() -> Failure {
    Failure::failed("the folder of question sets is not watched any more", "Run `coven answer` again")
}
