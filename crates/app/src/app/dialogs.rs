//! Keys of an open dialog.

use crossterm::event::KeyEvent;

use super::{App, Effect};
use crate::dialog::{Dialog, DialogResult, Purpose};
use crate::feed::{Call, SessionAction, TaskAction};

impl App {
    pub(super) fn dialog_key(&mut self, key: KeyEvent) {
        let Some(dialog) = &mut self.dialog else { return };
        match dialog.key(key) {
            DialogResult::Stay => {}
            DialogResult::Close => self.dialog = None,
            DialogResult::Refused(why) => self.notice(why),
            DialogResult::Act(action) => {
                self.dialog = None;
                self.act(action);
            }
            DialogResult::Show(view) => {
                self.dialog = None;
                self.show(view);
            }
            DialogResult::Go(subject) => {
                self.dialog = None;
                self.go(&subject);
            }
            DialogResult::Call(call) => {
                // A form stays open until the daemon has agreed.
                if !matches!(dialog, Dialog::Fields(_)) {
                    self.dialog = None;
                }
                self.effect(Effect::Call(call));
            }
            DialogResult::Entered(purpose, text) => self.entered(purpose, text.trim()),
        }
    }

    fn entered(&mut self, purpose: Purpose, text: &str) {
        let is_optional = matches!(purpose, Purpose::Close(_));
        if text.is_empty() && !is_optional {
            return self.notice("type something first, or press Esc");
        }
        self.dialog = None;
        let reason = Some(text.to_owned()).filter(|text| !text.is_empty());
        match purpose {
            Purpose::Rename(id) => self.call(Call::Session { id, action: SessionAction::Rename(text.to_owned()) }),
            Purpose::RejectWork(id) => self.call(Call::Task { id, action: TaskAction::Reject(text.to_owned()) }),
            Purpose::Block(id) => self.call(Call::Task { id, action: TaskAction::Block(reason) }),
            Purpose::Close(id) => self.call(Call::Task { id, action: TaskAction::Close(reason) }),
            Purpose::Export(session) => {
                let text = &self.launch.path(text);
                self.notice(format!("exporting to {text}"));
                self.effect(Effect::Export { session, path: text.to_owned() });
            }
        }
    }
}
