//! The state of a screen: the grid, which alacritty's `Term` edits, and the state that `Term` does not expose.
//!
//! `Term` has no accessors for margins, tab stops, keyboard flags and titles, so the model tracks them itself. `Term`
//! handles cells, scrolling, wrapping and reflow.

use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Term, TermMode};
use alacritty_terminal::vte::ansi::{CharsetIndex, Handler, NamedColor};

use crate::keyboard::Keyboard;
use crate::modes::Modes;
use crate::signals::Signals;
use crate::spans::{self, Span};
use crate::strings::Dcs;

pub(crate) const PRIMARY: usize = 0;
pub(crate) const ALTERNATE: usize = 1;

const TAB_WIDTH: usize = 8;

/// The part of a saved cursor that `Term` does not save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) origin: bool,
    pub(crate) charset: CharsetIndex,
}

pub(crate) struct Model {
    pub(crate) term: Term<VoidListener>,
    pub(crate) modes: Modes,
    /// Scroll region: the first row, and one past the last.
    pub(crate) margins: (usize, usize),
    pub(crate) origin: bool,
    pub(crate) charset: CharsetIndex,
    pub(crate) saved: [Saved; 2],
    pub(crate) keyboard: [Keyboard; 2],
    pub(crate) tabs: Vec<bool>,
    pub(crate) title: Option<String>,
    pub(crate) titles: Vec<Option<String>>,
    /// The character just printed, which REP repeats; `None` after any other control function.
    pub(crate) preceding: Option<char>,
    pub(crate) replies: Vec<u8>,
    pub(crate) dcs: Dcs,
    pub(crate) signals: Signals,
    /// Screens that were replaced without scrolling away, for a log; `None` without history.
    pub(crate) vanished: Option<Vec<Vec<Span>>>,
}

struct Size {
    rows: usize,
    cols: usize,
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.rows
    }

    fn screen_lines(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.cols
    }
}

