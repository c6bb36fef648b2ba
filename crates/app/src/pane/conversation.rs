//! The conversation of an ACP session: its messages, and an editor for the next prompt.

mod draw;
mod entry;
mod settings;
#[cfg(test)]
mod tests;
mod tool;
mod transcript;

use std::collections::VecDeque;

use coven_api::acp_state::AcpStateRecord;
use coven_api::event::{EventRecord, MessagePayload};
use coven_api::message::{MessageRecord, MessagesQuery, MessagesResponse};
use coven_domain::message::{Activity, Role};
use coven_domain::session::SessionState;
use coven_domain::{SessionId, Timestamp};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;

use self::settings::Choice;
use self::transcript::{PAGE, Transcript};
use crate::app::{Effect, PaneResult};
use crate::feed::{Answer, Call};
use crate::frame::editor::{Edited, Editor};
use crate::world::World;

/// Messages of one request for what was missed.
const MISSED_PAGE: usize = 1_000;
/// How long a failed read waits for the next attempt.
const RETRY_MILLIS: i64 = 5_000;
/// The agent's state is read this often during a turn: its mode and its use of tokens have no events.
const STATE_MILLIS: i64 = 3_000;
/// Prompts that wait for the daemon's answer.
const MAX_SENDING: usize = 20;

pub struct ConversationPane {
    session: SessionId,
    now: Timestamp,
    transcript: Transcript,
    editor: Editor,
    /// Prompts that the daemon has not accepted yet, oldest first; only the first is on its way, so that they keep their order.
    sending: VecDeque<String>,
    /// All that is not accepted, while something is being sent.
    unsent: String,
    state: Option<AcpStateRecord>,
    is_turn_running: bool,
    is_cancelling: bool,
    /// The request for the newest messages, or for those that were missed.
    reading: Option<MessagesQuery>,
    reading_older: Option<MessagesQuery>,
    wants_older: bool,
    is_loaded: bool,
    /// The greatest number of a message that an event announced.
    announced: u64,
    is_reading_state: bool,
    /// The state changed after it was asked for.
    is_state_stale: bool,
    state_read_at: Timestamp,
    /// The state is read again after a setting was changed: the agent confirms it later.
    is_setting_changed: bool,
    retry_at: Option<Timestamp>,
    read_problem: Option<String>,
    /// Why the last thing the user did failed.
    problem: Option<String>,
    /// The selected row of the list of modes and options.
    chooser: Option<usize>,
}

impl ConversationPane {
    pub fn new(session: SessionId, now: Timestamp) -> (Self, Vec<Effect>) {
        let mut pane = Self {
            session,
            now,
            transcript: Transcript::default(),
            editor: Editor::multiline(""),
            sending: VecDeque::new(),
            unsent: String::new(),
            state: None,
            is_turn_running: false,
            is_cancelling: false,
            reading: None,
            reading_older: None,
            wants_older: false,
            is_loaded: false,
            announced: 0,
            is_reading_state: false,
            is_state_stale: false,
            state_read_at: now,
            is_setting_changed: false,
            retry_at: None,
            read_problem: None,
            problem: None,
            chooser: None,
        };
        let effects = pane.connected();
        (pane, effects)
    }

    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// What is typed and not sent yet; the app keeps it while the pane shows something else.
    pub fn draft(&self) -> &str {
        if self.sending.is_empty() { self.editor.text() } else { &self.unsent }
    }

    pub fn set_draft(&mut self, text: &str) {
        self.editor.set(text);
        self.keep_unsent();
    }

