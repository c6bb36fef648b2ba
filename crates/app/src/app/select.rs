//! The selection, the views, the focus and the splits.

use coven_api::inbox::{InboxItem, InboxKind};

use super::{App, Content, Focus, Pane};
use crate::frame::list::ListState;
use crate::pane::panes::{self, Direction, Layout, MAX_PANES};
use crate::setup::View;
use crate::view::ListLine;
use crate::world::{Group, Subject};

impl App {
    /// The selectable rows of the current view.
    pub fn keys(&self) -> Vec<Subject> {
        match self.view {
            View::Board => self.board.subjects(),
            _ => self.lines.iter().filter_map(ListLine::subject).cloned().collect(),
        }
    }

    pub fn list(&self) -> Option<&ListState<Subject>> {
        self.lists.get(&self.view)
    }

    pub fn selected(&self) -> Option<Subject> {
        match self.view {
            View::Board => self.board.selected(),
            _ => self.list().and_then(|list| list.selected().cloned()),
        }
    }

    pub(super) fn follow_selection(&mut self, keys: &[Subject]) {
        if let Some(wanted) = &self.wanted
            && let Some(found) = keys.iter().find(|key| is_named(key, wanted)).cloned()
        {
            self.select(&found);
            self.wanted = None;
            if std::mem::take(&mut self.is_focus_wanted) {
                self.focus_selected();
            }
        }
        let before = self.selected();
        self.lists.entry(self.view).or_default().follow(keys);
        if before.is_some() && self.selected() != before {
            self.moved_at = self.now;
        }
        self.reveal();
        self.load_more();
    }

    /// Reads more of the History when the selection comes near its end.
    pub(super) fn load_more(&mut self) {
        if self.view != View::History {
            return;
        }
        let selected = match self.selected() {
            Some(Subject::Session(id)) => Some(id),
            _ => None,
        };
        let effects = self.history.load_more(selected);
        self.effects.extend(effects);
    }

    /// Scrolls the list so that the selected row is visible.
    pub fn reveal(&mut self) {
        let height = usize::from(self.areas().list_rows().height);
        let (lines, count) = (&self.lines, self.lines.len());
        let list = self.lists.entry(self.view).or_default();
        let at = lines.iter().position(|line| line.subject().is_some() && line.subject() == list.selected());
        if let Some(at) = at {
            // The heading above the first row is shown with it.
            let top = if at == 1 { 0 } else { at };
            list.reveal(at, count, height);
            if top < list.offset && at - top < height {
                list.offset = top;
            }
        }
    }

    pub fn select(&mut self, subject: &Subject) {
        match self.view {
            View::Board => self.board.select(subject),
            _ => self.lists.entry(self.view).or_default().select(subject.clone()),
        }
    }

    pub fn show(&mut self, view: View) {
        if self.view != view {
            self.blur();
            self.view = view;
            self.changed();
        }
        if view == View::History {
            let wanted = self.history.load();
            self.effects.extend(wanted);
        }
    }

    /// Selects the next or previous row that needs the user, in this view or in Agents.
    pub(super) fn next_need(&mut self, step: isize) {
        let needs: Vec<Subject> = match self.view {
            View::Inbox => self.keys(),
            _ => {
                let rows = self.world.rows();
                rows.into_iter().filter(|row| row.group == Group::NeedsYou).map(|row| row.subject).collect()
            }
        };
        if needs.is_empty() {
            return self.notice("nothing needs you");
        }
        let here = self.selected().and_then(|selected| needs.iter().position(|it| *it == selected));
        let count = needs.len() as isize;
        let next = match here {
            Some(at) => (at as isize + step).rem_euclid(count),
            None if step > 0 => 0,
            None => count - 1,
        };
        let wanted = needs[next as usize].clone();
        if !self.keys().contains(&wanted) {
            self.show(View::Agents);
            self.filter.take();
            self.changed();
            self.lists.entry(View::Agents).or_default().select(wanted);
            return;
        }
        self.select(&wanted);
        self.reveal();
    }

    /// The inbox item that the selected row is about.
    pub fn selected_item(&self) -> Option<&InboxItem> {
        match self.selected()? {
            Subject::Session(id) => self.world.item_of(id),
            Subject::Item(id) => self.world.item(&id),
            Subject::Task(id) => {
                let is_task = |item: &&InboxItem| matches!(item.kind, InboxKind::Merge | InboxKind::Blocked);
                self.world.inbox().iter().filter(is_task).find(|item| item.task_id == Some(id))
            }
        }
    }