impl Model {
    pub(crate) fn new(rows: usize, cols: usize, history: usize) -> Model {
        let config = Config { scrolling_history: history, ..Config::default() };
        Model {
            term: Term::new(config, &Size { rows, cols }, VoidListener),
            modes: Modes::default(),
            margins: (0, rows),
            origin: false,
            charset: CharsetIndex::G0,
            saved: Default::default(),
            keyboard: Default::default(),
            tabs: default_tabs(cols),
            title: None,
            titles: Vec::new(),
            preceding: None,
            replies: Vec::new(),
            dcs: Dcs::None,
            signals: Signals::default(),
            vanished: (history > 0).then(Vec::new),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.term.screen_lines()
    }

    pub(crate) fn cols(&self) -> usize {
        self.term.columns()
    }

    pub(crate) fn grid(&self) -> &Grid<Cell> {
        self.term.grid()
    }

    pub(crate) fn cursor_point(&self) -> (usize, usize) {
        point_of(&self.grid().cursor)
    }

    pub(crate) fn is_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// Index of the visible screen in per-screen state.
    pub(crate) fn active(&self) -> usize {
        if self.is_alternate() { ALTERNATE } else { PRIMARY }
    }

    pub(crate) fn resize(&mut self, rows: usize, cols: usize) {
        if (rows, cols) == (self.rows(), self.cols()) {
            return;
        }
        self.term.resize(Size { rows, cols });
        self.margins = (0, rows);
        let known = self.tabs.len();
        self.tabs.truncate(cols);
        self.tabs.extend((known..cols).map(|col| col % TAB_WIDTH == 0));
        self.preceding = None;
        tidy(self.term.grid_mut());
        if self.is_alternate() {
            self.with_primary(tidy);
        }
    }

    /// Calls `access` with the primary grid while the alternate screen is active.
    ///
    /// `Term` exposes only the visible grid and clears the alternate one whenever it is entered, so a placeholder grid
    /// is cleared instead. Entering also sets the saved cursor of the primary screen to its cursor; the two are already
    /// equal since the program entered the alternate screen.
    pub(crate) fn with_primary<R>(&mut self, access: impl FnOnce(&mut Grid<Cell>) -> R) -> R {
        debug_assert!(self.is_alternate());
        let alternate = std::mem::replace(self.term.grid_mut(), Grid::new(1, 1, 0));
        self.term.swap_alt();
        let result = access(self.term.grid_mut());
        self.term.swap_alt();
        *self.term.grid_mut() = alternate;
        result
    }

    pub(crate) fn enter_alternate(&mut self) {
        if self.is_alternate() {
            return;
        }
        self.saved[PRIMARY] = Saved { origin: self.origin, charset: self.charset };
        self.saved[ALTERNATE] = Saved::default();
        self.keyboard[ALTERNATE] = Keyboard::default();
        self.term.swap_alt();
        self.term.grid_mut().saved_cursor = Cursor::default();
    }

    pub(crate) fn leave_alternate(&mut self) {
        if !self.is_alternate() {
            return;
        }
        self.keep_visible_rows();
        self.term.swap_alt();
        self.origin = self.saved[PRIMARY].origin;
        self.charset = self.saved[PRIMARY].charset;
        Handler::set_active_charset(&mut self.term, self.charset);
        self.clamp_to_margins();
    }

    pub(crate) fn save_cursor(&mut self) {
        let active = self.active();
        self.saved[active] = Saved { origin: self.origin, charset: self.charset };
        self.term.save_cursor_position();
    }

    pub(crate) fn restore_cursor(&mut self) {
        let saved = self.saved[self.active()];
        self.term.restore_cursor_position();
        self.origin = saved.origin;
        self.charset = saved.charset;
        Handler::set_active_charset(&mut self.term, self.charset);
        self.clamp_to_margins();
    }

    /// Moves the cursor inside the margins in origin mode.
    fn clamp_to_margins(&mut self) {
        let (row, col) = self.cursor_point();
        let (top, bottom) = self.margins;
        if self.origin && !(top..bottom).contains(&row) {
            self.place(row.clamp(top, bottom - 1), col);
        }
    }

    pub(crate) fn reset(&mut self) {
        self.keep_visible_rows();
        if self.is_alternate() {
            self.leave_alternate();
            self.keep_visible_rows();
        }
        for index in 0..NamedColor::DimForeground as usize {
            self.term.reset_color(index);
        }
        self.term.reset_state();
        self.modes = Modes::default();
        self.margins = (0, self.rows());
        self.origin = false;
        self.charset = CharsetIndex::G0;
        self.saved = Default::default();
        self.keyboard = Default::default();
        self.tabs = default_tabs(self.cols());
        self.change_title(None);
        self.titles.clear();
    }

    /// For a log: keeps the visible rows, which are about to be replaced without scrolling away.
    fn keep_visible_rows(&mut self) {
        if self.vanished.is_some() {
            let rows = spans::rows(self);
            let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
            if let Some(vanished) = &mut self.vanished {
                vanished.extend(rows.into_iter().take(used));
            }
        }
    }

    pub(crate) fn has_default_tabs(&self) -> bool {
        self.tabs == default_tabs(self.cols())
    }
}

/// Colours outside the palette, with the numbers of the OSC sequences that set them.
pub(crate) const NAMED_COLORS: [(NamedColor, u8); 3] =
    [(NamedColor::Foreground, 10), (NamedColor::Background, 11), (NamedColor::Cursor, 12)];

pub(crate) fn point_of(cursor: &Cursor<Cell>) -> (usize, usize) {
    (cursor.point.line.0.max(0) as usize, cursor.point.column.0)
}

fn default_tabs(cols: usize) -> Vec<bool> {
    (0..cols).map(|col| col % TAB_WIDTH == 0).collect()
}

/// Repairs the grid after a resize: removes halves of wide characters and pending wraps away from the last column.
pub(crate) fn tidy(grid: &mut Grid<Cell>) {
    let (rows, cols) = (grid.screen_lines(), grid.columns());
    for row in 0..rows {
        for col in 0..=cols {
            heal(grid, row, col);
        }
    }
    for cursor in [&mut grid.cursor, &mut grid.saved_cursor] {
        cursor.point.line = cursor.point.line.max(Line(0)).min(Line(rows as i32 - 1));
        cursor.point.column = cursor.point.column.min(Column(cols - 1));
        cursor.input_needs_wrap &= cursor.point.column.0 == cols - 1;
    }
}

/// Clears the remaining half of a wide character that an edit has split just before `col`.
pub(crate) fn heal(grid: &mut Grid<Cell>, row: usize, col: usize) {
    let cols = grid.columns();
    let line = Line(row as i32);
    let is_wide = col > 0 && grid[line][Column(col - 1)].flags.contains(Flags::WIDE_CHAR);
    let is_spacer = col < cols && grid[line][Column(col)].flags.contains(Flags::WIDE_CHAR_SPACER);
    if is_wide && !is_spacer {
        grid[line][Column(col - 1)].clear_wide();
    } else if is_spacer && !is_wide {
        grid[line][Column(col)].flags.remove(Flags::WIDE_CHAR_SPACER);
    }
}
