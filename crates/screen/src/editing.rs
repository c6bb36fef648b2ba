//! Effects of control sequences on the grid: moving, erasing, scrolling and printing.

use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::index::{Column, Line, Point};
use alacritty_terminal::term::cell::Flags;
use alacritty_terminal::vte::ansi::{
    CharsetIndex, ClearMode, Handler, LineClearMode, Mode, NamedMode, NamedPrivateMode, StandardCharset,
};
use unicode_width::UnicodeWidthChar;

use crate::model::{Model, heal};
use crate::modes::AUTOWRAP;
use crate::sgr::{LOOK, Look};

/// Maximum number of combining marks on one cell, so that a stream of them cannot grow it without limit.
const MAX_MARKS: usize = 16;

impl Model {
    #[inline]
    pub(crate) fn print_char(&mut self, c: char) {
        if (' '..='~').contains(&c) && self.print_simply(c) {
            self.preceding = Some(c);
        } else if c < '\u{300}' {
            self.print_cell(c);
            self.preceding = Some(c);
        } else {
            self.print_rare(c);
        }
    }

    /// Fast path for most characters: fills one cell if there is nothing to wrap, shift or split.
    #[inline]
    fn print_simply(&mut self, c: char) -> bool {
        if self.modes.insert || self.charset != CharsetIndex::G0 {
            return false;
        }
        let grid = self.term.grid_mut();
        let cursor = &grid.cursor;
        let template = &cursor.template;
        let Point { line, column } = cursor.point;
        if cursor.input_needs_wrap
            || column.0 + 1 >= grid.columns()
            || template.extra.is_some()
            || cursor.charsets[CharsetIndex::G0] != StandardCharset::Ascii
        {
            return false;
        }
        let (fg, bg, flags) = (template.fg, template.bg, template.flags);
        let cell = &mut grid[line][column];
        if cell.flags.intersects(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER) {
            return false;
        }
        (cell.c, cell.fg, cell.bg, cell.flags) = (c, fg, bg, flags);
        if cell.extra.is_some() {
            cell.extra = None;
        }
        grid.cursor.point.column.0 += 1;
        true
    }

    fn print_rare(&mut self, c: char) {
        match c.width() {
            None => {}
            Some(0) => self.print_mark(c),
            Some(_) => {
                self.print_cell(c);
                self.preceding = Some(c);
            }
        }
    }

    fn print_cell(&mut self, c: char) {
        self.term.input(c);
        if self.modes.insert {
            // The rest of the line has moved, so check both edges of the insertion.
            let (row, col) = self.cursor_point();
            for seam in col.saturating_sub(2)..=col + 1 {
                let seam = seam.min(self.cols());
                heal(self.term.grid_mut(), row, seam);
            }
            self.heal_moved(row);
        }
    }

    /// Adds a combining mark to the character before the cursor.
    fn print_mark(&mut self, mark: char) {
        let cursor = &self.grid().cursor;
        let line = cursor.point.line;
        let mut col = cursor.point.column.0;
        if !cursor.input_needs_wrap {
            col = col.saturating_sub(1);
        }
        if self.grid()[line][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER) {
            col = col.saturating_sub(1);
        }
        let cell = &mut self.term.grid_mut()[line][Column(col)];
        if let Some(blank) = Look::of_blank(cell) {
            // Attributes that are invisible on a blank, such as its colour, must not appear with the mark.
            cell.flags.remove(LOOK);
            cell.fg = blank.fg;
            cell.set_underline_color(None);
        }
        if cell.zerowidth().map_or(0, <[char]>::len) < MAX_MARKS {
            cell.push_zerowidth(mark);
        }
    }

    /// REP, limited to one line, because programs never intend more.
    pub(crate) fn repeat(&mut self, count: u16) {
        if let Some(c) = self.preceding {
            for _ in 0..usize::from(count).min(self.cols()) {
                self.print_cell(c);
            }
        }
    }

    pub(crate) fn place(&mut self, row: usize, col: usize) {
        let (rows, cols) = (self.rows(), self.cols());
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.point.line = Line(row.min(rows - 1) as i32);
        cursor.point.column = Column(col.min(cols - 1));
        cursor.input_needs_wrap = false;
    }

    /// Moves the cursor to an address; in origin mode, rows are relative to the top margin.
    pub(crate) fn place_addressed(&mut self, row: usize, col: usize) {
        let (top, bottom) = self.margins;
        if self.origin {
            self.place((top + row).min(bottom - 1), col);
        } else {
            self.place(row, col);
        }
    }

    pub(crate) fn move_rows(&mut self, by: i32) {
        let (row, col) = self.cursor_point();
        let (top, bottom) = self.margins;
        let first = if row >= top { top } else { 0 };
        let last = if row < bottom { bottom } else { self.rows() } - 1;
        let row = (row as i32 + by).clamp(first as i32, last as i32);
        self.place(row as usize, col);
    }

