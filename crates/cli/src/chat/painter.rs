//! Writes rows into the terminal's own history and redraws only the few below them that still change.

use super::row::Row;

/// A terminal that knows it shows everything between these at once.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";

#[derive(Debug)]
pub struct Painter {
    columns: usize,
    has_colour: bool,
    /// What stands below the history now.
    rows: Vec<Row>,
    /// Where the cursor stands in it.
    cursor: (usize, usize),
}

impl Painter {
    pub fn new(columns: usize, has_colour: bool) -> Self {
        Self { columns, has_colour, rows: Vec::new(), cursor: (0, 0) }
    }

    /// What to write so that `printed` joins the history and `rows` stand below it. Nothing if all is as it was.
    pub fn paint(&mut self, printed: &[Row], rows: Vec<Row>, cursor: (usize, usize)) -> Vec<u8> {
        if printed.is_empty() && rows == self.rows && cursor == self.cursor {
            return Vec::new();
        }
        let mut out = String::from(BEGIN);
        self.go_to_top(&mut out);
        for row in printed {
            self.push(row, &mut out);
            out.push_str("\r\n");
        }
        for (place, row) in rows.iter().enumerate() {
            if place > 0 {
                out.push_str("\r\n");
            }
            // A row that stands there already is not touched.
            if !(printed.is_empty() && self.rows.get(place) == Some(row)) {
                self.push(row, &mut out);
            }
        }
        let drawn = printed.len() + rows.len().max(1);
        if self.rows.len() > drawn {
            out.push_str("\r\n\x1b[J\x1b[A");
        }
        if rows.is_empty() && !self.rows.is_empty() {
            out.push_str("\r\x1b[K");
        }
        let up = rows.len().saturating_sub(1).saturating_sub(cursor.0);
        if up > 0 {
            out.push_str(&format!("\x1b[{up}A"));
        }
        out.push('\r');
        if cursor.1 > 0 {
            out.push_str(&format!("\x1b[{}C", cursor.1));
        }
        out.push_str(END);
        (self.rows, self.cursor) = (rows, cursor);
        out.into_bytes()
    }

    /// Takes away what stands below the history.
    pub fn clear(&mut self) -> Vec<u8> {
        let mut out = String::new();
        self.go_to_top(&mut out);
        out.push_str("\x1b[J");
        self.forget();
        out.into_bytes()
    }

    /// What stood below the history is none of ours any more.
    pub fn forget(&mut self) {
        (self.rows, self.cursor) = (Vec::new(), (0, 0));
    }

    /// The terminal has another width and has broken its rows anew.
    pub fn resize(&mut self, columns: usize) -> Vec<u8> {
        let columns = columns.max(1);
        let broken = |width: usize| width.saturating_sub(1) / columns;
        let above = self.rows.iter().take(self.cursor.0).map(|row| 1 + broken(row.width())).sum::<usize>();
        self.cursor.0 = above + self.cursor.1 / columns;
        self.columns = columns;
        self.clear()
    }

    fn go_to_top(&self, out: &mut String) {
        out.push('\r');
        if self.cursor.0 > 0 {
            out.push_str(&format!("\x1b[{}A", self.cursor.0));
        }
    }

    fn push(&self, row: &Row, out: &mut String) {
        // Before the text: behind a full row this would take its last character.
        out.push_str("\x1b[K");
        out.push_str(&row.clone().cut(self.columns).ansi(self.has_colour));
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Style;
    use super::*;
    use coven_screen::Screen;

    fn rows(texts: &[&str]) -> Vec<Row> {
        texts.iter().map(|text| Row::new(Style::Dim, text)).collect()
    }

    /// What the terminal shows, without empty rows at its end.
    fn seen(screen: &Screen) -> Vec<String> {
        let text = screen.text();
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    }

    #[test]
    fn finished_rows_stay_and_the_rows_below_them_change() {
        let mut screen = Screen::new(6, 20);
        let mut painter = Painter::new(20, true);
        screen.feed(&painter.paint(&rows(&["hello"]), rows(&["working", "› x"]), (1, 3)));
        assert_eq!(seen(&screen), ["hello", "working", "› x"]);
        assert_eq!((screen.cursor().row, screen.cursor().col), (2, 3));
        screen.feed(&painter.paint(&rows(&["one", "two"]), rows(&["› x"]), (0, 2)));
        assert_eq!(seen(&screen), ["hello", "one", "two", "› x"]);
        assert_eq!((screen.cursor().row, screen.cursor().col), (3, 2));
        // when fewer rows are left below, then nothing of the others is
        screen.feed(&painter.paint(&[], rows(&["a", "b", "c"]), (2, 0)));
        screen.feed(&painter.paint(&[], rows(&["a"]), (0, 0)));
        assert_eq!(seen(&screen), ["hello", "one", "two", "a"]);
        screen.feed(&painter.clear());
        assert_eq!(seen(&screen), ["hello", "one", "two"]);
    }

    #[test]
    fn at_the_bottom_everything_moves_up_and_full_rows_keep_their_last_character() {
        let mut screen = Screen::new(4, 5);
        let mut painter = Painter::new(5, false);
        for number in 0..30 {
            let row = format!("{number:05}");
            screen.feed(&painter.paint(&rows(&[&row]), rows(&["-----", "› x"]), (1, 2)));
        }
        assert_eq!(seen(&screen), ["00028", "00029", "-----", "› x"]);
        assert_eq!((screen.cursor().row, screen.cursor().col), (3, 2));
    }

    #[test]
    fn nothing_is_written_when_nothing_changed() {
        let mut painter = Painter::new(20, true);
        painter.paint(&[], rows(&["a", "b"]), (1, 0));
        assert!(painter.paint(&[], rows(&["a", "b"]), (1, 0)).is_empty());
        let written = painter.paint(&[], rows(&["a", "c"]), (1, 0));
        assert!(!String::from_utf8_lossy(&written).contains('a'), "only the changed row is written");
    }

    #[test]
    fn a_narrower_terminal_leaves_nothing_behind() {
        let mut screen = Screen::new(8, 20);
        let mut painter = Painter::new(20, false);
        screen.feed(&painter.paint(&rows(&["old", "history"]), rows(&["0123456789abcdef", "› x"]), (1, 3)));
        // One row is broken in two: the terminal moves its first one away.
        screen.resize(8, 10);
        screen.feed(&painter.resize(10));
        screen.feed(&painter.paint(&[], rows(&["0123456789abcdef", "› x"]), (1, 3)));
        assert_eq!(seen(&screen), ["history", "012345678…", "› x"]);
    }
}
