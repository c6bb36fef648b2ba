//! Writes cells as escape sequences, with colours and attributes only where they change.

use alacritty_terminal::grid::{Cursor, Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{CharsetIndex, StandardCharset};

use crate::model::point_of;
use crate::sgr::{self, Look, push};

const SETS: [(CharsetIndex, u8); 4] =
    [(CharsetIndex::G0, b'('), (CharsetIndex::G1, b')'), (CharsetIndex::G2, b'*'), (CharsetIndex::G3, b'+')];

/// The state of the terminal being written to, as far as painting depends on it.
pub(crate) struct Pen {
    pub(crate) out: Vec<u8>,
    look: Look,
    charsets: [StandardCharset; 4],
    shift: CharsetIndex,
}

impl Pen {
    pub(crate) fn new() -> Pen {
        Pen {
            out: Vec::with_capacity(8 * 1024),
            look: Look::default(),
            charsets: Default::default(),
            shift: CharsetIndex::G0,
        }
    }

    /// Paints a grid onto a cleared screen, from the top left corner; call [`settle`] on the grid first.
    pub(crate) fn paint(&mut self, grid: &Grid<Cell>) {
        let rows = grid.screen_lines();
        // Pending line breaks; a row that wraps into the next one adds none.
        let mut breaks = 0;
        let mut continues = false;
        for row in 0..rows {
            let cells = &grid[Line(row as i32)];
            let wraps = cells[grid.last_column()].flags.contains(Flags::WRAPLINE);
            let has_gap = wraps && is_gap(cells, &grid[Line(row as i32 + 1)]);
            let used = match (wraps, has_gap) {
                (true, true) => cells.len() - 1,
                (true, false) => cells.len(),
                (false, _) => shown(cells).max(usize::from(continues)),
            };
            if used > 0 {
                (0..breaks).for_each(|_| self.out.extend_from_slice(b"\r\n"));
                breaks = 0;
                self.paint_cells(cells, used);
            }
            continues = wraps;
            if !wraps {
                breaks += 1;
            }
        }
    }

    fn paint_cells(&mut self, cells: &Row<Cell>, used: usize) {
        for (col, cell) in cells.into_iter().enumerate().take(used) {
            if cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                continue;
            }
            self.paint_cell(cell);
            // Terminals disagree on the width of some sequences, so address the next cell explicitly.
            let next = col + if cell.flags.contains(Flags::WIDE_CHAR) { 2 } else { 1 };
            if next < used && cell.zerowidth().is_some_and(|marks| !marks.is_empty()) {
                push(&mut self.out, format_args!("\x1b[{}G", next + 1));
            }
        }
    }

    fn paint_cell(&mut self, cell: &Cell) {
        if cell.c == ' '
            && let Some(blank) = Look::of_blank(cell)
        {
            if !self.look.suits_blank(&blank) {
                self.set_look(blank);
            }
        } else if !self.look.matches(cell) {
            self.set_look(Look::of(cell));
        }
        let mut buffer = [0; 4];
        self.out.extend_from_slice(cell.c.encode_utf8(&mut buffer).as_bytes());
        for mark in cell.zerowidth().into_iter().flatten() {
            self.out.extend_from_slice(mark.encode_utf8(&mut buffer).as_bytes());
        }
    }

    pub(crate) fn set_look(&mut self, look: Look) {
        sgr::write_change(&mut self.out, &self.look, &look);
        self.look = look;
    }

    /// Moves to a cell; row addresses are relative to `top`.
    pub(crate) fn go(&mut self, row: usize, col: usize, top: usize) {
        push(&mut self.out, format_args!("\x1b[{};{}H", row.saturating_sub(top) + 1, col + 1));
    }

    /// Restores `cursor` with its colours, character sets and pending wrap.
    pub(crate) fn set_cursor(&mut self, grid: &Grid<Cell>, cursor: &Cursor<Cell>, shift: CharsetIndex, top: usize) {
        let (row, col) = point_of(cursor);
        if cursor.input_needs_wrap {
            // Only printing into the last column leaves a wrap pending.
            let cells = &grid[Line(row as i32)];
            let is_spacer = cells[Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER);
            let col = if is_spacer { col - 1 } else { col };
            self.go(row, col, top);
            self.set_charsets([StandardCharset::Ascii; 4], CharsetIndex::G0);
            self.paint_cell(&cells[Column(col)]);
        } else {
            self.go(row, col, top);
        }
        self.set_look(Look::of(&cursor.template));
        self.set_charsets(SETS.map(|(index, _)| cursor.charsets[index]), shift);
        // Written even if it changes nothing: REP must not repeat the character painted above.
        self.out.push(if shift == CharsetIndex::G1 { 0x0e } else { 0x0f });
    }

    pub(crate) fn set_charsets(&mut self, charsets: [StandardCharset; 4], shift: CharsetIndex) {
        for (at, (_, set)) in SETS.iter().enumerate() {
            if self.charsets[at] != charsets[at] {
                let name = match charsets[at] {
                    StandardCharset::Ascii => b'B',
                    StandardCharset::SpecialCharacterAndLineDrawing => b'0',
                };
                self.out.extend_from_slice(&[0x1b, *set, name]);
            }
        }
        if self.shift != shift {
            self.out.push(if shift == CharsetIndex::G1 { 0x0e } else { 0x0f });
        }
        self.charsets = charsets;
        self.shift = shift;
    }
}

/// Removes wrap marks that printing cannot reproduce: on the last row, and on a row whose last cell is printed again
/// for a pending wrap. The original grid is changed too, so that it and the copy stay equal.
pub(crate) fn clear_pending_wraps(grid: &mut Grid<Cell>) {
    let bottom = grid.bottommost_line();
    let last = grid.last_column();
    let pending = [&grid.cursor, &grid.saved_cursor].map(|cursor| cursor.input_needs_wrap.then_some(cursor.point.line));
    for line in pending.into_iter().flatten().chain([bottom]) {
        grid[line][last].flags.remove(Flags::WRAPLINE);
    }
}

/// Reports whether the last cell of a row is the gap left by a wide character that did not fit and moved to the next
/// row. Printing the wide character reproduces it.
fn is_gap(cells: &Row<Cell>, next: &Row<Cell>) -> bool {
    let last = &cells[Column(cells.len() - 1)];
    let next = &next[Column(0)];
    if last.c != ' ' || !next.flags.contains(Flags::WIDE_CHAR) {
        return false;
    }
    match Look::of_blank(last) {
        Some(blank) => Look::of(next).suits_blank(&blank),
        None => last.zerowidth().is_none_or(<[char]>::is_empty) && Look::of(next).matches(last),
    }
}

/// Returns the number of cells up to the last visible one.
fn shown(cells: &Row<Cell>) -> usize {
    let shows = |cell: &Cell| {
        cell.flags.intersects(Flags::WIDE_CHAR_SPACER)
            || Look::of_blank(cell).is_none_or(|look| look != Look::default())
    };
    cells[..].iter().rposition(shows).map_or(0, |last| last + 1)
}
