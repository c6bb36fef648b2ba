//! What keys and the mouse do.

use coven_domain::session::Action;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::Outcome;
use super::line::Line;
use super::offer::{self, ENTER, EXPORT, OFFERS, Offer, RESUME};
use super::report::{Request, What};
use super::shelf;
use super::state::{App, Effect, Mode};
use crate::format::short_id;

/// The word that deletes.
pub const WORD: &str = "sacrifice";

const WHEEL_ROWS: usize = 3;

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
            Mode::Typing { id, line } => self.typing(id, line, key),
            Mode::Confirming { id, what } => self.confirm(id, what, key),
            Mode::Sacrificing { id, line } => self.sacrifice(id, line, key),
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
            KeyCode::Char('/') => self.mode = Mode::Filtering(Line::new(self.list.filter())),
            KeyCode::Char('?') | KeyCode::F(1) => self.mode = Mode::Help { scroll: 0 },
            KeyCode::Char('A') => return self.toggle_archived(),
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
        if self.list.filter().is_empty() {
            return vec![Effect::Leave(Outcome::Quit)];
        }
        self.list.set_filter("");
        Vec::new()
    }

    fn toggle_archived(&mut self) -> Vec<Effect> {
        let include_archived = !self.list.includes_archived();
        self.list.set_include_archived(include_archived);
        vec![Effect::Read { include_archived }]
    }

    /// Whether the key moved the selection.
    fn moves(&mut self, key: KeyEvent) -> bool {
        let page = isize::try_from(self.panes().list.height.max(2) - 1).unwrap_or(1);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Down => self.list.select_by(1),
            KeyCode::Up => self.list.select_by(-1),
            KeyCode::PageDown => self.list.select_by(page),
            KeyCode::PageUp => self.list.select_by(-page),
            KeyCode::Home => self.list.select(0),
            KeyCode::End => self.list.select(usize::MAX),
            KeyCode::Char('n') if control => self.list.select_by(1),
            KeyCode::Char('p') if control => self.list.select_by(-1),
            KeyCode::Char('d') if control => self.list.select_by(page / 2 + 1),
            KeyCode::Char('u') if control => self.list.select_by(-(page / 2 + 1)),
            KeyCode::Char('f') if control => self.list.select_by(page),
            KeyCode::Char('b') if control => self.list.select_by(-page),
            KeyCode::Char('j') => self.list.select_by(1),
            KeyCode::Char('k') => self.list.select_by(-1),
            KeyCode::Char('g') => self.list.select(0),
            KeyCode::Char('G') => self.list.select(usize::MAX),
            _ => return false,
        }
        true
    }

    /// Does what `key` stands for, if the selected session allows it.
    fn act(&mut self, key: char) -> Vec<Effect> {
        let Some(record) = self.selected() else { return Vec::new() };
        let id = record.id.clone();
        if record.kind == shelf::KIND {
            return self.act_on_conversation(id, key);
        }
        let Some(offer) = offer::offered(record, key) else {
            let refusal = refusal(&record.status, &offer::offers(record), key);
            if let Some(text) = refusal {
                self.problem(text);
            }
            return Vec::new();
        };
        if self.own_session.as_ref() == Some(&id) && matches!(offer.action, Action::Attach | Action::Replay) {
            self.problem(format!("{} is not possible: this browser runs in session {}", offer.word, short_id(&id)));
            return Vec::new();
        }
        self.notice = None;
        match offer.action {
            Action::Attach => return vec![Effect::Leave(Outcome::Attach(id))],
            Action::Replay if key == ENTER => return vec![Effect::Leave(Outcome::Attach(id))],
            Action::Replay => return vec![Effect::Leave(Outcome::Replay(id))],
            Action::Summon => return vec![Effect::Leave(Outcome::Summon(id))],
            Action::Start => {
                let (rows, cols) = (self.size.height, self.size.width);
                return self.ask(id, What::Start { rows, cols });
            }
            Action::Archive => return self.ask(id, What::Archive),
            Action::Input => {
                let line = Line::new(self.drafts.remove(&id).unwrap_or_default());
                self.mode = Mode::Typing { id, line };
            }
            Action::Finish => self.mode = Mode::Confirming { id, what: What::Finish },
            Action::Kill => self.mode = Mode::Confirming { id, what: What::Kill },
            Action::Sacrifice => self.mode = Mode::Sacrificing { id, line: Line::default() },
            Action::Export => {
                let id = short_id(&id);
                self.news(format!("coven export {id} --format asciicast --output {id}.cast (or text, html, jsonl)"));
            }
        }
        Vec::new()
    }

    fn act_on_conversation(&mut self, id: String, key: char) -> Vec<Effect> {
        self.notice = None;
        match key {
            key if key == RESUME.0 => return vec![Effect::Leave(Outcome::Resume(id))],
            key if key == EXPORT.0 => self.news(format!("coven export {id} --output {id}.html (or .txt, .jsonl)")),
            key => {
                if let Some(refused) = OFFERS.iter().find(|offer| offer.key == key) {
                    let word = refused.word;
                    self.problem(format!(
                        "{word} is not possible: conversations are only read here; possible now: resume, export"
                    ));
                }
            }
        }
        Vec::new()
    }

    fn ask(&mut self, id: String, what: What) -> Vec<Effect> {
        let request = Request { id, what };
        // A key pressed twice asks once, but a line may be sent twice.
        if self.pending.contains(&request) && !matches!(request.what, What::Input(_)) {
            return Vec::new();
        }
        let short = short_id(&request.id);
        match request.what {
            What::Input(_) => {}
            What::Start { .. } => self.news(format!("starting {short} …")),
            What::Finish => self.news(format!("asking {short} to end …")),
            What::Kill => self.news(format!("killing {short} …")),
            What::Archive => self.news(format!("archiving {short} …")),
            What::Sacrifice => self.news(format!("sacrificing {short} …")),
        }
        self.pending.push(request.clone());
        vec![Effect::Ask(request)]
    }

    /// Whether the session is there and still allows what a dialog is about; says so if not.
    fn still_allows(&mut self, id: &str, action: Action) -> bool {
        let is_allowed = self.list.find(id).is_some_and(|record| offer::allows(record, action));
        if !is_allowed {
            self.problem(format!("{action} is not possible any more: {} has changed meanwhile", short_id(id)));
        }
        is_allowed
    }

    fn filter(&mut self, mut line: Line, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => self.list.set_filter(""),
            KeyCode::Enter => {}
            // Moving through what is left is what one filters for.
            KeyCode::Down | KeyCode::Up | KeyCode::PageDown | KeyCode::PageUp => {
                self.moves(key);
                self.mode = Mode::Filtering(line);
            }
            _ => {
                line.edit(key);
                self.list.set_filter(line.text());
                self.mode = Mode::Filtering(line);
            }
        }
        Vec::new()
    }

    /// Enter sends the line and stays, so that one can talk to a session and see its screen.
    fn typing(&mut self, id: String, mut line: Line, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Esc => {
                if !line.is_empty() {
                    self.drafts.insert(id, line.text().to_owned());
                }
                Vec::new()
            }
            KeyCode::Enter => {
                if !self.still_allows(&id, Action::Input) {
                    self.drafts.insert(id, line.text().to_owned());
                    return Vec::new();
                }
                self.mode = Mode::Typing { id: id.clone(), line: Line::default() };
                self.notice = None;
                self.ask(id, What::Input(line.text().to_owned()))
            }
            _ => {
                line.edit(key);
                self.mode = Mode::Typing { id, line };
                Vec::new()
            }
        }
    }

    fn confirm(&mut self, id: String, what: What, key: KeyEvent) -> Vec<Effect> {
        let action = if what == What::Kill { Action::Kill } else { Action::Finish };
        match key.code {
            KeyCode::Char('y' | 'Y') if self.still_allows(&id, action) => self.ask(id, what),
            _ => Vec::new(),
        }
    }

    /// Only Enter after the very word deletes; Enter after anything else cancels.
    fn sacrifice(&mut self, id: String, mut line: Line, key: KeyEvent) -> Vec<Effect> {
        match key.code {
            KeyCode::Enter if line.text() == WORD => {
                if self.still_allows(&id, Action::Sacrifice) {
                    return self.ask(id, What::Sacrifice);
                }
            }
            KeyCode::Enter | KeyCode::Esc => self.news("nothing was deleted".to_owned()),
            _ => {
                line.edit(key);
                self.mode = Mode::Sacrificing { id, line };
            }
        }
        Vec::new()
    }

    fn help(&mut self, scroll: u16, key: KeyEvent) -> Vec<Effect> {
        let scroll = match key.code {
            KeyCode::Down | KeyCode::Char('j') => scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => scroll.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => scroll.saturating_add(self.size.height / 2),
            KeyCode::PageUp => scroll.saturating_sub(self.size.height / 2),
            _ => return Vec::new(),
        };
        self.mode = Mode::Help { scroll: scroll.min(super::view::help::last_scroll(self.size)) };
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        match &mut self.mode {
            Mode::Filtering(line) => {
                line.insert(&text.replace(['\r', '\n'], " "));
                let filter = line.text().to_owned();
                self.list.set_filter(&filter);
            }
            // Line ends inside what is pasted are sent as they are.
            Mode::Typing { line, .. } => line.insert(text),
            // The word has to be typed.
            Mode::Sacrificing { .. } | Mode::Browsing | Mode::Confirming { .. } | Mode::Help { .. } => {}
        }
        Vec::new()
    }

    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        if !matches!(self.mode, Mode::Browsing | Mode::Filtering(_)) {
            return Vec::new();
        }
        let list = self.panes().list;
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) if list.contains(Position::new(mouse.column, mouse.row)) => {
                let place = self.offset + usize::from(mouse.row - list.y);
                if place < self.list.len() {
                    self.list.select(place);
                }
            }
            MouseEventKind::ScrollDown => self.scroll_to(self.offset.saturating_add(WHEEL_ROWS)),
            MouseEventKind::ScrollUp => self.scroll_to(self.offset.saturating_sub(WHEEL_ROWS)),
            _ => {}
        }
        Vec::new()
    }

    /// Scrolls the list; the selection is taken along at its edges.
    fn scroll_to(&mut self, offset: usize) {
        let height = usize::from(self.panes().list.height).max(1);
        let offset = offset.min(self.list.len().saturating_sub(height));
        self.offset = offset;
        self.list.select(self.list.cursor().clamp(offset, offset + height - 1));
    }
}

/// Why a key of the menu does nothing now; nothing if it is none.
fn refusal(status: &str, offers: &[Offer], key: char) -> Option<String> {
    let refused = OFFERS.iter().find(|offer| offer.key == key)?;
    let words: Vec<&str> = offers.iter().map(|offer| offer.word).collect();
    let possible = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    Some(format!("{} is not possible: the status is {status}; possible now: {possible}", refused.word))
}
