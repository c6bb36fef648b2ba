//! What the chat knows, and what becomes of it when something happens. Pure: time comes in as an argument.

use std::time::{Duration, Instant};

use coven_api::SessionRecord;
use coven_api::acp_state::AcpStateRecord;
use coven_api::inbox::{InboxItem, InboxKind};
use coven_api::message::MessageRecord;
use coven_domain::MessageId;
use coven_domain::message::{Activity, Role};
use crossterm::event::KeyEvent;

use super::content;
use super::editor::Editor;
use super::question::Questions;
use super::report::{Answer, Report, Request};
use super::row::Row;
use super::settings;
use super::transcript::Transcript;
use crate::format;

/// How long after the first Ctrl-C a second one leaves.
pub const TWICE_WITHIN: Duration = Duration::from_secs(2);

pub enum Message {
    Key(KeyEvent),
    Paste(String),
    Resized { columns: usize, rows: usize },
    Report(Report),
    Tick,
}

#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Rows for the terminal's history.
    Print(Vec<Row>),
    Ask(Request),
    Leave(Leaving),
    /// Ring for something new.
    Bell,
    /// Draw everything on a clear screen.
    Redraw,
    Suspend,
}

/// Why the chat is left.
#[derive(Debug, Clone, PartialEq)]
pub enum Leaving {
    /// The session goes on.
    Left,
    Over(Box<SessionRecord>),
    Refused(String),
}

/// What was sent and has not come back as a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Echo {
    pub text: String,
    pub message_id: Option<MessageId>,
}

pub struct App {
    pub record: SessionRecord,
    pub columns: usize,
    pub rows: usize,
    pub is_read_only: bool,
    pub transcript: Transcript,
    pub editor: Editor,
    pub agent: AcpStateRecord,
    pub questions: Questions,
    /// Why the daemon is away.
    pub lost: Option<String>,
    pub echoes: Vec<Echo>,
    /// Prompts that the session has and that wait for the turn to end.
    pub held: Vec<MessageRecord>,
    pub is_cancelling: bool,
    pub turn_began: Option<Instant>,
    pub now: Instant,
    /// Until when another Ctrl-C leaves.
    pub leaves_until: Option<Instant>,
    told_usage: Option<String>,
}

impl App {
    pub fn new(record: SessionRecord, transcript: Transcript, rows: usize, now: Instant) -> Self {
        Self {
            record,
            columns: transcript.columns(),
            rows,
            is_read_only: false,
            transcript,
            editor: Editor::default(),
            agent: AcpStateRecord::new(Activity::Idle),
            questions: Questions::default(),
            lost: None,
            echoes: Vec::new(),
            held: Vec::new(),
            is_cancelling: false,
            turn_began: None,
            now,
            leaves_until: None,
            told_usage: None,
        }
    }

    pub fn update(&mut self, message: Message, now: Instant) -> Vec<Effect> {
        self.now = now;
        if self.leaves_until.is_some_and(|until| now >= until) {
            self.leaves_until = None;
        }
        match message {
            Message::Key(key) => self.key(key),
            Message::Paste(text) => {
                if !self.is_read_only {
                    self.editor.paste(&text);
                }
                Vec::new()
            }
            Message::Resized { columns, rows } => {
                (self.columns, self.rows) = (columns, rows);
                self.transcript.set_columns(columns);
                Vec::new()
            }
            Message::Report(report) => self.report(report),
            Message::Tick => Vec::new(),
        }
    }

    pub fn is_turn_running(&self) -> bool {
        is_turn(self.agent.activity)
    }

    fn report(&mut self, report: Report) -> Vec<Effect> {
        match report {
            Report::Connected => {
                self.lost = None;
                Vec::new()
            }
            Report::Lost(why) => {
                self.lost = Some(why);
                Vec::new()
            }
            Report::Message(message) => self.message(*message),
            Report::State(state) => self.state(*state),
            Report::Questions { pending, settled } => {
                let notes = self.questions.update(pending, settled, self.now);
                self.notes(notes)
            }
            Report::Waits(item) => {
                let mut effects = vec![Effect::Bell];
                effects.extend(self.notes(self.elsewhere(&item).into_iter().collect()));
                effects
            }
            Report::Ended(record) => {
                let mut rows = self.release_all();
                rows.extend(self.transcript.end_turn());
                vec![Effect::Print(rows), Effect::Leave(Leaving::Over(record))]
            }
            Report::Refused(why) => vec![Effect::Leave(Leaving::Refused(why))],
            Report::Answered { request, answer } => self.answered(request, answer),
        }
    }

    /// What to say about something that waits and is not asked in this chat itself.
    fn elsewhere(&self, item: &InboxItem) -> Option<String> {
        let (title, short) = (format::sanitize_line(&item.title), format::short_id(&item.id));
        let is_ours = item.session_id == Some(self.record.id);
        let asker = match (is_ours, item.harness.as_deref()) {
            (true, _) => "the agent",
            (false, Some(harness)) => harness,
            (false, None) => "somebody",
        };
        match item.kind {
            InboxKind::Permission if is_ours => None,
            InboxKind::QuestionSet | InboxKind::Question => {
                Some(format!("{asker} asks: {title} — coven answer ({short})"))
            }
            _ => Some(format!("{asker} asks: {title} — coven inbox show {short}")),
        }
    }

