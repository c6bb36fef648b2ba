//! Renders a screen for a terminal of another size.

use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};

use crate::Screen;
use crate::model::tidy;
use crate::snapshot::write_colors;

impl Screen {
    /// Returns a screen of this size that shows as much of `self` as fits. A smaller one shows the part around the
    /// cursor; a larger one draws lines to the right and below. The last row contains `note`. Modes, colours and title
    /// are copied from `self`.
    pub fn framed(&self, rows: u16, cols: u16, note: &str) -> Screen {
        let mut view = Screen::new(rows, cols);
        let (rows, cols) = (view.model.rows(), view.model.cols());
        let mut setup = Vec::new();
        write_colors(&self.model, &mut setup);
        view.feed(&setup);
        if self.model.is_alternate() {
            view.model.enter_alternate();
        }
        let (cursor_row, cursor_col) = self.model.cursor_point();
        let (own_rows, own_cols) = (self.model.rows(), self.model.cols());
        let (high, wide) = (own_rows.min(rows - 1), own_cols.min(cols));
        let (top, left) = (first_shown(cursor_row, high), first_shown(cursor_col, wide));
        let (source, target) = (self.model.grid(), view.model.term.grid_mut());
        for row in 0..high {
            for col in 0..wide {
                let mut cell = source[Line((top + row) as i32)][Column(left + col)].clone();
                // With another width, rows are not continuations of each other.
                cell.flags.remove(Flags::WRAPLINE);
                target[Line(row as i32)][Column(col)] = cell;
            }
        }
        tidy(target);
        if own_cols < cols {
            for row in 0..high {
                target[Line(row as i32)][Column(own_cols)] = border('│');
            }
        }
        if own_rows < rows - 1 {
            for col in 0..=own_cols.min(cols - 1) {
                target[Line(own_rows as i32)][Column(col)] = border(if col == own_cols { '┘' } else { '─' });
            }
        }
        let note: String = note.chars().take(cols).collect();
        view.feed(format!("\x1b[{rows};1H\x1b[0;7m{note:<cols$}\x1b[0m").as_bytes());
        view.model.place(cursor_row.saturating_sub(top), cursor_col.saturating_sub(left));
        view.model.modes = self.model.modes.clone();
        view.model.keyboard = self.model.keyboard.clone();
        view.model.title = self.model.title.clone();
        view.model.preceding = None;
        view
    }
}

/// Returns the first row or column to show so that the cursor is among the `shown` ones.
const fn first_shown(cursor: usize, shown: usize) -> usize {
    (cursor + 1).saturating_sub(if shown == 0 { 1 } else { shown })
}

fn border(c: char) -> Cell {
    Cell { c, flags: Flags::DIM, ..Cell::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rows: u16, cols: u16) -> Screen {
        let mut screen = Screen::new(rows, cols);
        for row in 0..rows {
            screen.feed(format!("\x1b[{};1H{row}{}", row + 1, "x".repeat(usize::from(cols) - 1)).as_bytes());
        }
        screen.feed(b"\x1b[1;1H");
        screen
    }

    #[test]
    fn a_smaller_terminal_shows_the_part_around_the_cursor_and_the_note() {
        let mut screen = filled(6, 10);
        assert_eq!(screen.framed(4, 5, "why").text(), "0xxxx\n1xxxx\n2xxxx\nwhy");
        screen.feed(b"\x1b[6;2H");
        let view = screen.framed(4, 5, "why");
        assert_eq!(view.text(), "3xxxx\n4xxxx\n5xxxx\nwhy");
        assert_eq!((view.cursor().row, view.cursor().col), (2, 1));
        screen.feed(b"\x1b[6;10H");
        assert_eq!(screen.framed(4, 5, "a note that is too long").text(), "xxxxx\nxxxxx\nxxxxx\na not");
    }

    #[test]
    fn a_larger_terminal_shows_everything_in_a_frame() {
        let view = filled(2, 3).framed(5, 6, "why");
        assert_eq!(view.text(), "0xx│\n1xx│\n───┘\n\nwhy");
        assert_eq!(filled(2, 3).framed(3, 3, "why").text(), "0xx\n1xx\nwhy");
    }

    #[test]
    fn the_snapshot_of_a_view_restores_with_the_modes_of_the_session() {
        let mut screen = filled(6, 10);
        screen.feed("\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b]2;title\x1b\\\x1b[2;5H宽".as_bytes());
        let mut view = screen.framed(4, 6, "why");
        let again = Screen::restore(4, 6, &view.snapshot());
        assert_eq!(again.text(), view.text());
        assert!(again.is_alternate() && !again.cursor().visible);
        assert_eq!(again.title(), Some("title"));
    }

    #[test]
    fn handles_tiny_terminals_and_split_wide_characters() {
        let mut screen = Screen::new(3, 8);
        screen.feed("abc宽宽\x1b[1;1H".as_bytes());
        for (rows, cols) in [(1, 2), (1, 80), (80, 2), (2, 4), (3, 6)] {
            let mut view = screen.framed(rows, cols, "note");
            assert_eq!(view.size(), (rows, cols));
            assert_eq!(Screen::restore(rows, cols, &view.snapshot()).text(), view.text(), "{rows}x{cols}");
        }
    }
}
