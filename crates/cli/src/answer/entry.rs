//! Keys while something is typed, picked or read in front of the page.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::reply::Choosable;
use super::state::{App, Effect, Mode};
use super::view::help;
use crate::chat::editor::Editor;

impl App {
    pub(super) fn typing(&mut self, what: Choosable, mut editor: Editor, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => self.keep_text(what, editor.text()),
            KeyCode::Enter if !key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                self.choose_text(what, editor.text());
                self.step(1);
            }
            KeyCode::Tab | KeyCode::BackTab => {
                self.choose_text(what, editor.text());
                self.step(if key.code == KeyCode::Tab { 1 } else { -1 });
            }
            _ => {
                editor.key(key);
                self.keep_text(what, editor.text());
                self.mode = Mode::Typing { what, editor };
            }
        }
        Vec::new()
    }

    pub(super) fn keep_text(&mut self, what: Choosable, text: &str) {
        self.is_seeking = true;
        if let Some(waiting) = self.current_mut() {
            waiting.draft.replies[waiting.draft.question].keep_text(what, text);
        }
    }

    /// The text is the answer from now on; words of one's own that are none take the answer back.
    fn choose_text(&mut self, what: Choosable, text: &str) {
        self.keep_text(what, text);
        let Some(waiting) = self.current_mut() else { return };
        let place = waiting.draft.question;
        let reply = &mut waiting.draft.replies[place];
        let is_empty = what == Choosable::Other && text.trim().is_empty();
        if !is_empty && !reply.is_chosen(what) {
            reply.choose(&waiting.asked.questions[place], what);
        }
    }

    pub(super) fn rejecting(&mut self, mut editor: Editor, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => {}
            KeyCode::Enter if !key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                let Some(waiting) = self.current_mut() else { return Vec::new() };
                waiting.is_sending = true;
                let reason = Some(editor.text().trim().to_owned()).filter(|reason| !reason.is_empty());
                return vec![Effect::Reject { id: waiting.asked.id.clone(), reason }];
            }
            _ => {
                editor.key(key);
                self.keep_reason(editor);
            }
        }
        Vec::new()
    }

    fn keep_reason(&mut self, editor: Editor) {
        if let Some(waiting) = self.current_mut() {
            editor.text().clone_into(&mut waiting.draft.reason);
            self.mode = Mode::Rejecting(editor);
        }
    }

    pub(super) fn picking(&mut self, row: usize, key: KeyEvent) -> Vec<Effect> {
        let last = self.queue.len().saturating_sub(1);
        let page = usize::from(self.size.height / 2);
        let row = match key.code {
            KeyCode::Enter => {
                self.switch_to(row);
                return Vec::new();
            }
            KeyCode::Down | KeyCode::Char('j' | ']') => row + 1,
            KeyCode::Up | KeyCode::Char('k' | '[') => row.saturating_sub(1),
            KeyCode::PageDown => row + page,
            KeyCode::PageUp => row.saturating_sub(page),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return Vec::new(),
        };
        self.mode = Mode::Picking(row.min(last));
        Vec::new()
    }

    pub(super) fn help(&mut self, scroll: u16, key: KeyEvent) -> Vec<Effect> {
        let scroll = match key.code {
            KeyCode::Down | KeyCode::Char('j') => scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => scroll.saturating_add(self.size.height / 2),
            KeyCode::PageUp => scroll.saturating_sub(self.size.height / 2),
            _ => return Vec::new(),
        };
        self.mode = Mode::Help { scroll: scroll.min(help::last_scroll(self.size)) };
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        if self.is_deaf() {
            return Vec::new();
        }
        match std::mem::replace(&mut self.mode, Mode::Asking) {
            Mode::Typing { what, mut editor } => {
                editor.paste(text);
                self.keep_text(what, editor.text());
                self.mode = Mode::Typing { what, editor };
            }
            Mode::Rejecting(mut editor) => {
                editor.paste(text);
                self.keep_reason(editor);
            }
            // What is pasted elsewhere would be taken for keys.
            mode @ (Mode::Asking | Mode::Picking(_) | Mode::Quitting | Mode::Help { .. }) => self.mode = mode,
        }
        Vec::new()
    }
}

pub(super) fn editor_with(text: &str) -> Editor {
    let mut editor = Editor::default();
    editor.set(text.to_owned());
    editor
}
