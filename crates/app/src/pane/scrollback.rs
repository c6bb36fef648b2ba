//! The past of a session's output inside a pane: copy mode with search, and replay with a scrubber.

mod copy;
mod ledger;
mod lines;
mod replay;
#[cfg(test)]
mod tests;

use coven_domain::{SessionId, Timestamp};
use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::copy::CopyMode;
use self::replay::Replay;
use crate::app::{Effect, PaneResult};
use crate::feed::{Answer, Call};
use crate::frame::canvas::CursorPlace;
use crate::frame::theme::Theme;

pub struct Scrollback {
    mode: Mode,
}

enum Mode {
    Output(Box<CopyMode>),
    Replay(Box<Replay>),
}

impl Scrollback {
    /// Scrolls in the whole output, from its end.
    pub fn output(session: SessionId) -> (Self, Vec<Effect>) {
        let mut mode = CopyMode::new(session);
        let effects = mode.requests();
        (Self { mode: Mode::Output(Box::new(mode)) }, effects)
    }

    /// Plays the session from its start.
    pub fn replay(session: SessionId, now: Timestamp) -> (Self, Vec<Effect>) {
        let mut mode = Replay::new(session, now);
        let effects = mode.requests();
        (Self { mode: Mode::Replay(Box::new(mode)) }, effects)
    }

    /// Advances a replay or the reading of output. Returns the next requests.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Output(mode) => mode.tick(now),
            Mode::Replay(mode) => mode.tick(now),
        }
    }

    /// Milliseconds until the next `tick` is needed; `None` if nothing moves.
    pub fn next_tick_millis(&self) -> Option<u64> {
        match &self.mode {
            Mode::Output(mode) => mode.next_tick_millis(),
            Mode::Replay(mode) => mode.next_tick_millis(),
        }
    }

    /// `Left` closes it.
    pub fn key(&mut self, key: KeyEvent, area: Rect, now: Timestamp) -> PaneResult {
        match &mut self.mode {
            Mode::Output(mode) => mode.key(key, area),
            Mode::Replay(mode) => mode.key(key, now),
        }
    }

    /// Pasted text goes into the search line.
    pub fn paste(&mut self, text: &str) {
        if let Mode::Output(mode) = &mut self.mode {
            mode.paste(text);
        }
    }

    /// The wheel was turned: negative is up.
    pub fn scroll(&mut self, rows: isize, area: Rect) {
        match &mut self.mode {
            Mode::Output(mode) => mode.scroll(rows, area),
            Mode::Replay(_) => {}
        }
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Output(mode) => mode.answered(call, result),
            Mode::Replay(mode) => mode.answered(call, result),
        }
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return None;
        }
        match &self.mode {
            Mode::Output(mode) => mode.draw(buffer, area, theme),
            Mode::Replay(mode) => {
                mode.draw(buffer, area, theme);
                None
            }
        }
    }

    /// Hints for the last row of the app.
    pub fn hints(&self) -> String {
        match &self.mode {
            Mode::Output(mode) => mode.hints().to_owned(),
            Mode::Replay(_) => "space pause  ←→ 5 s  0-9 jump  +- speed  . next  i idle  q back".to_owned(),
        }
    }
}
