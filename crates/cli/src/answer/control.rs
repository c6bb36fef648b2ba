//! What keys do. Esc takes back one level at a time and never throws anything away.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::entry::editor_with;
use super::reply::Choosable;
use super::state::{App, Effect, Mode};
use crate::tui::view::Theme;

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return vec![Effect::Leave],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                KeyCode::Char('z') => return vec![Effect::Suspend],
                _ => {}
            }
        }
        if self.is_deaf() {
            return Vec::new();
        }
        match std::mem::replace(&mut self.mode, Mode::Asking) {
            Mode::Asking => self.asking(key),
            Mode::Typing { what, editor } => self.typing(what, editor, key),
            Mode::Rejecting(editor) => self.rejecting(editor, key),
            Mode::Picking(row) => self.picking(row, key),
            Mode::Quitting => match key.code {
                KeyCode::Char('y' | 'Y' | 'q') | KeyCode::Enter => vec![Effect::Leave],
                _ => Vec::new(),
            },
            Mode::Help { scroll } => self.help(scroll, key),
        }
    }

    fn asking(&mut self, key: KeyEvent) -> Vec<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('s') if control => self.open_picker(),
            KeyCode::Char('n') if control => self.move_by(1),
            KeyCode::Char('p') if control => self.move_by(-1),
            KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => {}
            KeyCode::Char('q') => return vec![Effect::Leave],
            KeyCode::Esc => return self.escape(),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help { scroll: 0 },
            KeyCode::Char('s') => self.open_picker(),
            KeyCode::Char('[') => self.switch_by(-1),
            KeyCode::Char(']') => self.switch_by(1),
            KeyCode::Char('x') => self.open_rejection(),
            KeyCode::Char('v') => self.go_to(usize::MAX),
            KeyCode::Right | KeyCode::Tab | KeyCode::Char('l') => self.step(1),
            KeyCode::Left | KeyCode::BackTab | KeyCode::Char('h') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Home => self.move_by(isize::MIN),
            KeyCode::End => self.move_by(isize::MAX),
            KeyCode::PageDown => self.scroll_by(self.page_rows()),
            KeyCode::PageUp => self.scroll_by(-self.page_rows()),
            KeyCode::Char('R') => self.recommended_everywhere(),
            KeyCode::Enter => return self.enter(),
            _ if self.question().is_none() => {
                if let KeyCode::Char(digit @ '1'..='9') = key.code {
                    self.go_to(usize::from(digit as u8 - b'1'));
                }
            }
            KeyCode::Char(' ') => self.choose_under_cursor(),
            KeyCode::Char('r') => self.recommended(),
            KeyCode::Char('o') => self.act(Choosable::Other),
            KeyCode::Char('e') => self.act(Choosable::Elaboration),
            KeyCode::Char('0') => self.act(Choosable::Nothing),
            KeyCode::Char(digit @ '1'..='9') => self.act(Choosable::Option(usize::from(digit as u8 - b'1'))),
            _ => {}
        }
        Vec::new()
    }

    fn escape(&mut self) -> Vec<Effect> {
        if self.notice.take().is_some() {
            return Vec::new();
        }
        match self.current() {
            None => return vec![Effect::Leave],
            Some(waiting) if waiting.question().is_none() => self.step(-1),
            Some(_) => self.mode = Mode::Quitting,
        }
        Vec::new()
    }

    fn page_rows(&self) -> isize {
        isize::try_from(self.panes().body.height.max(2) - 1).unwrap_or(1)
    }

    /// What can be chosen on the page, and the row under the cursor.
    pub(super) fn question(&self) -> Option<(Vec<Choosable>, usize)> {
        let waiting = self.current()?;
        let (place, question) = waiting.question()?;
        Some((Choosable::of(question), waiting.cursors[place]))
    }

    fn open_picker(&mut self) {
        if !self.queue.is_empty() {
            self.mode = Mode::Picking(self.at);
        }
    }

    fn open_rejection(&mut self) {
        let Some(waiting) = self.current().filter(|waiting| !waiting.is_sending) else { return };
        self.mode = Mode::Rejecting(editor_with(&waiting.draft.reason));
    }

    fn switch_by(&mut self, by: isize) {
        if !self.queue.is_empty() {
            let count = isize::try_from(self.queue.len()).unwrap_or(1);
            let at = (isize::try_from(self.at).unwrap_or(0) + by).rem_euclid(count);
            self.switch_to(usize::try_from(at).unwrap_or(0));
        }
    }

    pub(super) fn switch_to(&mut self, at: usize) {
        self.at = at.min(self.queue.len().saturating_sub(1));
        self.offset = 0;
        self.notice = None;
    }

    /// To a question, or to the review behind the last one.
    pub(super) fn go_to(&mut self, place: usize) {
        if let Some(waiting) = self.current_mut() {
            waiting.draft.question = place.min(waiting.asked.questions.len());
            waiting.rest_cursors();
            self.offset = 0;
            self.notice = None;
        }
    }

    pub(super) fn step(&mut self, by: isize) {
        if let Some(waiting) = self.current() {
            self.go_to(waiting.draft.question.saturating_add_signed(by));
        }
    }

    /// To another row; on the review, which has none, through the page.
    fn move_by(&mut self, by: isize) {
        let Some((rows, cursor)) = self.question() else { return self.scroll_by(by) };
        self.put_cursor(cursor.saturating_add_signed(by).min(rows.len() - 1));
    }

    pub(super) fn put_cursor(&mut self, row: usize) {
        if let Some(waiting) = self.current_mut() {
            let place = waiting.draft.question;
            waiting.cursors[place] = row;
            self.is_seeking = true;
        }
    }

    pub(super) fn scroll_by(&mut self, by: isize) {
        self.offset = self.offset.saturating_add_signed(by);
    }

    /// Whether the row under the cursor is seen: nobody chooses what is not. It is from now on.
    fn sees_cursor(&mut self) -> bool {
        self.is_seeking = true;
        let height = usize::from(self.panes().body.height).max(1);
        self.page(Theme::Plain).focus.is_none_or(|focus| (self.offset..self.offset + height).contains(&focus.start))
    }

    fn choose_under_cursor(&mut self) {
        if !self.sees_cursor() {
            return;
        }
        if let Some((rows, cursor)) = self.question() {
            self.act(rows[cursor]);
        }
    }

    /// Chooses a row, or opens its text.
    pub(super) fn act(&mut self, what: Choosable) {
        let Some((rows, _)) = self.question() else { return };
        let Some(row) = rows.iter().position(|row| *row == what) else { return };
        self.notice = None;
        self.put_cursor(row);
        let Some(waiting) = self.current_mut().filter(|waiting| !waiting.is_sending) else { return };
        let place = waiting.draft.question;
        let (question, reply) = (&waiting.asked.questions[place], &mut waiting.draft.replies[place]);
        match what {
            Choosable::Other | Choosable::Elaboration => {
                let editor = editor_with(reply.text(what));
                self.mode = Mode::Typing { what, editor };
            }
            Choosable::Option(_) | Choosable::Nothing => reply.choose(question, what),
        }
    }

    /// Goes on: with the row under the cursor on a single choice, with what is marked on a multiple one.
    fn enter(&mut self) -> Vec<Effect> {
        let Some((rows, cursor)) = self.question() else { return self.send() };
        if !self.sees_cursor() {
            return Vec::new();
        }
        let what = rows[cursor];
        let Some(waiting) = self.current() else { return Vec::new() };
        let (place, question) = waiting.question().expect("it was just looked at");
        let (is_multiple, reply) = (question.multi_select, &waiting.draft.replies[place]);
        match what {
            Choosable::Other | Choosable::Elaboration => self.act(what),
            Choosable::Nothing if !reply.is_chosen(what) => {
                self.act(what);
                self.step(1);
            }
            _ if is_multiple && !reply.is_given() => {
                self.news("nothing is marked: Space marks a row, 0 says none of them, → goes on without an answer");
            }
            _ if is_multiple => self.step(1),
            _ => {
                self.act(what);
                self.step(1);
            }
        }
        Vec::new()
    }

    pub(super) fn send(&mut self) -> Vec<Effect> {
        let now = self.now;
        let Some(waiting) = self.current_mut().filter(|waiting| !waiting.is_sending) else { return Vec::new() };
        let replies = waiting.draft.replies.iter();
        if let Some(missing) = replies.clone().position(|reply| !reply.is_given()) {
            self.go_to(missing);
            self.problem("this question has no answer yet");
            return Vec::new();
        }
        let answers = replies.zip(&waiting.asked.questions).enumerate();
        let answers = answers.filter_map(|(place, (reply, question))| reply.answer(place, question, now)).collect();
        waiting.is_sending = true;
        let id = waiting.asked.id.clone();
        self.notice = None;
        vec![Effect::Answer { id, answers }]
    }

    fn recommended(&mut self) {
        let Some(waiting) = self.current_mut().filter(|waiting| !waiting.is_sending) else { return };
        let place = waiting.draft.question;
        let question = &waiting.asked.questions[place];
        if waiting.draft.replies[place].choose_recommended(question) {
            let row = question.options.iter().position(|option| option.is_recommended());
            self.put_cursor(row.unwrap_or(0));
            self.notice = None;
        } else {
            self.news("nothing is recommended here");
        }
    }

    /// What has an answer keeps it.
    fn recommended_everywhere(&mut self) {
        let Some(waiting) = self.current_mut().filter(|waiting| !waiting.is_sending) else { return };
        let mut chosen = 0;
        for (question, reply) in waiting.asked.questions.iter().zip(&mut waiting.draft.replies) {
            chosen += usize::from(!reply.is_given() && reply.choose_recommended(question));
        }
        if chosen == 0 {
            self.news("nothing is recommended for the questions without an answer");
            return;
        }
        self.go_to(usize::MAX);
        let questions = if chosen == 1 { "one question" } else { &format!("{chosen} questions") };
        self.news(format!("took what is recommended for {questions}"));
    }
}
