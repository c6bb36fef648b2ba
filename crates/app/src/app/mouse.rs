//! The mouse: a click selects and focuses, the wheel scrolls, a drag selects text.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{App, Content, Effect, Focus};
use crate::setup::View;
use crate::view::ListLine;

const WHEEL_ROWS: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, event: MouseEvent) {
        if !self.settings.is_mouse_on || self.dialog.is_some() {
            return;
        }
        let at = Position::new(event.column, event.row);
        let areas = self.areas();
        if let Some((pane, from, _)) = self.marked {
            return self.mark(event, pane, from, areas.content(pane));
        }
        if let Some((pane, _)) = areas.panes.iter().find(|(_, area)| area.contains(at)) {
            let content = areas.content(*pane).filter(|area| area.contains(at));
            return self.pane_mouse(event, *pane, content);
        }
        match event.kind {
            MouseEventKind::ScrollUp if areas.list.contains(at) => self.move_selection(-1),
            MouseEventKind::ScrollDown if areas.list.contains(at) => self.move_selection(1),
            MouseEventKind::Down(MouseButton::Left) => {
                if areas.tabs.contains(at) {
                    if let Some(view) = crate::draw::tab_at(self, areas.tabs, event.column) {
                        self.show(view);
                    }
                    return;
                }
                let rows = areas.list_rows();
                if !rows.contains(at) {
                    return;
                }
                self.blur();
                let clicked = match self.view {
                    View::Board => self.board.at(rows, event.column, event.row),
                    _ => {
                        let offset = self.list().map_or(0, |list| list.offset);
                        let line = self.lines.get(offset + usize::from(event.row - rows.y));
                        line.and_then(ListLine::subject).cloned()
                    }
                };
                let Some(subject) = clicked else { return };
                let was_selected = self.selected().as_ref() == Some(&subject);
                self.select(&subject);
                // A second click opens it.
                if was_selected {
                    self.focus_selected();
                }
            }
            _ => {}
        }
    }

    fn pane_mouse(&mut self, event: MouseEvent, pane: usize, content: Option<Rect>) {
        let is_press = matches!(event.kind, MouseEventKind::Down(MouseButton::Left));
        let had_focus = self.focus == Focus::Pane && self.active == pane;
        if is_press && !had_focus {
            self.blur();
            self.active = pane;
            self.focus_pane();
        }
        let Some(area) = content else { return };
        let by = match event.kind {
            MouseEventKind::ScrollUp => -WHEEL_ROWS,
            MouseEventKind::ScrollDown => WHEEL_ROWS,
            _ => 0,
        };
        let is_connected = self.is_connected();
        let Some(shown) = self.panes.get_mut(&pane) else { return };
        if let Some(scrollback) = &mut shown.scrollback {
            return scrollback.scroll(by, area);
        }
        let request = match &mut shown.content {
            Content::Terminal(terminal) => {
                let wants_mouse = terminal.modes().mouse != coven_screen::MouseEvents::None && terminal.exit.is_none();
                if wants_mouse && had_focus {
                    terminal.mouse(event, area, is_connected)
                } else {
                    if by < 0 {
                        let session = terminal.session();
                        return self.scroll_back(pane, session, area, by);
                    }
                    None
                }
            }
            Content::Conversation(conversation) => {
                conversation.scroll(by, area);
                None
            }
            Content::Task(task) => {
                task.scroll(by, area);
                None
            }
            Content::Form(_) | Content::Text(_) => None,
        };
        if request.is_none() && is_press {
            let here = (event.column, event.row);
            self.marked = Some((pane, here, here));
        }
        self.live(request);
    }

    /// Opens the past output of a terminal and scrolls up in it.
    fn scroll_back(&mut self, pane: usize, session: coven_domain::SessionId, area: Rect, by: isize) {
        self.active = pane;
        self.focus = Focus::Pane;
        let (mut scrollback, effects) = crate::pane::scrollback::Scrollback::output(session);
        scrollback.scroll(by, area);
        self.active_pane_mut().scrollback = Some(Box::new(scrollback));
        self.effects.extend(effects);
    }

    /// Selects text with the mouse; a release copies it.
    fn mark(&mut self, event: MouseEvent, pane: usize, from: (u16, u16), area: Option<Rect>) {
        let Some(area) = area.filter(|area| !area.is_empty()) else {
            self.marked = None;
            return;
        };
        let x = event.column.clamp(area.left(), area.right() - 1);
        let y = event.row.clamp(area.top(), area.bottom() - 1);
        match event.kind {
            MouseEventKind::Drag(MouseButton::Left) => self.marked = Some((pane, from, (x, y))),
            MouseEventKind::Up(MouseButton::Left) => {
                self.marked = None;
                if from == (x, y) {
                    return;
                }
                if let Content::Terminal(terminal) = &self.panes[&pane].content {
                    let text = terminal.text_between(area, from, (x, y));
                    if text.trim().is_empty() {
                        return;
                    }
                    let count = text.lines().count();
                    self.effect(Effect::Copy(text));
                    self.notice(format!("copied {count} {}", if count == 1 { "line" } else { "lines" }));
                }
            }
            MouseEventKind::Down(_) => self.marked = None,
            _ => {}
        }
    }
}
