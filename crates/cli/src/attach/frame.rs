//! Shows a session on a terminal of another size, drawn from a model of its screen.

use std::time::{Duration, Instant};

use coven_screen::Screen;

/// Time between two drawings: a person cannot see faster changes.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(40);

/// Rows and columns.
pub type Size = (u16, u16);

/// Formats both sizes as columns by rows, the order that terminals use.
pub fn sizes(session: Size, terminal: Size) -> String {
    format!(" session {}x{}, this terminal {}x{}", session.1, session.0, terminal.1, terminal.0)
}

pub struct Frame {
    screen: Screen,
    /// Text after the sizes.
    advice: &'static str,
    paint_at: Option<Instant>,
}

impl Frame {
    /// Starts with the daemon's bytes for the screen; `painted` may be empty.
    pub fn new((rows, cols): Size, painted: &[u8], advice: &'static str) -> Self {
        Self { screen: Screen::restore(rows, cols, painted), advice, paint_at: Some(Instant::now()) }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.screen.feed(bytes);
        self.paint_soon();
    }

    pub fn resize(&mut self, (rows, cols): Size) {
        self.screen.resize(rows, cols);
        self.paint_soon();
    }

    /// Schedules a drawing after a change.
    pub fn paint_soon(&mut self) {
        self.paint_at.get_or_insert_with(|| Instant::now() + MIN_FRAME_INTERVAL);
    }

    /// Returns when the next drawing is due, if anything changed.
    pub const fn due(&self) -> Option<Instant> {
        self.paint_at
    }

    /// Returns the bytes that draw the session on a terminal of this size.
    pub fn picture(&mut self, terminal: Size) -> Vec<u8> {
        self.paint_at = None;
        let note = format!("{}: {} ", sizes(self.screen.size(), terminal), self.advice);
        let view = self.screen.framed(terminal.0, terminal.1, &note).snapshot();
        [b"\x1b[?2026h".as_slice(), &view, b"\x1b[?2026l"].concat()
    }

    /// Returns the bytes that draw the session on a terminal of the same size. Its output can follow them directly.
    pub fn whole(mut self) -> Vec<u8> {
        self.screen.snapshot()
    }
}
