//! What the browser knows and shows. Pure: messages go in, effects come out; no I/O, no clock.

use std::collections::BTreeMap;

use super::item::Item;
use coven_domain::Timestamp;
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::{Rect, Size};

use super::layout::{MAX_NOTICE_LINES, Panes};
use super::line::Line;
use super::list::SessionList;
use super::preview::Picture;
use super::report::{Report, Request, Watched, What};
use super::{BrowseOptions, Outcome, shelf, text};
use crate::format::{sanitize_line, short_id};

/// How long good news stays; a problem stays until it is dismissed or something else is done.
const NEWS_MILLIS: i64 = 6_000;

#[derive(Debug)]
pub enum Message {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resized(Size),
    Clock(Timestamp),
    /// All that was waiting: the list is worked out once for all of them.
    Reports(Vec<Report>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Ask(Request),
    /// Show this session's screen from now on.
    Watch(Option<Watched>),
    /// Show the end of this conversation, in so many columns.
    Recall {
        id: String,
        columns: usize,
    },
    /// Read the list anew, with or without the archived sessions.
    Read {
        include_archived: bool,
    },
    /// Ring for something new.
    Bell,
    /// Draw everything again, for a terminal that something else has written on.
    Redraw,
    /// Stop until the shell continues us.
    Suspend,
    Leave(Outcome),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    Browsing,
    Filtering(Line),
    /// A line for the session's terminal.
    Typing {
        id: String,
        line: Line,
    },
    /// `y` does it.
    Confirming {
        id: String,
        what: What,
    },
    /// Only the typed word does it.
    Sacrificing {
        id: String,
        line: Line,
    },
    Help {
        scroll: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Connecting,
    Live,
    Lost(String),
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
    pub list: SessionList,
    pub mode: Mode,
    pub link: Link,
    /// How many sessions there are, while the list is being read.
    pub reading: Option<u64>,
    /// The list has been read to its end at least once.
    pub is_complete: bool,
    pub notice: Option<Notice>,
    pub screen: Option<(String, Result<Picture, String>)>,
    pub now: Timestamp,
    pub size: Size,
    /// The first row of the list that is on the screen.
    pub offset: usize,
    /// Asked for and not answered yet.
    pub(super) pending: Vec<Request>,
    /// The session that the browser itself runs in.
    pub(super) own_session: Option<String>,
    /// Lines that were typed for a session and not sent.
    pub(super) drafts: BTreeMap<String, String>,
    watched: Option<Watched>,
    /// The conversation whose end is shown, when it was last written to, and how wide.
    recalled: Option<(String, String, u16)>,
}

impl App {
    pub fn new(options: &BrowseOptions, size: Size, now: Timestamp) -> Self {
        Self {
            list: SessionList::new(options.include_archived, options.filter.clone(), options.selected.clone()),
            mode: Mode::Browsing,
            link: Link::Connecting,
            reading: None,
            is_complete: false,
            notice: None,
            screen: None,
            now,
            size,
            offset: 0,
            pending: Vec::new(),
            own_session: options.own_session.clone(),
            drafts: BTreeMap::new(),
            watched: None,
            recalled: None,
        }
    }

    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let mut effects = match message {
            Message::Key(key) => self.key(key),
            Message::Paste(text) => self.paste(&text),
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Resized(size) => {
                self.size = size;
                Vec::new()
            }
            Message::Clock(now) => self.clock(now),
            Message::Reports(reports) => {
                // One ring for all that came together.
                let rings = reports.iter().any(|report| matches!(report, Report::Waits(_)));
                reports.into_iter().for_each(|report| self.report(report));
                self.list.settle();
                rings.then_some(Effect::Bell).into_iter().collect()
            }
        };
        self.keep_selection_in_view();
        effects.extend(self.change_of_watch());
        effects.extend(self.change_of_recall());
        effects
    }

    fn clock(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        let is_over =
            |notice: &Notice| notice.tone == Tone::News && now.as_millis() - notice.shown_at.as_millis() >= NEWS_MILLIS;
        // What is still under way stays on the screen.
        if self.pending.is_empty() && self.notice.as_ref().is_some_and(is_over) {
            self.notice = None;
        }
        Vec::new()
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Connected => self.link = Link::Live,
            Report::Lost(why) => {
                self.link = Link::Lost(why);
                self.reading = None;
            }
            Report::ReadingStarted => self.list.reading_started(),
            Report::Page { sessions, total } => {
                self.list.page(sessions);
                self.reading = Some(total);
            }
            Report::ReadingEnded => {
                self.list.reading_ended();
                self.reading = None;
                self.is_complete = true;
            }
            Report::Conversations(records) => self.list.conversations(records),
            Report::Changed(record) => self.list.changed(*record),
            Report::Gone(id) => self.list.gone(&id),
            Report::Waits(item) => {
                let asker = item.harness.as_deref().unwrap_or("an agent");
                self.news(format!("{asker} asks: {}; `coven inbox` has it", sanitize_line(&item.title)));
            }
            Report::Screen { id, screen } => self.seen(id, screen),
            Report::Answered { request, answer } => self.answered(request, answer),
        }
    }

