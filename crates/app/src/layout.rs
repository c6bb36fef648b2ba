//! Where everything is on the screen. Drawing and the mouse use the same areas.

use ratatui::layout::Rect;

use crate::app::{App, Focus};
use crate::pane::panes::Direction;
use crate::setup::View;

/// A smaller screen shows one line only.
const MIN_COLS: u16 = 20;
const MIN_ROWS: u16 = 5;
/// Narrower screens show either the list or a pane.
const TWO_SIDES_COLS: u16 = 70;
const LIST_COLS: std::ops::RangeInclusive<u16> = 30..=48;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Areas {
    pub is_too_small: bool,
    pub tabs: Rect,
    /// The list with the line of its filter; empty if it is not shown.
    pub list: Rect,
    pub has_filter: bool,
    /// The column between list and panes.
    pub divider: Option<Rect>,
    /// The visible panes with their first rows.
    pub panes: Vec<(usize, Rect)>,
    /// The lines between panes.
    pub lines: Vec<(Direction, Rect)>,
    pub hints: Rect,
}

impl Areas {
    pub fn of(app: &App) -> Self {
        let size = app.size;
        let has_filter = app.is_filtering || !app.filter.is_empty();
        if size.width < MIN_COLS || size.height < MIN_ROWS {
            return Self { is_too_small: true, has_filter, ..Self::default() };
        }
        let tabs = Rect { height: 1, ..size };
        let hints = Rect { y: size.bottom() - 1, height: 1, ..size };
        let body = Rect { y: size.y + 1, height: size.height - 2, ..size };
        let empty = Rect { width: 0, height: 0, ..body };
        let has_two_sides = size.width >= TWO_SIDES_COLS && app.view != View::Board;
        let (list, divider, right) = match (has_two_sides, app.is_zoomed, app.focus) {
            (_, true, _) | (false, _, Focus::Pane) => (empty, None, body),
            (false, false, Focus::List) => (body, None, empty),
            (true, false, _) => {
                let width = (size.width / 3).clamp(*LIST_COLS.start(), *LIST_COLS.end());
                let divider = Rect { x: body.x + width, width: 1, ..body };
                let right = Rect { x: divider.right(), width: body.width - width - 1, ..body };
                (Rect { width, ..body }, Some(divider), right)
            }
        };
        let (panes, lines) = match (right.is_empty(), app.is_zoomed) {
            (true, _) => (Vec::new(), Vec::new()),
            (false, true) => (vec![(app.active, right)], Vec::new()),
            (false, false) => {
                let (mut panes, mut lines) = (app.layout.areas(right), app.layout.lines(right));
                // Where the splits do not fit, the active pane is shown.
                if !panes.iter().any(|(pane, _)| *pane == app.active) {
                    (panes, lines) = (vec![(app.active, right)], Vec::new());
                }
                (panes, lines)
            }
        };
        Self { is_too_small: false, tabs, list, has_filter, divider, panes, lines, hints }
    }

    /// The list without the line of its filter.
    pub const fn list_rows(&self) -> Rect {
        let taken = if self.has_filter && self.list.height > 0 { 1 } else { 0 };
        Rect { y: self.list.y + taken, height: self.list.height - taken, ..self.list }
    }

    /// The visible panes without their first rows.
    pub fn contents(&self) -> Vec<(usize, Rect)> {
        let content = |area: Rect| Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        self.panes.iter().map(|(pane, area)| (*pane, content(*area))).collect()
    }

    pub fn content(&self, pane: usize) -> Option<Rect> {
        self.contents().into_iter().find(|(id, _)| *id == pane).map(|(_, area)| area)
    }

    pub fn is_visible(&self, pane: usize) -> bool {
        self.panes.iter().any(|(id, _)| *id == pane)
    }
}
