//! What the mouse does: a click chooses what it is on, the wheel scrolls.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::page::Target;
use super::state::{App, Effect, Mode};
use super::tabs;
use super::view::picker;
use crate::tui::view::Theme;

const WHEEL_ROWS: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let place = Position::new(mouse.column, mouse.row);
        let is_deaf = self.is_deaf();
        match (&mut self.mode, mouse.kind) {
            (Mode::Picking(row), MouseEventKind::ScrollDown) => *row = (*row + 1).min(self.queue.len() - 1),
            (Mode::Picking(row), MouseEventKind::ScrollUp) => *row = row.saturating_sub(1),
            (Mode::Picking(_), MouseEventKind::Down(MouseButton::Left)) => {
                if let Some(row) = picker::row_at(self, place) {
                    self.mode = Mode::Asking;
                    self.switch_to(row);
                }
            }
            (Mode::Asking | Mode::Typing { .. }, MouseEventKind::ScrollDown) => self.scroll_by(WHEEL_ROWS),
            (Mode::Asking | Mode::Typing { .. }, MouseEventKind::ScrollUp) => self.scroll_by(-WHEEL_ROWS),
            (Mode::Asking | Mode::Typing { .. }, MouseEventKind::Down(MouseButton::Left)) if !is_deaf => {
                return self.click(place);
            }
            _ => {}
        }
        Vec::new()
    }

    fn click(&mut self, place: Position) -> Vec<Effect> {
        let panes = self.panes();
        let Some(waiting) = self.current() else { return Vec::new() };
        if panes.tabs.contains(place) {
            let column = usize::from(place.x - panes.tabs.x);
            let tabs = tabs::tabs(waiting, usize::from(panes.tabs.width));
            if let Some(tab) = tabs.iter().find(|tab| tab.columns.contains(&column)) {
                // A text that is being typed is in the draft already.
                self.mode = Mode::Asking;
                self.go_to(tab.place);
            }
            return Vec::new();
        }
        if !panes.body.contains(place) {
            return Vec::new();
        }
        let row = self.offset + usize::from(place.y - panes.body.y);
        let target = self.page(Theme::Plain).lines.get(row).and_then(|(_, target)| *target);
        match target {
            Some(Target::Row(row)) => {
                self.mode = Mode::Asking;
                if let Some((rows, _)) = self.question() {
                    self.act(rows[row]);
                }
            }
            Some(Target::Question(question)) => self.go_to(question),
            Some(Target::Send) => return self.send(),
            None => {}
        }
        Vec::new()
    }
}