    /// A screen that was seen is better than the news that it cannot be seen now.
    fn seen(&mut self, id: String, screen: Result<Picture, String>) {
        let is_kept = screen.is_err() && matches!(&self.screen, Some((known, Ok(_))) if *known == id);
        if !is_kept {
            self.screen = Some((id, screen));
        }
    }

    fn answered(&mut self, request: Request, answer: Result<(), String>) {
        self.pending.retain(|pending| *pending != request);
        let id = short_id(&request.id);
        match (answer, request.what) {
            // The preview shows what the line did.
            (Ok(()), What::Input(_)) => {}
            (Ok(()), What::Start { .. }) => self.news(format!("started {id}; Enter attaches to it")),
            (Ok(()), What::Finish) => self.news(format!("{id} was asked to end")),
            (Ok(()), What::Kill) => self.news(format!("killed {id}")),
            (Ok(()), What::Archive) => self.news(format!("archived {id}; A shows archived sessions, u summons one")),
            (Ok(()), What::Sacrifice) => {
                self.news(format!("sacrificed {id}"));
                self.list.gone(&request.id);
            }
            (Err(why), What::Input(text)) => {
                self.give_back(&request.id, text);
                self.problem(format!("not sent, the line is kept: {why}"));
            }
            (Err(why), _) => self.problem(why),
        }
    }

    /// A line that could not be sent is not lost.
    fn give_back(&mut self, id: &str, text: String) {
        match &mut self.mode {
            Mode::Typing { id: typing_for, line } if typing_for == id && line.is_empty() => *line = Line::new(text),
            _ => {
                self.drafts.insert(id.to_owned(), text);
            }
        }
    }

    pub(super) fn news(&mut self, text: String) {
        self.notice = Some(Notice { tone: Tone::News, text, shown_at: self.now });
    }

    pub(super) fn problem(&mut self, text: String) {
        self.notice = Some(Notice { tone: Tone::Problem, text, shown_at: self.now });
    }

    pub fn notice_lines(&self) -> Vec<String> {
        let columns = usize::from(self.size.width.saturating_sub(2));
        self.notice.as_ref().map(|notice| text::wrap(&notice.text, columns, MAX_NOTICE_LINES)).unwrap_or_default()
    }

    pub fn panes(&self) -> Panes {
        Panes::of(Rect::from((ratatui::layout::Position::ORIGIN, self.size)), self.notice_lines().len())
    }

    pub fn selected(&self) -> Option<&Item> {
        self.list.selected()
    }

    /// Where the user is, for the next time.
    pub fn remember(&self, options: &mut BrowseOptions) {
        options.include_archived = self.list.includes_archived();
        options.selected = self.selected().map(|record| record.id.clone());
        options.filter = self.list.filter().to_owned();
    }

    fn keep_selection_in_view(&mut self) {
        let height = usize::from(self.panes().list.height).max(1);
        let cursor = self.list.cursor();
        let last_start = self.list.len().saturating_sub(height);
        self.offset = self.offset.clamp(cursor.saturating_sub(height - 1), cursor).min(last_start);
    }

    fn change_of_watch(&mut self) -> Option<Effect> {
        let wanted = match self.selected() {
            // Nothing was ever shown on the terminal of a session that has not begun.
            Some(record) if self.panes().has_preview() && record.status != "created" && record.kind != shelf::KIND => {
                Some(Watched { id: record.id.clone(), is_live: record.status == "running" })
            }
            _ => None,
        };
        if wanted == self.watched {
            return None;
        }
        if wanted.as_ref().map(|watched| &watched.id) != self.watched.as_ref().map(|watched| &watched.id) {
            self.screen = None;
        }
        self.watched = wanted.clone();
        Some(Effect::Watch(wanted))
    }

    fn change_of_recall(&mut self) -> Option<Effect> {
        let width = self.panes().preview.width;
        let wanted = match self.selected() {
            Some(record) if self.panes().has_preview() && record.kind == shelf::KIND => {
                Some((record.id.clone(), record.updated_at.clone(), width))
            }
            _ => None,
        };
        if wanted == self.recalled {
            return None;
        }
        self.recalled.clone_from(&wanted);
        let (id, ..) = wanted?;
        Some(Effect::Recall { id, columns: usize::from(width.saturating_sub(2)) })
    }
}
