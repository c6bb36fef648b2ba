//! What the mouse does.

use crossterm::event::{KeyCode, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::layout;
use super::state::{App, Effect, Mode};

const WHEEL_ROWS: usize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let at = Position::new(mouse.column, mouse.row);
        if let Mode::Reading(_) = self.mode {
            return self.turn(mouse.kind);
        }
        if !matches!(self.mode, Mode::Browsing | Mode::Filtering(_)) {
            return Vec::new();
        }
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => return self.click(at),
            MouseEventKind::ScrollDown => self.wheel(at, 1),
            MouseEventKind::ScrollUp => self.wheel(at, -1),
            _ => {}
        }
        Vec::new()
    }

    /// A click selects; a click on what is selected opens it.
    fn click(&mut self, at: Position) -> Vec<Effect> {
        if let Some(place) = layout::places(self).into_iter().find(|place| place.area.contains(at)) {
            if self.tasks.is_selected(&place.id) {
                return self.key(KeyEvent::from(KeyCode::Enter));
            }
            self.tasks.select_task(&place.id);
        } else if let Some(column) = self.column_at(at) {
            self.tasks.select(column, 0);
        }
        Vec::new()
    }

    fn wheel(&mut self, at: Position, steps: isize) {
        if layout::is_stacked(self) {
            return self.tasks.select_through(steps);
        }
        match self.column_at(at).filter(|column| *column != self.tasks.cursor().0) {
            Some(column) => self.tasks.select(column, self.offsets[column]),
            None => self.tasks.select_by(steps),
        }
    }

    fn column_at(&self, at: Position) -> Option<usize> {
        if layout::is_stacked(self) || layout::is_too_small(self) {
            return None;
        }
        let is_here = |column: &layout::Column| column.head.contains(at) || column.body.contains(at);
        layout::columns(self).into_iter().find(is_here).map(|column| column.at)
    }

    fn turn(&mut self, kind: MouseEventKind) -> Vec<Effect> {
        let height = self.page_size().1;
        if let Mode::Reading(page) = &mut self.mode {
            match kind {
                MouseEventKind::ScrollDown => page.scroll_to(page.scroll + WHEEL_ROWS, height),
                MouseEventKind::ScrollUp => page.scroll_to(page.scroll.saturating_sub(WHEEL_ROWS), height),
                _ => {}
            }
        }
        Vec::new()
    }
}
