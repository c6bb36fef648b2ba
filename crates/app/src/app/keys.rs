//! Where a key goes: to a dialog, the filter, the focused pane or the list.

use coven_domain::session::Action as SessionRule;
use crossterm::event::{KeyCode, KeyEvent};

use super::{App, Content, Effect, Focus, Notice};
use crate::frame::editor::Edited;
use crate::frame::keymap::{Action, Key};
use crate::pane::form::FormResult;

/// A problem stays at least this long while keys go to a pane.
const READ_MILLIS: i64 = 3_000;

/// What a pane did with a key.
pub enum PaneResult {
    /// The pane has no use for the key.
    Ignored,
    Done(Vec<Effect>),
    /// Back to the list.
    Left,
    /// Something for the user to read.
    Notice(String),
}

impl App {
    pub(super) fn key(&mut self, event: KeyEvent) {
        let Some(key) = Key::of(event) else { return };
        if self.now.as_millis() < self.ignores_keys_until {
            return;
        }
        // A notice has been read once a key is pressed. Somebody who types to an agent may see a problem a little later.
        let is_read = |it: &Notice| {
            !it.is_problem || self.focus == Focus::List || self.now.as_millis() - it.shown_at.as_millis() >= READ_MILLIS
        };
        if self.notice.as_ref().is_some_and(is_read) {
            self.notice = None;
        }
        if self.dialog.is_some() {
            return self.dialog_key(key.event());
        }
        if self.is_filtering {
            return self.filter_key(key.event());
        }
        match self.focus {
            Focus::Pane => self.pane_key(event, key),
            Focus::List => self.list_key(key),
        }
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(dialog) = &mut self.dialog {
            dialog.paste(text);
            return;
        }
        if self.is_filtering {
            self.filter.insert(text);
            self.filter_changed();
            return;
        }
        if self.focus == Focus::List {
            return;
        }
        if let Some(scrollback) = &mut self.active_pane_mut().scrollback {
            return scrollback.paste(text);
        }
        let is_connected = self.is_connected();
        let request = match &mut self.active_pane_mut().content {
            Content::Terminal(terminal) => terminal.paste(text, is_connected),
            Content::Conversation(conversation) => {
                conversation.paste(text);
                None
            }
            Content::Form(id) => {
                let id = id.clone();
                if let Some(form) = self.forms.get_mut(&id) {
                    form.paste(text);
                }
                None
            }
            Content::Task(task) => {
                task.paste(text);
                None
            }
            Content::Text(_) => None,
        };
        self.live(request);
    }

    fn filter_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => {
                self.filter.take();
                self.is_filtering = false;
                self.filter_changed();
            }
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Up => self.move_selection(-1),
            KeyCode::Down => self.move_selection(1),
            _ => {
                if self.filter.key(key) == Edited::Changed {
                    self.filter_changed();
                }
            }
        }
    }

    /// Applies the filter and selects its first match.
    fn filter_changed(&mut self) {
        self.changed();
        let has_filter = !self.filter.is_empty();
        self.refresh();
        if has_filter && let Some(first) = self.keys().first().cloned() {
            self.select(&first);
            self.reveal();
        }
    }

    pub(super) fn move_selection(&mut self, by: isize) {
        if self.view == crate::setup::View::Board {
            return self.board.step(by);
        }
        let keys = self.keys();
        self.lists.entry(self.view).or_default().step(&keys, by);
        self.reveal();
        self.load_more();
    }

    fn list_key(&mut self, key: Key) {
        if let Some(action) = self.settings.keymap.action(self.context(), key) {
            return self.act(action);
        }
        match key.event().code {
            KeyCode::Char(digit @ '1'..='9') if key.event().modifiers.is_empty() => {
                let keys = self.keys();
                if let Some(subject) = keys.get(digit as usize - '1' as usize) {
                    self.select(&subject.clone());
                    self.reveal();
                }
            }
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.take();
                self.changed();
            }
            _ => {}
        }
    }

    /// Handles a key of the focused pane; the detach keys return to the list.
    fn pane_key(&mut self, event: KeyEvent, key: Key) {
        let detach = self.settings.detach_keys.clone();
        match (self.held_key.take(), detach.as_slice()) {
            (None, [only]) if key == *only => return self.blur(),
            (None, [first, _]) if key == *first => {
                self.held_key = Some(key);
                return;
            }
            (Some(_), [_, second]) if key == *second => return self.blur(),
            // The first key typed twice is sent once.
            (Some(held), _) if key == held => {}
            (Some(held), _) => self.pane_input(held.event()),
            (None, _) => {}
        }
        self.pane_input(event);
    }

    fn pane_input(&mut self, event: KeyEvent) {
        let is_connected = self.is_connected();
        let areas = self.areas();
        let area = areas.contents().into_iter().find(|(pane, _)| *pane == self.active).map(|(_, area)| area);
        let now = self.now;
        let world = &self.world;
        let pane = self.panes.get_mut(&self.active).expect("the active pane exists");
        if let Some(scrollback) = &mut pane.scrollback {
            let result = scrollback.key(event, area.unwrap_or_default(), now);
            return self.pane_result(result, true);
        }
        let result = match &mut pane.content {
            Content::Terminal(terminal) if terminal.exit.is_some() => match event.code {
                KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter => PaneResult::Left,
                KeyCode::Char(key @ ('[' | 'p')) => {
                    let session = terminal.session();
                    return self.open_scrollback(session, key == 'p');
                }
                _ => PaneResult::Notice("this session has ended".to_owned()),
            },
            Content::Terminal(terminal) => {
                PaneResult::Done(terminal.key(event, is_connected).map(Effect::Live).into_iter().collect())
            }
            Content::Conversation(conversation) => conversation.key(event, area.unwrap_or_default(), world),
            Content::Task(task) => task.key(event, area.unwrap_or_default(), world),
            Content::Form(id) => {
                let id = id.clone();
                return self.form_key(&id, event);
            }
            Content::Text(_) => PaneResult::Left,
        };
        self.pane_result(result, false);
    }

    fn pane_result(&mut self, result: PaneResult, is_scrollback: bool) {
        match result {
            PaneResult::Ignored => {}
            PaneResult::Done(effects) => self.effects.extend(effects),
            PaneResult::Left if is_scrollback => {
                self.active_pane_mut().scrollback = None;
                self.blur();
            }
            PaneResult::Left => self.blur(),
            PaneResult::Notice(text) => self.notice(text),
        }
    }

    fn form_key(&mut self, id: &str, event: KeyEvent) {
        let Some(form) = self.forms.get_mut(id) else { return self.blur() };
        match form.key(event) {
            FormResult::Ignored | FormResult::Changed => {}
            FormResult::Left => self.blur(),
            FormResult::Refused(why) => self.notice(why),
            FormResult::Send(answer) => {
                if self.link != super::Link::Live {
                    return self.problem("not connected; the answer is kept, press Enter again when it is");
                }
                form.is_sent = true;
                self.call(crate::feed::Call::Answer { item: id.to_owned(), answer });
                self.blur();
            }
        }
    }

    /// Reports whether the selected session allows an action now; says why not.
    pub(super) fn allows(&mut self, rule: SessionRule, status: &str, actions: &[SessionRule], action: Action) -> bool {
        if actions.contains(&rule) {
            return true;
        }
        let possible: Vec<&str> = actions.iter().map(|it| it.as_str()).collect();
        let possible = if possible.is_empty() { "nothing".to_owned() } else { possible.join(", ") };
        self.problem(format!("cannot {action}: the session is {status}; possible now: {possible}"));
        false
    }
}
