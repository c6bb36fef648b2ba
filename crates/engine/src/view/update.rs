//! What a subscriber of a session asks for and gets.

use bytes::Bytes;
use coven_screen::{CursorView, Screen, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewMode {
    /// What the session wrote, byte for byte.
    Bytes,
    /// The rows of its screen.
    Rows,
}

/// What follows an acknowledgement that leaves more than a window behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLag {
    Jump,
    Wait,
}

/// What a subscriber wants to see.
#[derive(Debug, Clone, Copy)]
pub struct ViewRequest {
    pub mode: ViewMode,
    /// The first byte of the log; without one the view starts with the screen as it is now.
    pub from: Option<u64>,
    /// How many bytes of the log may be sent and not acknowledged.
    pub window: u64,
    pub on_lag: OnLag,
}

/// What a subscriber gets.
#[derive(Debug, PartialEq)]
pub enum ViewUpdate {
    /// The byte of the log with which the view starts.
    Started {
        offset: u64,
    },
    Screen(ScreenView),
    Output {
        offset: u64,
        bytes: Bytes,
    },
    Rows {
        offset: u64,
        cursor: CursorView,
        changed: Vec<(usize, Vec<Span>)>,
    },
    /// A whole window is not acknowledged; nothing follows until it is.
    Lagging {
        offset: u64,
        end: u64,
    },
    /// The bytes between were left out; a screen follows.
    Jumped {
        from: u64,
        to: u64,
    },
    Resized {
        rows: u16,
        cols: u16,
    },
    /// The session has ended and everything was sent.
    Exited {
        code: Option<i32>,
        end: u64,
    },
}

/// What a screen showed when the log had `offset` bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreenView {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub title: Option<String>,
    pub cursor: CursorView,
    pub content: ScreenContent,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ScreenContent {
    /// Text that paints it.
    Ansi(String),
    Lines(Vec<Vec<Span>>),
}

impl ScreenView {
    pub(super) fn of(screen: &mut Screen, fed: u64, mode: ViewMode) -> Self {
        let (rows, cols) = screen.size();
        let (offset, content) = match mode {
            ViewMode::Bytes => {
                let (ansi, rest) = whole_characters(screen.snapshot());
                (fed.saturating_sub(rest), ScreenContent::Ansi(ansi))
            }
            ViewMode::Rows => (fed, ScreenContent::Lines(screen.rows())),
        };
        let title = screen.title().map(str::to_owned);
        Self { offset, rows, cols, title, cursor: screen.cursor(), content }
    }
}

/// Splits off the start of a character at the end, whose rest the log does not have yet; returns how many bytes it has.
fn whole_characters(mut bytes: Vec<u8>) -> (String, u64) {
    let rest = match std::str::from_utf8(&bytes) {
        Err(cut) if cut.error_len().is_none() => bytes.len() - cut.valid_up_to(),
        _ => 0,
    };
    bytes.truncate(bytes.len() - rest);
    (String::from_utf8_lossy(&bytes).into_owned(), rest as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_character_is_left_for_the_next_bytes() {
        assert_eq!(whole_characters("é".into()), ("é".to_owned(), 0));
        assert_eq!(whole_characters(b"a\xe4\xbd".to_vec()), ("a".to_owned(), 2));
        assert_eq!(whole_characters(b"a\xffb".to_vec()), ("a\u{fffd}b".to_owned(), 0));
    }
}