    pub(crate) fn move_cols(&mut self, by: i32) {
        let (row, col) = self.cursor_point();
        self.place(row, (col as i32 + by).max(0) as usize);
    }

    pub(crate) fn place_in_row(&mut self, col: usize) {
        let row = self.cursor_point().0;
        self.place(row, col);
    }

    pub(crate) fn tab_forward(&mut self, count: u16) {
        let (row, mut col) = self.cursor_point();
        let last = self.cols() - 1;
        for _ in 0..count {
            if col == last {
                break;
            }
            col = (col + 1..last).find(|at| self.tabs[*at]).unwrap_or(last);
        }
        // A tab at the end of a full line leaves the wrap pending.
        if col != self.cursor_point().1 {
            self.place(row, col);
        }
    }

    pub(crate) fn tab_backward(&mut self, count: u16) {
        let (row, mut col) = self.cursor_point();
        for _ in 0..count {
            if col == 0 {
                break;
            }
            col = (0..col).rev().find(|at| self.tabs[*at]).unwrap_or(0);
        }
        self.place(row, col);
    }

    pub(crate) fn set_margins(&mut self, top: usize, bottom: usize) {
        let rows = self.rows();
        let top = top.max(1);
        let bottom = if bottom == 0 { rows } else { bottom.min(rows) };
        if top >= bottom && (top, bottom) != (1, rows) {
            return;
        }
        self.margins = (top - 1, bottom);
        if rows > 1 {
            self.term.set_scrolling_region(top, Some(bottom));
        }
        self.place_addressed(0, 0);
    }

    pub(crate) fn set_insert(&mut self, is_on: bool) {
        self.modes.insert = is_on;
        let mode = Mode::Named(NamedMode::Insert);
        if is_on { self.term.set_mode(mode) } else { self.term.unset_mode(mode) }
    }

    pub(crate) fn set_new_line(&mut self, is_on: bool) {
        self.modes.new_line = is_on;
        let mode = Mode::Named(NamedMode::LineFeedNewLine);
        if is_on { self.term.set_mode(mode) } else { self.term.unset_mode(mode) }
    }

    pub(crate) fn set_autowrap(&mut self, is_on: bool) {
        self.modes.set(AUTOWRAP, is_on);
        let mode = NamedPrivateMode::LineWrap.into();
        if is_on { self.term.set_private_mode(mode) } else { self.term.unset_private_mode(mode) }
    }

    pub(crate) fn set_origin(&mut self, is_on: bool) {
        self.origin = is_on;
        self.place_addressed(0, 0);
    }

    pub(crate) fn erase_in_line(&mut self, how: u16) {
        let (row, col) = self.cursor_point();
        match how {
            0 => self.term.clear_line(LineClearMode::Right),
            1 => self.term.clear_line(LineClearMode::Left),
            2 => self.term.clear_line(LineClearMode::All),
            _ => return,
        }
        self.heal_between(row, col, col + 1);
    }

    pub(crate) fn erase_in_display(&mut self, how: u16) {
        let (row, col) = self.cursor_point();
        match how {
            0 => self.term.clear_screen(ClearMode::Below),
            1 => {
                if row > 0 {
                    self.term.grid_mut().reset_region(..Line(row as i32));
                }
                self.term.clear_line(LineClearMode::Left);
            }
            2 => self.term.clear_screen(ClearMode::All),
            // 3 clears the scrollback. The log serves as scrollback and is kept.
            _ => return,
        }
        self.heal_between(row, col, col + 1);
    }

    pub(crate) fn erase_chars(&mut self, count: usize) {
        let (row, col) = self.cursor_point();
        self.term.erase_chars(count);
        self.heal_between(row, col, col + count);
    }

    pub(crate) fn insert_chars(&mut self, count: usize) {
        let (row, col) = self.cursor_point();
        self.term.insert_blank(count);
        self.heal_between(row, col, col + count);
        self.heal_moved(row);
    }

    pub(crate) fn delete_chars(&mut self, count: usize) {
        let (row, col) = self.cursor_point();
        let cols = self.cols();
        if count >= cols - col {
            // `Term` deletes by swapping and would clear from the wrong column here.
            self.term.erase_chars(cols - col);
        } else {
            self.term.delete_chars(count);
        }
        self.heal_between(row, col, cols.saturating_sub(count));
        self.heal_moved(row);
    }

    fn heal_between(&mut self, row: usize, from: usize, to: usize) {
        let to = to.min(self.cols());
        let grid = self.term.grid_mut();
        heal(grid, row, from);
        heal(grid, row, to);
    }

    /// Repairs a row whose cells have moved: half of a wide character may be at the edge, and wrap marks away from it.
    fn heal_moved(&mut self, row: usize) {
        let cols = self.cols();
        let grid = self.term.grid_mut();
        heal(grid, row, cols);
        for cell in &mut grid[Line(row as i32)][..Column(cols - 1)] {
            cell.flags.remove(Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER);
        }
    }
}
