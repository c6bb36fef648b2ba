//! Streaming conversion of a complete log to plain text or to an HTML page.
//!
//! The log runs through a screen with a short history. A line is final, and is written, once it has scrolled off the
//! top. Lines that were repainted before that, such as a progress bar, appear in their last state. The last screen of a
//! full-screen program is written before the lines that are still on the primary screen at that time.

use std::io::{self, Write};

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::Flags;

use crate::html;
use crate::screen::Screen;
use crate::spans::{self, Span};

/// Bytes fed between two checks of the history. Each byte can push at most one line of text off the top.
const PIECE_BYTES: usize = 1024;

/// Maximum number of history lines: those of one piece, and one or two screens cleared at its end.
const MAX_HISTORY_LINES: usize = PIECE_BYTES + 256;

/// A longer line is written in parts of about this size.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// Converts a log to plain text.
pub struct TextLog {
    screen: Screen,
    line: String,
}

impl TextLog {
    /// Creates a converter for output of a terminal of this size.
    pub fn new(rows: u16, cols: u16) -> TextLog {
        TextLog { screen: Screen::with_history(rows, cols, MAX_HISTORY_LINES), line: String::new() }
    }

    /// Changes the terminal's size from this point of the log on.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(rows, cols);
    }

    /// Processes more of the log and writes the lines that have become final.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.screen.feed(piece);
            self.drain(out)?;
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let history = self.screen.model.grid().history_size();
        if self.screen.model.is_alternate() || history == 0 && !has_vanished(&self.screen) {
            return Ok(());
        }
        for row in (1..=history).rev() {
            self.write_row(Line(-(row as i32)), out)?;
        }
        self.screen.model.term.grid_mut().clear_history();
        for row in take_vanished(&mut self.screen) {
            self.end_line(out)?;
            row.iter().for_each(|span| self.line.push_str(&span.text));
            writeln!(out, "{}", self.line.trim_end_matches(' '))?;
            self.line.clear();
        }
        Ok(())
    }

    fn write_row(&mut self, line: Line, out: &mut dyn Write) -> io::Result<()> {
        let grid = self.screen.model.grid();
        let row = &grid[line];
        let start = self.line.len();
        spans::push_text(row, &mut self.line);
        if row[grid.last_column()].flags.contains(Flags::WRAPLINE) && self.line.len() < MAX_LINE_BYTES {
            // The line continues on the next row, so trailing blanks belong to it.
            let cells = self.line[start..].chars().count();
            let gap = row.len().saturating_sub(cells);
            if self.line[start..].is_ascii() {
                self.line.extend(std::iter::repeat_n(' ', gap));
            }
            return Ok(());
        }
        writeln!(out, "{}", self.line)?;
        self.line.clear();
        Ok(())
    }

    fn end_line(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.line.is_empty() {
            writeln!(out, "{}", self.line)?;
            self.line.clear();
        }
        Ok(())
    }

    /// Writes the remaining lines on the screen.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        leave_alternate(&mut self.screen);
        self.drain(out)?;
        for row in 0..used_rows(&self.screen) {
            self.write_row(Line(row as i32), out)?;
        }
        self.end_line(out)?;
        out.flush()
    }
}

/// Converts a log to an HTML page with colours.
pub struct HtmlLog {
    screen: Screen,
    html: String,
    has_open_line: bool,
}

impl HtmlLog {
    /// Creates a converter for output of a terminal of this size, to a page with this title.
    pub fn new(rows: u16, cols: u16, title: &str) -> HtmlLog {
        HtmlLog {
            screen: Screen::with_history(rows, cols, MAX_HISTORY_LINES),
            html: html::page_start(title),
            has_open_line: false,
        }
    }

    /// Changes the terminal's size from this point of the log on.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(rows, cols);
    }

    /// Processes more of the log and writes the lines that have become final.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.screen.feed(piece);
            self.drain();
            out.write_all(self.html.as_bytes())?;
            self.html.clear();
        }
        Ok(())
    }

    fn drain(&mut self) {
        if self.screen.model.is_alternate() {
            return;
        }
        for row in (1..=self.screen.model.grid().history_size()).rev() {
            self.push_row(Line(-(row as i32)));
        }
        self.screen.model.term.grid_mut().clear_history();
        for row in take_vanished(&mut self.screen) {
            self.end_line();
            html::push_line(&mut self.html, &row);
        }
    }

    fn push_row(&mut self, line: Line) {
        let grid = self.screen.model.grid();
        let row = &grid[line];
        for span in spans::row_spans(row) {
            html::push_span(&mut self.html, &span);
        }
        self.has_open_line = row[grid.last_column()].flags.contains(Flags::WRAPLINE);
        if !self.has_open_line {
            self.html.push('\n');
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.has_open_line) {
            self.html.push('\n');
        }
    }

    /// Writes the remaining lines on the screen and the end of the page.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        leave_alternate(&mut self.screen);
        self.drain();
        for row in 0..used_rows(&self.screen) {
            self.push_row(Line(row as i32));
        }
        self.end_line();
        out.write_all(self.html.as_bytes())?;
        out.write_all(html::PAGE_END.as_bytes())?;
        out.flush()
    }
}

fn has_vanished(screen: &Screen) -> bool {
    screen.model.vanished.as_ref().is_some_and(|rows| !rows.is_empty())
}

fn take_vanished(screen: &mut Screen) -> Vec<Vec<Span>> {
    screen.model.vanished.as_mut().map(std::mem::take).unwrap_or_default()
}

/// Leaves the alternate screen, for programs that ended without doing so.
fn leave_alternate(screen: &mut Screen) {
    screen.model.leave_alternate();
}

fn used_rows(screen: &Screen) -> usize {
    let rows = screen.rows();
    rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1)
}
