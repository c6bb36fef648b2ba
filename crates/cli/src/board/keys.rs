//! What keys do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Outcome;
use super::form::{Form, Step};
use super::layout;
use super::offer::{self, Action, ENTER, OFFERS};
use super::page::Page;
use super::report::{Request, Subject, What};
use super::state::{App, Effect, Mode, Purpose, Sure};
use super::view;
use crate::tui::line::Line;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return vec![Effect::Leave(Outcome::Quit)],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                KeyCode::Char('z') => return vec![Effect::Suspend],
                _ => {}
            }
        }
        match std::mem::replace(&mut self.mode, Mode::Browsing) {
            Mode::Browsing => self.browse(key),
            Mode::Filtering(line) => self.filter(line, key),
            Mode::Saying { id, purpose, line, inbox } => self.saying(id, purpose, line, inbox, key),
            Mode::Confirming { id, sure } => self.confirm(id, sure, key),
            Mode::Filling(form) => self.fill(form, key),
            Mode::Reading(page) => self.page_key(page, key),
            Mode::Inbox { cursor } => self.inbox(cursor, key),
            Mode::Help { scroll } => self.help(scroll, key),
        }
    }

    fn browse(&mut self, key: KeyEvent) -> Vec<Effect> {
        if self.moves(key) {
            return Vec::new();
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Vec::new();
        }
        match key.code {
            KeyCode::Char('q') => return vec![Effect::Leave(Outcome::Quit)],
            KeyCode::Esc => return self.escape(),
            KeyCode::Char('/') => self.mode = Mode::Filtering(Line::new(self.tasks.filter())),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help { scroll: 0 },
            KeyCode::Char('A') => self.tasks.toggle_closed(),
            KeyCode::Char('n') => {
                let form = self.draft.take().filter(|form| form.task.is_none());
                self.mode = Mode::Filling(form.unwrap_or_else(|| Box::new(Form::new())));
            }
            KeyCode::Char('i') => self.move_in_inbox(0),
            KeyCode::Enter => return self.act(ENTER),
            KeyCode::Char(key) => return self.act(key),
            _ => {}
        }
        Vec::new()
    }

    /// Esc takes back one thing at a time, and leaves when there is nothing left to take back.
    fn escape(&mut self) -> Vec<Effect> {
        if self.notice.take().is_some() {
            return Vec::new();
        }
        if self.tasks.filter().is_empty() {
            return vec![Effect::Leave(Outcome::Quit)];
        }
        self.tasks.set_filter("");
        Vec::new()
    }

    /// Whether the key moved the selection.
    pub(super) fn moves(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_stacked = layout::is_stacked(self);
        // About as many cards as a screen has.
        let page = isize::try_from(self.panes().body.height / 4).unwrap_or(1).max(1);
        let mut by = |steps: isize| match is_stacked {
            true => self.tasks.select_through(steps),
            false => self.tasks.select_by(steps),
        };
        match key.code {
            KeyCode::Char('n') if control => by(1),
            KeyCode::Char('p') if control => by(-1),
            KeyCode::Char('f' | 'd') if control => by(page),
            KeyCode::Char('b' | 'u') if control => by(-page),
            KeyCode::Down => by(1),
            KeyCode::Up => by(-1),
            KeyCode::PageDown => by(page),
            KeyCode::PageUp => by(-page),
            KeyCode::Char('j') if !control => by(1),
            KeyCode::Char('k') if !control => by(-1),
            KeyCode::Home => by(isize::MIN),
            KeyCode::End => by(isize::MAX),
            KeyCode::Char('g') if !control => by(isize::MIN),
            KeyCode::Char('G') if !control => by(isize::MAX),
            KeyCode::Left | KeyCode::BackTab => self.sideways(-1, is_stacked),
            KeyCode::Right | KeyCode::Tab => self.sideways(1, is_stacked),
            KeyCode::Char('h') if !control => self.sideways(-1, is_stacked),
            KeyCode::Char('l') if !control => self.sideways(1, is_stacked),
            _ => return false,
        }
        true
    }

    fn sideways(&mut self, steps: isize, is_stacked: bool) {
        match is_stacked {
            true => self.tasks.select_full_column(steps),
            false => self.tasks.select_column(steps),
        }
    }

    /// Does what `key` stands for, if the selected task allows it.
    fn act(&mut self, key: char) -> Vec<Effect> {
        let Some(card) = self.tasks.selected() else { return Vec::new() };
        let Some(offer) = OFFERS.iter().find(|offer| offer.key == key) else { return Vec::new() };
        if !offer::allows(&card, offer.action) {
            let why = offer::refusal(&card, offer);
            self.problem(why);
            return Vec::new();
        }
        self.perform(card.task.id.to_string(), offer.action)
    }

    /// Does what a task allows.
    pub(super) fn perform(&mut self, id: String, action: Action) -> Vec<Effect> {
        self.notice = None;
        match action {
            Action::Open => return self.look(id, Subject::Detail),
            Action::Diff => return self.look(id, Subject::Diff),
            Action::Workflow => return self.look(id, Subject::Workflow),
            Action::Start => return self.ask(id, What::Start),
            Action::Approve => return self.ask(id, What::Approve),
            Action::Release => return self.ask(id, What::Release),
            Action::Unblock => return self.ask(id, What::Unblock),
            Action::Retry => return self.ask(id, What::Retry),
            Action::Attach => return self.ask(id, What::Attach),
            Action::Reject => self.say(id, Purpose::Reject, String::new()),
            Action::Block => self.say(id, Purpose::Block, String::new()),
            Action::Close => self.say(id, Purpose::Close, String::new()),
            Action::Delete => self.mode = Mode::Confirming { id, sure: Sure::Delete },
            Action::Cancel => self.mode = Mode::Confirming { id, sure: Sure::Cancel },
            Action::Edit => {
                let Some(card) = self.tasks.card(&id) else { return Vec::new() };
                // What was typed before and refused is still there.
                let is_of_it = |form: &&Form| form.task.as_ref().is_some_and(|task| task.id.to_string() == id);
                let draft = self.draft.as_deref().filter(is_of_it);
                self.mode = Mode::Filling(Box::new(draft.cloned().unwrap_or_else(|| Form::of(card.task))));
            }
        }
        Vec::new()
    }

    pub(super) fn look(&mut self, id: String, subject: Subject) -> Vec<Effect> {
        let columns = self.page_size().0;
        self.mode = Mode::Reading(Box::new(Page::new(id.clone(), subject, columns)));
        vec![Effect::Ask(Request { id, what: What::Look(subject) })]
    }

    fn filter(&mut self, mut line: Line, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => self.tasks.set_filter(""),
            KeyCode::Enter => {}
            // Moving through what is left is what one filters for.
            KeyCode::Down | KeyCode::Up | KeyCode::PageDown | KeyCode::PageUp | KeyCode::Tab | KeyCode::BackTab => {
                self.moves(key);
                self.mode = Mode::Filtering(line);
            }
            _ => {
                line.edit(key);
                self.tasks.set_filter(line.text());
                self.mode = Mode::Filtering(line);
            }
        }
        Vec::new()
    }

    fn saying(
        &mut self,
        id: String,
        purpose: Purpose,
        mut line: Line,
        inbox: Option<usize>,
        key: KeyEvent,
    ) -> Vec<Effect> {
        let is_missing = purpose == Purpose::Reject && line.text().trim().is_empty();
        let before = inbox.map_or(Mode::Browsing, |cursor| Mode::Inbox { cursor });
        match key.code {
            KeyCode::Esc => self.mode = before,
            KeyCode::Enter if is_missing => {
                self.problem("say what is wrong, for whoever tries again; Esc leaves it as it is".to_owned());
                self.mode = Mode::Saying { id, purpose, line, inbox };
            }
            KeyCode::Enter => {
                self.mode = before;
                return self.ask(id, purpose.what(line.text()));
            }
            _ => {
                line.edit(key);
                self.mode = Mode::Saying { id, purpose, line, inbox };
            }
        }
        Vec::new()
    }

    fn confirm(&mut self, id: String, sure: Sure, key: KeyEvent) -> Vec<Effect> {
        match (sure, key.code) {
            (Sure::Cancel, KeyCode::Char('y' | 'Y')) => self.ask(id, What::Cancel),
            (Sure::Delete, KeyCode::Char('y' | 'Y')) => self.ask(id, What::Delete { is_recursive: false }),
            (Sure::Delete, KeyCode::Char('A')) => self.ask(id, What::Delete { is_recursive: true }),
            _ => Vec::new(),
        }
    }

    fn fill(&mut self, mut form: Box<Form>, key: KeyEvent) -> Vec<Effect> {
        match form.key(key) {
            Step::Stays => self.mode = Mode::Filling(form),
            Step::Left if form.task.is_none() && !form.is_untouched() => {
                self.draft = Some(form);
                self.news("nothing was added; n goes on with what was typed".to_owned());
            }
            Step::Left => {}
            Step::Sent => {
                let Some(Request { id, what }) = form.request(self.repo.as_deref()) else {
                    self.news("nothing was changed".to_owned());
                    return Vec::new();
                };
                let asked = self.ask(id, what);
                // Until it is known to be good.
                self.draft = Some(form);
                return asked;
            }
        }
        Vec::new()
    }

    fn page_key(&mut self, mut page: Box<Page>, key: KeyEvent) -> Vec<Effect> {
        let height = self.page_size().1;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let at = page.scroll;
        match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Left => return self.turn_back(*page),
            KeyCode::Char('q' | 'h') if !control => return self.turn_back(*page),
            KeyCode::Down => page.scroll_to(at + 1, height),
            KeyCode::Up => page.scroll_to(at.saturating_sub(1), height),
            KeyCode::Char('j') => page.scroll_to(at + 1, height),
            KeyCode::Char('k') => page.scroll_to(at.saturating_sub(1), height),
            KeyCode::PageDown | KeyCode::Char(' ') => page.scroll_to(at + height.max(2) - 1, height),
            KeyCode::PageUp => page.scroll_to(at.saturating_sub(height.max(2) - 1), height),
            KeyCode::Char('f') if control => page.scroll_to(at + height.max(2) - 1, height),
            KeyCode::Char('b') if control => page.scroll_to(at.saturating_sub(height.max(2) - 1), height),
            KeyCode::Char('d') if control => page.scroll_to(at + height / 2, height),
            KeyCode::Char('u') if control => page.scroll_to(at.saturating_sub(height / 2), height),
            KeyCode::Home | KeyCode::Char('g') => page.scroll_to(0, height),
            KeyCode::End | KeyCode::Char('G') => page.scroll_to(usize::MAX, height),
            KeyCode::Char('?') => {
                self.mode = Mode::Help { scroll: 0 };
                return Vec::new();
            }
            // The page is about the selected task: what can be done with it can be done from here.
            KeyCode::Char(word) if !control => {
                self.tasks.select_task(&page.id);
                let is_here = self.tasks.is_selected(&page.id);
                let (before, effects) = (page, if is_here { self.act(word) } else { Vec::new() });
                match &mut self.mode {
                    Mode::Browsing => self.mode = Mode::Reading(before),
                    Mode::Reading(page) if page.subject != before.subject => page.from = Some(before.subject),
                    _ => {}
                }
                return effects;
            }
            _ => {}
        }
        self.mode = Mode::Reading(page);
        Vec::new()
    }

    fn turn_back(&mut self, page: Page) -> Vec<Effect> {
        match page.from {
            Some(subject) => self.look(page.id, subject),
            None => Vec::new(),
        }
    }

    fn help(&mut self, scroll: u16, key: KeyEvent) -> Vec<Effect> {
        let scroll = match key.code {
            KeyCode::Down | KeyCode::Char('j') => scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => scroll.saturating_add(self.size.height / 2),
            KeyCode::PageUp => scroll.saturating_sub(self.size.height / 2),
            _ => return Vec::new(),
        };
        self.mode = Mode::Help { scroll: scroll.min(view::help::last_scroll(self.size)) };
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        let in_one_line = text.replace(['\r', '\n'], " ");
        match &mut self.mode {
            Mode::Filtering(line) => {
                line.insert(&in_one_line);
                let filter = line.text().to_owned();
                self.tasks.set_filter(&filter);
            }
            Mode::Saying { line, .. } => line.insert(&in_one_line),
            Mode::Filling(form) => form.paste(text),
            // What is pasted is no command.
            Mode::Browsing | Mode::Confirming { .. } | Mode::Reading(_) | Mode::Inbox { .. } | Mode::Help { .. } => {}
        }
        Vec::new()
    }
}
