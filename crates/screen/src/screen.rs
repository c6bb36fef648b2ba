//! The screen of one session: processes output and returns the visible state.

use alacritty_terminal::vte::Parser;

use crate::model::Model;
use crate::signals::TerminalSignal;
use crate::spans::{self, CursorView, Span};
use crate::tail::{Completed, HeldCharacter, Tail};
use crate::{InputModes, html, input_modes, snapshot};

/// Maximum number of rows and of columns; no real terminal is larger.
pub const MAX_SIDE: u16 = 1000;

/// Maximum number of bytes per call of the parser, so that an endless control string is detected in time.
const PIECE_BYTES: usize = 64 * 1024;

/// A terminal without a window.
pub struct Screen {
    pub(crate) model: Model,
    parser: Parser,
    tail: Tail,
    held: HeldCharacter,
}

impl Screen {
    /// Creates an empty screen. The size is clamped to 1..=1000 rows and 2..=1000 columns: a wide character needs two
    /// columns.
    pub fn new(rows: u16, cols: u16) -> Screen {
        Screen::with_history(rows, cols, 0)
    }

    pub(crate) fn with_history(rows: u16, cols: u16, history: usize) -> Screen {
        let (rows, cols) = clamp(rows, cols);
        Screen {
            model: Model::new(rows, cols, history),
            parser: Parser::new(),
            tail: Tail::default(),
            held: HeldCharacter::default(),
        }
    }

    /// Creates a screen from a snapshot.
    pub fn restore(rows: u16, cols: u16, snapshot: &[u8]) -> Screen {
        let mut screen = Screen::new(rows, cols);
        screen.feed(snapshot);
        // The title in a snapshot is not news.
        screen.take_signals();
        screen
    }

    /// Processes output, which may be split at any byte.
    pub fn feed(&mut self, bytes: &[u8]) {
        bytes.chunks(PIECE_BYTES).for_each(|piece| self.feed_piece(piece));
    }

    /// Passes only complete characters to the parser.
    fn feed_piece(&mut self, mut piece: &[u8]) {
        if !self.held.is_empty() {
            match self.held.complete(piece) {
                Completed::Not => return,
                Completed::With { character, taken } => {
                    self.parse(&character);
                    piece = &piece[taken..];
                }
                Completed::Never { broken, taken } => {
                    self.parse_broken(&broken);
                    piece = &piece[taken..];
                }
            }
        }
        let whole = self.held.hold_back(piece);
        if self.held.is_empty() {
            return self.parse(whole);
        }
        // Directly before the held bytes there may be another incomplete character.
        let mut broken = HeldCharacter::default();
        let whole = broken.hold_back(whole);
        self.parse(whole);
        if !broken.is_empty() {
            self.parse_broken(broken.bytes());
        }
    }

    /// Parses the bytes of a character that will never be complete. In text they are replaced, because the parser would
    /// wait for more.
    fn parse_broken(&mut self, bytes: &[u8]) {
        let is_text = self.tail.is_empty();
        self.parse(if is_text { "\u{fffd}".as_bytes() } else { bytes });
    }

    fn parse(&mut self, piece: &[u8]) {
        let wanted = &piece[self.tail.unwanted(piece)..];
        self.parser.advance(&mut self.model, wanted);
        if self.tail.observe(wanted) {
            // The parser never frees the buffer of its longest string, so create a new one.
            self.parser = Parser::new();
        }
    }

    /// Changes the size, clamped as in [`Screen::new`], and rewraps the lines of the primary screen.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        let (rows, cols) = clamp(rows, cols);
        self.model.resize(rows, cols);
    }

    /// Returns the numbers of rows and columns.
    pub fn size(&self) -> (u16, u16) {
        (self.model.rows() as u16, self.model.cols() as u16)
    }

    /// Returns bytes that repaint this screen on any terminal of the same size, regardless of its state. Live output
    /// can follow directly, even in the middle of a sequence.
    pub fn snapshot(&mut self) -> Vec<u8> {
        let mut bytes = snapshot::snapshot(&mut self.model);
        bytes.extend_from_slice(self.tail.bytes());
        bytes.extend_from_slice(self.held.bytes());
        bytes
    }

    /// Returns the visible lines, without trailing blanks and without empty lines at the end.
    pub fn text(&self) -> String {
        spans::text(&self.model)
    }

    /// Returns the window title, if one was set.
    pub fn title(&self) -> Option<&str> {
        self.model.title.as_deref()
    }

    /// Returns the visible rows as runs of equal style, without trailing blanks.
    pub fn rows(&self) -> Vec<Vec<Span>> {
        spans::rows(&self.model)
    }

    /// Returns the position, visibility and shape of the cursor.
    pub fn cursor(&self) -> CursorView {
        spans::cursor(&self.model)
    }

    /// Returns how the program wants keys, the mouse and pasted text.
    pub fn input_modes(&self) -> InputModes {
        input_modes::of(&self.model)
    }

    /// Reports whether a full-screen program has switched to the alternate screen.
    pub fn is_alternate(&self) -> bool {
        self.model.is_alternate()
    }

    /// Returns the visible screen as a complete HTML page.
    pub fn html(&self, title: &str) -> String {
        html::html_page(title, &self.rows())
    }

    /// Returns the answers to the terminal queries since the last call.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.model.replies)
    }

    /// Returns the signals since the last call, in the order of the output. Of more than 64 signals only the newest are
    /// kept, and repeats that say nothing new are left out. A screen made by [`Screen::restore`] starts without any.
    pub fn take_signals(&mut self) -> Vec<TerminalSignal> {
        self.model.signals.take()
    }
}

fn clamp(rows: u16, cols: u16) -> (usize, usize) {
    (usize::from(rows.clamp(1, MAX_SIDE)), usize::from(cols.clamp(2, MAX_SIDE)))
}
