//! A whole log as plain text or as a page, converted while it streams by.
//!
//! The log runs through a screen with a little history. A line is final, and written, once it has
//! scrolled off the top; what a program repainted before that, such as a progress bar, counts in
//! its last state. Full-screen programs leave the screen they showed last, which comes before the
//! lines that then still stand on the primary screen.

use std::io::{self, Write};

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::Flags;

use crate::html;
use crate::screen::Screen;
use crate::spans::{self, Span};

/// Bytes between two looks at the history. Each can push at most one line with text off the top.
const PIECE: usize = 1024;

/// Lines held: those of one piece and a screen or two cleared at its end.
const HISTORY: usize = PIECE + 256;

/// A line that never ends is written in parts of about this many bytes.
const MAX_LINE: usize = 256 * 1024;

/// Converts a log to plain text.
pub struct TextLog {
    screen: Screen,
    line: String,
}

impl TextLog {
    /// A converter for output made for a terminal of this size.
    pub fn new(rows: u16, cols: u16) -> TextLog {
        TextLog { screen: Screen::with_history(rows, cols, HISTORY), line: String::new() }
    }

    /// The terminal changed its size at this point of the log.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(rows, cols);
    }

    /// Takes more of the log and writes the lines that have become final.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
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
        if row[grid.last_column()].flags.contains(Flags::WRAPLINE) && self.line.len() < MAX_LINE {
            // Blanks before the edge belong to a line that runs on.
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

    /// Writes what is still on the screen.
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

/// Converts a log to a page with colours.
pub struct HtmlLog {
    screen: Screen,
    html: String,
    has_open_line: bool,
}

impl HtmlLog {
    /// A converter for output made for a terminal of this size, to a page with this title.
    pub fn new(rows: u16, cols: u16, title: &str) -> HtmlLog {
        HtmlLog {
            screen: Screen::with_history(rows, cols, HISTORY),
            html: html::page_start(title),
            has_open_line: false,
        }
    }

    /// The terminal changed its size at this point of the log.
    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.resize(rows, cols);
    }

    /// Takes more of the log and writes the lines that have become final.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
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

    /// Writes what is still on the screen and the end of the page.
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

/// A program that ended inside the alternate screen has left it there.
fn leave_alternate(screen: &mut Screen) {
    screen.model.leave_alternate();
}

fn used_rows(screen: &Screen) -> usize {
    let rows = screen.rows();
    rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1)
}