    /// Reports whether the active pane has something to type into or to read by keys.
    pub(super) fn can_focus(&self) -> bool {
        !matches!(self.active_pane().content, Content::Text(_)) || self.active_pane().scrollback.is_some()
    }

    /// Focuses the pane that shows the selected row.
    pub(super) fn focus_selected(&mut self) {
        let selected = self.selected();
        let shows_it = |id: &usize| self.panes.get(id).is_some_and(|pane| pane.subject == selected);
        if !shows_it(&self.active) {
            self.active = 0;
        }
        self.focus_pane();
    }

    pub(super) fn focus_pane(&mut self) {
        // A request of the agent is answered before anything is typed to it. One that comes later waits, so that keys meant
        // for the agent never answer it.
        let is_asked =
            matches!(&self.active_pane().subject, Some(Subject::Session(id)) if self.world.item_of(*id).is_some());
        if self.focus == Focus::List {
            self.active_pane_mut().is_answering = is_asked;
        }
        // In a narrow frame the pane has no content until it is shown.
        self.focus = Focus::Pane;
        self.is_opening = true;
        self.refresh_panes();
        self.is_opening = false;
        if !self.can_focus() {
            self.focus = Focus::List;
            if let Content::Text(text) = &self.active_pane().content
                && let Some(why) = text.lines().next().filter(|line| !line.is_empty())
            {
                self.notice(why.to_owned());
            }
            return;
        }
        self.tell_focus(true);
    }

    /// Returns the focus to the list.
    pub(super) fn blur(&mut self) {
        if self.focus == Focus::Pane {
            self.tell_focus(false);
            self.focus = Focus::List;
            self.held_key = None;
            self.active_pane_mut().is_answering = false;
        }
    }

    pub(super) fn outer_focus(&mut self, is_focused: bool) {
        if self.focus == Focus::Pane {
            self.tell_focus(is_focused);
        }
    }

    fn tell_focus(&mut self, is_focused: bool) {
        let is_connected = self.is_connected();
        let request = match &mut self.active_pane_mut().content {
            Content::Terminal(terminal) => terminal.focus_changed(is_focused, is_connected),
            _ => None,
        };
        self.live(request);
    }

    /// Splits the active pane. The new pane shows the same and keeps it; the first one follows the selection.
    pub(super) fn split(&mut self, direction: Direction) {
        let areas = self.areas();
        let area = areas.panes.iter().find(|(pane, _)| *pane == self.active).map(|(_, area)| *area);
        if self.panes.len() >= MAX_PANES {
            return self.notice(format!("at most {MAX_PANES} panes; W closes one"));
        }
        if area.is_none_or(|area| !panes::can_split(area, direction)) {
            return self.notice("the pane is too small to split");
        }
        let new = (1..=MAX_PANES).find(|id| !self.panes.contains_key(id)).expect("fewer panes than the limit");
        let subject = self.active_pane().subject.clone();
        self.panes.insert(new, Pane { subject, ..Pane::empty() });
        self.layout.split(self.active, direction, new);
    }

    pub(super) fn close_pane(&mut self) {
        let closed = match self.active {
            // The first pane follows the selection; closing it closes the newest of the others.
            0 => self.panes.keys().next_back().copied().unwrap_or(0),
            other => other,
        };
        if closed == 0 {
            return self.notice("the last pane stays");
        }
        self.replace_content(closed, super::ContentKind::Nothing);
        self.panes.remove(&closed);
        self.layout.remove(closed);
        self.active = 0;
    }

    pub(super) fn next_pane(&mut self) {
        let order = self.layout.panes();
        let at = order.iter().position(|pane| *pane == self.active).unwrap_or(0);
        self.active = order[(at + 1) % order.len()];
        self.focus_pane();
    }

    /// Restores a kept layout; panes whose subjects are gone show that.
    pub fn restore_layout(&mut self, layout: Layout, subjects: Vec<(usize, Subject)>) {
        let known = |pane: &usize| *pane == 0 || subjects.iter().any(|(id, _)| id == pane);
        if layout.panes().len() > MAX_PANES || !layout.panes().contains(&0) || !layout.panes().iter().all(known) {
            return;
        }
        for (id, subject) in subjects {
            if layout.panes().contains(&id) && id != 0 {
                self.panes.insert(id, Pane { subject: Some(subject), ..Pane::empty() });
            }
        }
        self.layout = layout;
    }
}

/// Reports whether an id given on the command line names this row.
fn is_named(subject: &Subject, wanted: &str) -> bool {
    match subject {
        Subject::Session(id) => id.to_string().starts_with(wanted),
        Subject::Item(id) => id.starts_with(wanted),
        Subject::Task(id) => id.to_string().starts_with(wanted),
    }
}
