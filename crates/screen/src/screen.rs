//! The screen of one session: bytes go in, its visible state comes out.

use alacritty_terminal::vte::Parser;

use crate::model::Model;
use crate::spans::{self, CursorView, Span};
use crate::tail::{Completed, HeldCharacter, Tail};
use crate::{html, snapshot};

/// Rows and columns are held below this; a terminal asked to be larger is not one a person uses.
pub const MAX_SIDE: u16 = 1000;

/// Bytes handed to the parser at once, so that an endless control string is noticed in time.
const PIECE: usize = 64 * 1024;

/// A terminal without a window.
pub struct Screen {
    pub(crate) model: Model,
    parser: Parser,
    tail: Tail,
    held: HeldCharacter,
}

impl Screen {
    /// An empty screen. The size is clamped to 1..=1000 rows and 2..=1000 columns: a single column
    /// cannot hold a wide character.
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

    /// A screen in the state a snapshot describes.
    pub fn restore(rows: u16, cols: u16, snapshot: &[u8]) -> Screen {
        let mut screen = Screen::new(rows, cols);
        screen.feed(snapshot);
        screen
    }

    /// Applies output, in pieces of any size, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        bytes.chunks(PIECE).for_each(|piece| self.feed_piece(piece));
    }

    /// Hands the parser whole characters only.
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
        // Right before the held bytes there may be others that will never be completed.
        let mut broken = HeldCharacter::default();
        let whole = broken.hold_back(whole);
        self.parse(whole);
        if !broken.is_empty() {
            self.parse_broken(broken.bytes());
        }
    }

    /// Bytes that begin a character which does not go on. As text the parser would wait for more.
    fn parse_broken(&mut self, bytes: &[u8]) {
        let is_text = self.tail.is_empty();
        self.parse(if is_text { "\u{fffd}".as_bytes() } else { bytes });
    }

    fn parse(&mut self, piece: &[u8]) {
        let wanted = &piece[self.tail.unwanted(piece)..];
        self.parser.advance(&mut self.model, wanted);
        if self.tail.observe(wanted) {
            // The parser keeps the buffer of its longest string for good; start it afresh.
            self.parser = Parser::new();
        }
    }

    /// Changes the size, clamped as in [`Screen::new`]; lines of the primary screen are wrapped anew.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        let (rows, cols) = clamp(rows, cols);
        self.model.resize(rows, cols);
    }

    /// Rows and columns.
    pub fn size(&self) -> (u16, u16) {
        (self.model.rows() as u16, self.model.cols() as u16)
    }

    /// Bytes which repaint this screen on any terminal of the same size, whatever its state, and
    /// after which the live output can follow at once, even in the middle of a sequence.
    pub fn snapshot(&mut self) -> Vec<u8> {
        let mut bytes = snapshot::snapshot(&mut self.model);
        bytes.extend_from_slice(self.tail.bytes());
        bytes.extend_from_slice(self.held.bytes());
        bytes
    }

    /// The visible lines, without trailing blanks and without empty lines at the end.
    pub fn text(&self) -> String {
        spans::text(&self.model)
    }

    /// The window title, if one was set.
    pub fn title(&self) -> Option<&str> {
        self.model.title.as_deref()
    }

    /// The visible rows as runs of equal style, without trailing blanks.
    pub fn rows(&self) -> Vec<Vec<Span>> {
        spans::rows(&self.model)
    }

    /// Where the cursor is and whether it shows.
    pub fn cursor(&self) -> CursorView {
        spans::cursor(&self.model)
    }

    /// Whether a full-screen program has switched to the alternate screen.
    pub fn is_alternate(&self) -> bool {
        self.model.is_alternate()
    }

    /// The visible screen as a page of its own.
    pub fn html(&self, title: &str) -> String {
        html::html_page(title, &self.rows())
    }

    /// The answers to questions the program has asked its terminal since the last call.
    pub fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.model.replies)
    }
}

fn clamp(rows: u16, cols: u16) -> (usize, usize) {
    (usize::from(rows.clamp(1, MAX_SIDE)), usize::from(cols.clamp(2, MAX_SIDE)))
}
