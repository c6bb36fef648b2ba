//! What the answering screen knows and shows. Pure: messages go in, effects come out; no I/O, no clock.

use coven_domain::Timestamp;
use coven_domain::question::{Question, QuestionAnswer};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::{Rect, Size};

use super::draft::Draft;
use super::layout::{MAX_NOTICE_LINES, Panes};
use super::page::Page;
use super::reply::Choosable;
use crate::chat::editor::Editor;
use crate::tui::text;
use crate::tui::view::Theme;

/// How long good news stays; a problem stays until it is dismissed or something else is done.
const NEWS_MILLIS: i64 = 6_000;
/// Who pauses for so long between two keys has seen what is on the screen.
const PAUSE_MILLIS: i64 = 300;

/// A set that waits, as far as the screen is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub id: String,
    pub questions: Vec<Question>,
    pub asked_at: Timestamp,
    /// Where the asking program works.
    pub folder: Option<String>,
    /// The session of coven that asks.
    pub session: Option<String>,
}

impl Asked {
    /// What a person calls it.
    pub fn title(&self) -> String {
        let titles: Vec<&str> = self.questions.iter().map(|question| question.title.as_str()).collect();
        titles.join(", ")
    }
}

/// What the folder has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The first look at the folder is complete.
    Listed { broken: usize },
    /// A set waits for an answer; its draft, if there is one.
    Asked { asked: Asked, draft: Option<Draft> },
    /// A set waits no more; how it ended, as a person says it.
    Finished { id: String, how: &'static str },
    /// What became of our answer or rejection.
    Sent { id: String, what: Sending, result: Result<(), String> },
    /// The folder cannot be watched or read.
    Trouble(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    Answers,
    Rejection,
}

#[derive(Debug)]
pub enum Message {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resized(Size),
    Clock,
    Report(Report),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Answer {
        id: String,
        answers: Vec<QuestionAnswer>,
    },
    Reject {
        id: String,
        reason: Option<String>,
    },
    KeepDraft {
        id: String,
        draft: Draft,
    },
    DropDraft(String),
    Bell,
    /// Draw everything again, for a terminal that something else has written on.
    Redraw,
    /// Stop until the shell continues us.
    Suspend,
    Leave,
}

/// A set of the queue with what was decided about it.
#[derive(Debug)]
pub struct Waiting {
    pub asked: Asked,
    pub draft: Draft,
    /// The draft as it was last kept.
    kept: Draft,
    /// The row of each question that the next key is about.
    pub cursors: Vec<usize>,
    pub is_sending: bool,
}

impl Waiting {
    pub(super) fn new(asked: Asked, draft: Option<Draft>) -> Self {
        let draft = draft.unwrap_or_default().fitted(&asked.questions);
        let mut waiting = Self { kept: draft.clone(), draft, cursors: Vec::new(), asked, is_sending: false };
        waiting.rest_cursors();
        waiting
    }

    /// Puts every cursor on what is chosen, so that Enter does not choose something else.
    pub(super) fn rest_cursors(&mut self) {
        let questions = self.asked.questions.iter().zip(&self.draft.replies);
        let chosen = questions.map(|(question, reply)| {
            Choosable::of(question).iter().position(|what| reply.is_chosen(*what)).unwrap_or(0)
        });
        self.cursors = chosen.collect();
    }

    /// The question on the screen; nothing where the answers are reviewed.
    pub fn question(&self) -> Option<(usize, &Question)> {
        let place = self.draft.question;
        self.asked.questions.get(place).map(|question| (place, question))
    }

    pub fn answered(&self) -> usize {
        self.draft.replies.iter().filter(|reply| reply.is_given()).count()
    }
}

#[derive(Debug)]
pub enum Mode {
    Asking,
    /// The text of a row that has one.
    Typing {
        what: Choosable,
        editor: Editor,
    },
    /// Why the set is rejected.
    Rejecting(Editor),
    /// Which set to answer.
    Picking(usize),
    Quitting,
    Help {
        scroll: u16,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    News,
    Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
    shown_at: Timestamp,
}

#[derive(Debug)]
pub struct App {
    /// Oldest first.
    pub queue: Vec<Waiting>,
    /// Which one is on the screen.
    pub at: usize,
    pub mode: Mode,
    pub notice: Option<Notice>,
    pub trouble: Option<String>,
    pub is_complete: bool,
    pub now: Timestamp,
    pub size: Size,
    /// The first row of the page that is on the screen.
    pub offset: usize,
    /// The row under the cursor is to be brought onto the screen.
    pub(super) is_seeking: bool,
    /// A text was being typed for a set that has gone: its keys are still coming.
    pub(super) is_deaf: bool,
    last_key_at: Timestamp,
}

impl App {
    pub fn new(size: Size, now: Timestamp) -> Self {
        Self {
            queue: Vec::new(),
            at: 0,
            mode: Mode::Asking,
            notice: None,
            trouble: None,
            is_complete: false,
            now,
            size,
            offset: 0,
            is_seeking: false,
            is_deaf: false,
            last_key_at: Timestamp::from_millis(0),
        }
    }

    pub fn update(&mut self, message: Message, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        self.forget_old_news();
        let mut effects = match message {
            Message::Key(key) => {
                self.is_deaf &= self.is_typing_on();
                self.last_key_at = now;
                self.key(key)
            }
            Message::Paste(text) => self.paste(&text),
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Resized(size) => {
                self.size = size;
                // What is typed stays in view; elsewhere the place that is being read does.
                self.is_seeking = matches!(self.mode, Mode::Typing { .. });
                Vec::new()
            }
            Message::Clock => Vec::new(),
            Message::Report(report) => self.report(report),
        };
        effects.extend(self.changed_drafts());
        self.scroll_into_view();
        effects
    }

    /// Whatever changed a draft, it is kept.
    fn changed_drafts(&mut self) -> Vec<Effect> {
        let changed = self.queue.iter_mut().filter(|waiting| waiting.draft != waiting.kept);
        changed
            .map(|waiting| {
                waiting.kept = waiting.draft.clone();
                Effect::KeepDraft { id: waiting.asked.id.clone(), draft: waiting.draft.clone() }
            })
            .collect()
    }

    fn forget_old_news(&mut self) {
        let is_old = |notice: &Notice| {
            notice.tone == Tone::News && self.now.as_millis() - notice.shown_at.as_millis() >= NEWS_MILLIS
        };
        if self.notice.as_ref().is_some_and(is_old) {
            self.notice = None;
        }
    }

    pub(super) fn place(&self, id: &str) -> Option<usize> {
        self.queue.iter().position(|waiting| waiting.asked.id == id)
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf && self.is_typing_on()
    }

    pub(super) fn is_typing_on(&self) -> bool {
        self.now.as_millis() - self.last_key_at.as_millis() < PAUSE_MILLIS
    }

    pub fn current(&self) -> Option<&Waiting> {
        self.queue.get(self.at)
    }

    pub(super) fn current_mut(&mut self) -> Option<&mut Waiting> {
        self.queue.get_mut(self.at)
    }

    pub(super) fn news(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { tone: Tone::News, text: text.into(), shown_at: self.now });
    }

    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { tone: Tone::Problem, text: text.into(), shown_at: self.now });
    }

    pub fn notice_lines(&self) -> Vec<String> {
        let columns = usize::from(self.size.width.saturating_sub(2));
        self.notice.as_ref().map(|notice| text::wrap(&notice.text, columns, MAX_NOTICE_LINES)).unwrap_or_default()
    }

    pub fn panes(&self) -> Panes {
        Panes::of(Rect::from((ratatui::layout::Position::ORIGIN, self.size)), self.notice_lines().len())
    }

    pub fn page(&self, theme: Theme) -> Page {
        Page::of(self, self.panes().columns(), theme)
    }

    fn scroll_into_view(&mut self) {
        let height = usize::from(self.panes().body.height).max(1);
        let page = self.page(Theme::Plain);
        if let Some(focus) = page.focus.clone().filter(|_| self.is_seeking) {
            // What does not fit is seen from its beginning.
            let last = (focus.end - 1).max(focus.start);
            self.offset = self.offset.max((last + 1).saturating_sub(height)).min(focus.start);
        }
        self.is_seeking = false;
        self.offset = self.offset.min(page.lines.len().saturating_sub(height));
    }
}