    pub fn key(&mut self, key: KeyEvent, _area: Rect, world: &World) -> PaneResult {
        self.problem = None;
        if let Some(at) = self.chooser {
            return self.chooser_key(key, at);
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = (self.transcript.height() - 1).max(1);
        match key.code {
            KeyCode::PageUp => return self.scroll_by(-page),
            KeyCode::PageDown => return self.scroll_by(page),
            KeyCode::Up if control => return self.scroll_by(-1),
            KeyCode::Down if control => return self.scroll_by(1),
            KeyCode::Char('o') if control => {
                self.transcript.is_unfolded ^= true;
                return done();
            }
            _ => {}
        }
        if self.end_note(world).is_some() {
            return match key.code {
                KeyCode::Up | KeyCode::Char('k') => self.scroll_by(-1),
                KeyCode::Down | KeyCode::Char('j') => self.scroll_by(1),
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => PaneResult::Left,
                _ => PaneResult::Notice("this session has ended; its conversation is read-only".to_owned()),
            };
        }
        match key.code {
            KeyCode::Char('t') if control => return self.open_chooser(),
            KeyCode::Char('c') if control => return self.cancel(),
            KeyCode::Esc if self.editor.is_empty() => return self.cancel(),
            _ => {}
        }
        let edited = self.editor.key(key);
        self.keep_unsent();
        match (edited, key.code) {
            (Edited::Entered, _) => self.send(),
            (Edited::Changed, _) => done(),
            // The cursor is in the first or the last line.
            (Edited::Ignored, KeyCode::Up) => self.scroll_by(-1),
            (Edited::Ignored, KeyCode::Down) => self.scroll_by(1),
            (Edited::Ignored, _) => PaneResult::Ignored,
        }
    }

    pub fn paste(&mut self, text: &str) {
        if self.chooser.is_none() {
            self.editor.insert(text);
            self.keep_unsent();
        }
    }

    /// The wheel was turned: negative is up.
    pub fn scroll(&mut self, rows: isize, _area: Rect) {
        // The next tick asks for older messages.
        self.wants_older |= self.transcript.scroll(rows);
    }

    fn scroll_by(&mut self, rows: isize) -> PaneResult {
        self.wants_older |= self.transcript.scroll(rows);
        PaneResult::Done(self.read_older())
    }

    fn send(&mut self) -> PaneResult {
        if self.editor.text().trim().is_empty() {
            return done();
        }
        if self.sending.len() >= MAX_SENDING {
            return PaneResult::Notice("the daemon has not accepted the earlier prompts; wait for it".to_owned());
        }
        let text = self.editor.take();
        self.sending.push_back(text.clone());
        self.keep_unsent();
        self.transcript.go_to_end();
        let is_first = self.sending.len() == 1;
        PaneResult::Done(is_first.then(|| self.prompt(text)).into_iter().collect())
    }

    fn prompt(&self, text: String) -> Effect {
        Effect::call(Call::Prompt { session: self.session, text })
    }

    /// Returns everything that was typed and not accepted.
    fn all_unsent(&self) -> String {
        let typed = Some(self.editor.text()).filter(|text| !text.is_empty());
        self.sending.iter().map(String::as_str).chain(typed).collect::<Vec<_>>().join("\n")
    }

    fn keep_unsent(&mut self) {
        if !self.sending.is_empty() {
            self.unsent = self.all_unsent();
        }
    }

    fn prompt_answered(&mut self, text: &str, result: &Result<Answer, String>) -> Vec<Effect> {
        if self.sending.front().is_none_or(|sending| sending != text) {
            return Vec::new();
        }
        if let Err(why) = result {
            let all = self.all_unsent();
            self.sending.clear();
            self.editor.set(&all);
            self.problem = Some(format!("not sent: {why}; Enter sends it again"));
            return Vec::new();
        }
        self.sending.pop_front();
        self.keep_unsent();
        self.sending.front().map(|next| self.prompt(next.clone())).into_iter().collect()
    }

    fn cancel(&mut self) -> PaneResult {
        if !self.is_turn_running {
            return PaneResult::Notice("no turn is running".to_owned());
        }
        if self.is_cancelling {
            return PaneResult::Notice("the agent was asked to cancel the turn and has not answered yet".to_owned());
        }
        self.is_cancelling = true;
        PaneResult::Done(vec![Effect::call(Call::CancelTurn(self.session))])
    }

    fn choices(&self) -> Vec<Choice> {
        self.state.as_ref().map(settings::choices).unwrap_or_default()
    }

    fn open_chooser(&mut self) -> PaneResult {
        let choices = self.choices();
        if choices.is_empty() {
            let why = if self.state.is_some() { "this agent offers no modes or models" } else { "not loaded yet" };
            return PaneResult::Notice(why.to_owned());
        }
        self.chooser = Some(choices.iter().position(|choice| choice.is_current).unwrap_or(0));
        PaneResult::Done(self.read_state())
    }

    fn chooser_key(&mut self, key: KeyEvent, at: usize) -> PaneResult {
        let choices = self.choices();
        let last = choices.len().saturating_sub(1);
        let chosen = match key.code {
            KeyCode::Up | KeyCode::Char('k') => {
                self.chooser = Some(at.saturating_sub(1));
                return done();
            }
            KeyCode::Down | KeyCode::Char('j') => {
                self.chooser = Some((at + 1).min(last));
                return done();
            }
            KeyCode::Char(digit @ '1'..='9') => digit as usize - '1' as usize,
            KeyCode::Enter => at.min(last),
            KeyCode::Esc | KeyCode::Char('t' | 'q') => {
                self.chooser = None;
                return done();
            }
            _ => return PaneResult::Ignored,
        };
        let Some(choice) = choices.get(chosen) else { return PaneResult::Ignored };
        self.chooser = None;
        let effect = (!choice.is_current).then(|| Effect::call(choice.call(self.session)));
        PaneResult::Done(effect.into_iter().collect())
    }

    pub fn event(&mut self, event: &EventRecord) -> Vec<Effect> {
        if event.subject != self.session.to_string() {
            return Vec::new();
        }
        match event.kind.as_str() {
            "message.added" | "message.chunk" => {
                let payload: Option<MessagePayload> = event.payload();
                return payload.map(|payload| self.message(payload.message)).unwrap_or_default();
            }
            "turn.started" => self.is_turn_running = true,
            "turn.ended" => self.turn_ended(),
            // Also when a permission is asked or answered, because the activity changes then.
            kind if kind.starts_with("session.") => {}
            _ => return Vec::new(),
        }
        self.read_state()
    }

    /// Applies the message if it is the next one; asks for what was missed before it.
    fn message(&mut self, message: MessageRecord) -> Vec<Effect> {
        self.announced = self.announced.max(message.number);
        if self.reading.is_some() || message.number <= self.transcript.seen {
            return Vec::new();
        }
        if !self.is_loaded || message.number > self.transcript.seen + 1 {
            return vec![self.read_messages()];
        }
        let is_prompt = message.role == Role::User;
        self.transcript.apply(message, self.is_turn_running);
        // It may have joined or left the queue.
        if is_prompt { self.read_state() } else { Vec::new() }
    }

    fn queued(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.queued)
    }