    fn message(&mut self, message: MessageRecord) -> Vec<Effect> {
        if message.role != Role::User {
            let mut rows = self.transcript.take(&message);
            if !self.transcript.is_writing() {
                rows.extend(self.release());
            }
            return vec![Effect::Print(rows)];
        }
        let text = content::prompt(&message).unwrap_or_default();
        let is_it = |echo: &Echo| {
            echo.text == text || echo.message_id.is_some_and(|id| id == message.message_id || id == message.id)
        };
        if let Some(place) = self.echoes.iter().position(is_it) {
            self.echoes.remove(place);
        }
        // A prompt that was queued is told again when it comes up.
        if let Some(place) = self.held.iter().position(|held| held.message_id == message.message_id) {
            self.held.remove(place);
            return vec![Effect::Print(self.transcript.take(&message))];
        }
        // A prompt that waits is shown when its turn comes: it must not fall into the answer to another.
        if self.transcript.is_writing() || (self.is_turn_running() && self.agent.queued > self.held.len()) {
            self.held.push(message);
            return Vec::new();
        }
        vec![Effect::Print(self.transcript.take(&message))]
    }

    /// Shows the prompts whose turn has come.
    fn release(&mut self) -> Vec<Row> {
        let waiting = self.agent.queued.min(self.held.len());
        let released: Vec<MessageRecord> = self.held.drain(..self.held.len() - waiting).collect();
        released.iter().flat_map(|message| self.transcript.take(message)).collect()
    }

    fn release_all(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.held).iter().flat_map(|message| self.transcript.take(message)).collect()
    }

    fn state(&mut self, state: AcpStateRecord) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.agent, state);
        let (was_running, is_running) = (is_turn(before.activity), self.is_turn_running());
        let mut rows = Vec::new();
        for note in settings::changes(&before, &self.agent) {
            rows.extend(self.transcript.note(&note));
        }
        let next_began = was_running && is_running && self.agent.queued < before.queued;
        if (was_running && !is_running) || next_began {
            rows.extend(self.transcript.end_turn());
            rows.extend(self.usage_note());
            self.is_cancelling = false;
            self.turn_began = None;
        }
        if is_running && self.turn_began.is_none() {
            self.turn_began = Some(self.now);
        }
        rows.extend(self.release());
        vec![Effect::Print(rows)]
    }

    /// Once per turn, if it tells something new.
    fn usage_note(&mut self) -> Vec<Row> {
        let usage = settings::usage(&self.agent);
        if usage.is_none() || usage == self.told_usage {
            return Vec::new();
        }
        self.told_usage.clone_from(&usage);
        self.transcript.note(&usage.unwrap_or_default())
    }

    fn answered(&mut self, request: Request, answer: Result<Answer, String>) -> Vec<Effect> {
        match (request, answer) {
            (Request::Prompt(text), Ok(Answer::Accepted(id))) => {
                // Mostly the message was here first and there is no echo any more.
                if let Some(echo) = self.echoes.iter_mut().find(|echo| echo.text == text) {
                    echo.message_id = Some(id);
                }
                Vec::new()
            }
            (Request::Prompt(text), Err(why)) => {
                self.echoes.retain(|echo| echo.text != text || echo.message_id.is_some());
                // What was typed is not lost: it stands there again, or is one key away.
                if self.editor.is_empty() {
                    self.editor.set(text);
                }
                vec![Effect::Print(self.transcript.problem(&format!("not sent: {why}")))]
            }
            (Request::Answer { question, .. }, answer) => {
                let notes = self.questions.answered(&question, answer, self.now);
                self.notes(notes)
            }
            (Request::Cancel, Err(why)) => {
                self.is_cancelling = false;
                vec![Effect::Print(self.transcript.problem(&why))]
            }
            (_, Err(why)) => vec![Effect::Print(self.transcript.problem(&why))],
            (_, Ok(_)) => Vec::new(),
        }
    }

    pub(super) fn notes(&mut self, notes: Vec<String>) -> Vec<Effect> {
        let rows: Vec<Row> = notes.iter().flat_map(|note| self.transcript.note(note)).collect();
        if rows.is_empty() { Vec::new() } else { vec![Effect::Print(rows)] }
    }

    /// How to come back, for who has left.
    pub fn way_back(record: &SessionRecord) -> String {
        let (title, short) = (format::sanitize_line(&record.title), record.id.short());
        format!("[left {title}; the session goes on — coven chat {short}]")
    }
}

pub fn is_turn(activity: Activity) -> bool {
    matches!(activity, Activity::Working | Activity::Waiting)
}