    fn turn_ended(&mut self) {
        (self.is_turn_running, self.is_cancelling) = (false, false);
        self.transcript.turn_ended();
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<Effect> {
        match call {
            Call::Messages { session, query } if *session == self.session => self.messages_answered(query, result),
            Call::AcpState(session) if *session == self.session => self.state_answered(result),
            Call::Prompt { session, text } if *session == self.session => self.prompt_answered(text, result),
            Call::CancelTurn(session) if *session == self.session => {
                if let Err(why) = result {
                    self.is_cancelling = false;
                    self.problem = Some(format!("cannot cancel the turn: {why}"));
                }
                Vec::new()
            }
            Call::Mode { session, .. } | Call::Option { session, .. } if *session == self.session => {
                if let Err(why) = result {
                    self.problem = Some(format!("cannot change the setting: {why}"));
                    return Vec::new();
                }
                self.is_setting_changed = true;
                self.read_state()
            }
            _ => Vec::new(),
        }
    }

    fn messages_answered(&mut self, query: &MessagesQuery, result: &Result<Answer, String>) -> Vec<Effect> {
        let is_older = self.reading_older.as_ref() == Some(query);
        if !is_older && self.reading.as_ref() != Some(query) {
            return Vec::new();
        }
        *(if is_older { &mut self.reading_older } else { &mut self.reading }) = None;
        let page = match result {
            Ok(Answer::Messages(page)) => page.clone(),
            Ok(_) => return Vec::new(),
            Err(why) => {
                self.failed_to_read("messages", why);
                return Vec::new();
            }
        };
        self.read_problem = None;
        if is_older {
            self.transcript.prepend(page.items);
            return Vec::new();
        }
        self.take_newest(page, query.after.is_none())
    }

    /// Takes the newest messages, or a page of those that were missed. Asks for more if there is more.
    fn take_newest(&mut self, page: MessagesResponse, is_first: bool) -> Vec<Effect> {
        let is_full = !is_first && page.items.len() >= MISSED_PAGE;
        let is_empty = page.items.is_empty();
        let seen = self.transcript.seen;
        if is_first {
            self.is_loaded = true;
            self.transcript.start(page.items);
        } else {
            let missed = page.items.into_iter().filter(|message| message.number > seen);
            missed.for_each(|message| self.transcript.apply(message, false));
        }
        let effects = if self.queued() > 0 { self.read_state() } else { Vec::new() };
        if is_empty {
            // What was announced is not stored any more.
            self.transcript.seen = self.transcript.seen.max(self.announced);
        }
        match is_full || self.announced > self.transcript.seen {
            true => effects.into_iter().chain([self.read_messages()]).collect(),
            false => effects,
        }
    }

    fn state_answered(&mut self, result: &Result<Answer, String>) -> Vec<Effect> {
        self.is_reading_state = false;
        match result {
            Ok(Answer::AcpState(state)) => {
                self.read_problem = None;
                // An event may have said something newer about the turn.
                if !self.is_state_stale {
                    self.is_turn_running = matches!(state.activity, Activity::Working | Activity::Waiting);
                    if !self.is_turn_running {
                        self.turn_ended();
                    }
                }
                self.transcript.set_queued(state.queued);
                self.state = Some((**state).clone());
            }
            Ok(_) => {}
            Err(why) => {
                self.failed_to_read("agent's state", why);
                return Vec::new();
            }
        }
        if std::mem::take(&mut self.is_state_stale) { self.read_state() } else { Vec::new() }
    }

    fn failed_to_read(&mut self, what: &str, why: &str) {
        self.read_problem = Some(format!("cannot read the {what}: {why}"));
        self.retry_at = Some(Timestamp::from_millis(self.now.as_millis().saturating_add(RETRY_MILLIS)));
    }

    /// A new connection was opened: events may have been missed.
    pub fn connected(&mut self) -> Vec<Effect> {
        self.retry_at = None;
        // An answer to an older request may be lost with its connection.
        (self.is_reading_state, self.reading_older) = (false, None);
        let mut effects = self.read_state();
        effects.push(self.read_messages());
        effects
    }

    fn read_state(&mut self) -> Vec<Effect> {
        if self.is_reading_state {
            self.is_state_stale = true;
            return Vec::new();
        }
        (self.is_reading_state, self.is_state_stale) = (true, false);
        self.state_read_at = self.now;
        vec![Effect::call(Call::AcpState(self.session))]
    }

    fn read_messages(&mut self) -> Effect {
        let after =
            MessagesQuery { after: Some(self.transcript.seen), limit: Some(MISSED_PAGE), ..MessagesQuery::default() };
        let query = if self.is_loaded { after } else { MessagesQuery::last(PAGE, None) };
        self.reading = Some(query.clone());
        Effect::call(Call::Messages { session: self.session, query })
    }

    /// Asks for a page of older messages if the user scrolled to the first one.
    fn read_older(&mut self) -> Vec<Effect> {
        let is_wanted = std::mem::take(&mut self.wants_older);
        if !is_wanted || self.reading_older.is_some() || !self.is_loaded || !self.transcript.takes_older() {
            return Vec::new();
        }
        let query = MessagesQuery::last(PAGE, Some(self.transcript.oldest));
        self.reading_older = Some(query.clone());
        vec![Effect::call(Call::Messages { session: self.session, query })]
    }

    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        if self.retry_at.is_some_and(|at| now >= at) {
            return self.connected();
        }
        let mut effects = self.read_older();
        let age = now.as_millis().saturating_sub(self.state_read_at.as_millis());
        let is_due = self.is_turn_running && age >= STATE_MILLIS;
        if (is_due || std::mem::take(&mut self.is_setting_changed)) && !self.is_reading_state {
            effects.extend(self.read_state());
        }
        effects
    }

    /// Says that the session has ended and how; `None` while it takes prompts.
    fn end_note(&self, world: &World) -> Option<String> {
        let Some(session) = world.session(self.session) else {
            return Some("session ended; read-only".to_owned());
        };
        match (session.status, session.exit_code) {
            (SessionState::Created | SessionState::Running, _) => None,
            (status, Some(code)) if code != 0 => Some(format!("session {status}, exit code {code}; read-only")),
            (status, _) => Some(format!("session {status}; read-only")),
        }
    }

    /// Hints for the last row of the app while the pane has the focus.
    pub fn hints(&self) -> String {
        if self.chooser.is_some() {
            return "1–9 or ↑↓ Enter choose  Esc close".to_owned();
        }
        if self.state.as_ref().is_some_and(|state| state.activity == Activity::Ended) {
            return "↑↓ PgUp PgDn scroll  ctrl-o tool calls  Esc back".to_owned();
        }
        let cancel = if self.is_turn_running { "  Esc cancel" } else { "" };
        format!("Enter send  ctrl-j newline{cancel}  ctrl-o tool calls  ctrl-t mode  PgUp PgDn scroll")
    }
}

const fn done() -> PaneResult {
    PaneResult::Done(Vec::new())
}
