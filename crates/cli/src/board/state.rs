//! What the board knows and shows. Pure: messages go in, effects come out; no I/O, no clock.

use std::collections::BTreeSet;

use coven_domain::Timestamp;
use coven_domain::task::TaskState;
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::{Position, Rect, Size};

use super::form::Form;
use super::layout::{self, MAX_NOTICE_LINES, Panes};
use super::page::Page;
use super::report::{Done, Report, Request, Subject, What};
use super::tasks::{COLUMNS, Tasks};
use super::{BoardOptions, Outcome};
use crate::format::{sanitize_line, short_id};
use crate::tui::line::Line;
pub use crate::tui::state::{Link, Tone};
use crate::tui::text;

/// How long good news stays; a problem stays until it is dismissed or something else is done.
const NEWS_MILLIS: i64 = 6_000;

#[derive(Debug)]
pub enum Message {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resized(Size),
    Clock(Timestamp),
    /// All that was waiting: the columns are worked out once for all of them.
    Reports(Vec<Report>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Ask(Request),
    /// Look at what these sessions write from now on.
    Watch(BTreeSet<String>),
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
    /// One line of words for what is to be done.
    Saying {
        id: String,
        purpose: Purpose,
        line: Line,
        /// The cursor of the inbox, if that is gone back to.
        inbox: Option<usize>,
    },
    /// `y` does it.
    Confirming {
        id: String,
        sure: Sure,
    },
    Filling(Box<Form>),
    Reading(Box<Page>),
    /// What waits for a human, and which of it is selected.
    Inbox {
        cursor: usize,
    },
    Help {
        scroll: u16,
    },
}

/// What a line of words is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Block,
    Reject,
    Close,
    /// A terminal waits for it.
    Reply,
}

impl Purpose {
    pub(super) fn what(self, text: &str) -> What {
        let reason = text.trim().to_owned();
        match self {
            Self::Block => What::Block(reason),
            Self::Reject => What::Reject(reason),
            Self::Close => What::Close(reason),
            // What is typed into a terminal is nobody's to change.
            Self::Reply => What::Reply(text.to_owned()),
        }
    }
}

/// What is asked about before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    Delete,
    Cancel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
    shown_at: Timestamp,
}

#[derive(Debug)]
pub struct App {
    pub tasks: Tasks,
    pub mode: Mode,
    pub link: Link,
    /// The tasks have been read at least once.
    pub is_read: bool,
    pub notice: Option<Notice>,
    pub now: Timestamp,
    pub size: Size,
    /// The first column that is on the screen.
    pub first_column: usize,
    /// The first card of each column that is on the screen.
    pub offsets: [usize; COLUMNS.len()],
    /// The same where all stand in one list.
    pub stacked_offset: usize,
    /// Asked for and not answered yet.
    pub(super) pending: Vec<Request>,
    /// A new task that was filled in and not sent.
    pub(super) draft: Option<Box<Form>>,
    pub(super) repo: Option<String>,
    /// Since when the inbox is at something that nobody moved to.
    pub(super) slipped_at: Option<Timestamp>,
    watched: BTreeSet<String>,
}

impl App {
    pub fn new(options: &BoardOptions, size: Size, now: Timestamp) -> Self {
        let mut app = Self {
            tasks: Tasks::new(options.filter.clone(), options.hides_closed, options.selected.clone()),
            mode: Mode::Browsing,
            link: Link::Connecting,
            is_read: false,
            notice: None,
            now,
            size,
            first_column: 0,
            offsets: [0; COLUMNS.len()],
            stacked_offset: 0,
            pending: Vec::new(),
            draft: None,
            repo: options.repo.clone(),
            slipped_at: None,
            watched: BTreeSet::new(),
        };
        if let Some(problem) = &options.problem {
            app.problem(problem.clone());
        }
        app
    }

    /// Where the user is, for the next time.
    pub fn remember(&self, options: &mut BoardOptions) {
        options.selected = self.tasks.selected().map(|card| card.task.id.to_string());
        options.filter = self.tasks.filter().to_owned();
        options.hides_closed = self.tasks.hides_closed();
        options.problem = None;
    }

    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let mut effects = match message {
            Message::Key(key) => self.key(key),
            Message::Paste(text) => self.paste(&text),
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Resized(size) => {
                self.size = size;
                let (columns, height) = self.page_size();
                if let Mode::Reading(page) = &mut self.mode {
                    page.lay_out(columns);
                    page.scroll_to(page.scroll, height);
                }
                Vec::new()
            }
            Message::Clock(now) => self.clock(now),
            Message::Reports(reports) => {
                let waiting = self.selected_in_inbox();
                let effects = reports.into_iter().flat_map(|report| self.report(report)).collect();
                self.tasks.settle();
                self.select_in_inbox(waiting);
                effects
            }
        };
        layout::keep_selection_in_view(self);
        effects.extend(self.change_of_watch());
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

    fn report(&mut self, report: Report) -> Vec<Effect> {
        match report {
            Report::Connected => {
                // What went wrong without a daemon is over.
                if matches!(self.link, Link::Lost(_)) {
                    self.notice = None;
                }
                self.link = Link::Live;
            }
            Report::Lost(why) => self.link = Link::Lost(why),
            Report::Read(snapshot) => {
                self.tasks.read(*snapshot);
                self.is_read = true;
                return self.look_again(None);
            }
            Report::Changed(detail) => {
                let id = detail.task.id.to_string();
                self.tasks.changed(*detail);
                return self.look_again(Some(&id));
            }
            Report::Gone(id) => self.tasks.gone(&id),
            Report::Agent(agent) => {
                let id = agent.task_id.to_string();
                self.tasks.agent(*agent);
                return self.look_again(Some(&id));
            }
            Report::Ready(ready) => self.tasks.set_ready(ready),
            Report::Inbox(items) => {
                let newest = items.last().map(|item| sanitize_line(&item.title));
                if self.tasks.set_inbox(items) {
                    let what = newest.unwrap_or_default();
                    self.news(format!("asked: {what}; i shows what waits"));
                    return vec![Effect::Bell];
                }
            }
            Report::Wrote { session, line } => self.tasks.wrote(session, line),
            Report::Answered { request, answer } => return self.answered(*request, answer),
        }
        Vec::new()
    }

    /// The page is read again when what it is about has changed.
    fn look_again(&mut self, changed: Option<&str>) -> Vec<Effect> {
        let Mode::Reading(page) = &mut self.mode else { return Vec::new() };
        // A diff that changes under one's eyes cannot be read.
        if page.subject == Subject::Diff || changed.is_some_and(|id| id != page.id) {
            return Vec::new();
        }
        if page.is_asked {
            page.is_stale = true;
            return Vec::new();
        }
        page.is_asked = true;
        vec![Effect::Ask(Request { id: page.id.clone(), what: What::Look(page.subject) })]
    }

    fn answered(&mut self, request: Request, answer: Result<Done, String>) -> Vec<Effect> {
        self.pending.retain(|pending| *pending != request);
        let Request { id, what } = request;
        if let What::Look(subject) = what {
            return self.looked(&id, subject, answer);
        }
        match answer {
            Ok(Done::Session(session)) if matches!(self.mode, Mode::Browsing | Mode::Reading(_)) => {
                return vec![Effect::Leave(Outcome::Attach(session))];
            }
            // Whoever types something else by now is not torn away.
            Ok(Done::Session(_)) => self.news("its session was found; o attaches to it".to_owned()),
            Ok(Done::Page(_)) => {}
            Ok(Done::Made(id, task)) => {
                self.draft = None;
                self.tasks.select_task(&id);
                self.news(format!("added: {task}"));
            }
            Ok(Done::Did(task)) => {
                if matches!(what, What::Edit(_)) {
                    self.draft = None;
                }
                self.news(format!("{}: {task}", past(&what)));
            }
            Err(why) => {
                self.problem(why);
                self.give_back(id, what);
            }
        }
        Vec::new()
    }

    /// What was typed for something that was refused is not lost.
    fn give_back(&mut self, id: String, what: What) {
        let is_free = self.mode == Mode::Browsing;
        let (purpose, text) = match what {
            What::Create(_) | What::Edit(_) => {
                if let Some(form) = self.draft.take_if(|_| is_free) {
                    self.mode = Mode::Filling(form);
                }
                return;
            }
            What::Block(reason) => (Purpose::Block, reason),
            What::Reject(reason) => (Purpose::Reject, reason),
            What::Close(reason) => (Purpose::Close, reason),
            // Nobody waits for a line that somebody else has given.
            What::Reply(line) if self.tasks.inbox().iter().any(|item| item.id == id) => (Purpose::Reply, line),
            _ => return,
        };
        if !text.is_empty() && (is_free || matches!(self.mode, Mode::Inbox { .. })) {
            self.say(id, purpose, text);
        }
    }

    /// Has a line typed; where it was asked for in the inbox, that is gone back to.
    pub(super) fn say(&mut self, id: String, purpose: Purpose, text: String) {
        let inbox = match self.mode {
            Mode::Inbox { cursor } => Some(cursor),
            _ => None,
        };
        self.mode = Mode::Saying { id, purpose, line: Line::new(text), inbox };
    }

    fn looked(&mut self, id: &str, subject: Subject, answer: Result<Done, String>) -> Vec<Effect> {
        let height = self.page_size().1;
        let Mode::Reading(page) = &mut self.mode else { return Vec::new() };
        if page.id != id || page.subject != subject {
            return Vec::new();
        }
        match answer {
            Ok(Done::Page(lines)) => page.came(Ok(lines)),
            Ok(_) => {}
            Err(why) => page.came(Err(why)),
        }
        page.scroll_to(page.scroll, height);
        page.is_asked = false;
        match std::mem::take(&mut page.is_stale) {
            true => self.look_again(None),
            false => Vec::new(),
        }
    }

    pub(super) fn ask(&mut self, id: String, what: What) -> Vec<Effect> {
        let request = Request { id, what };
        // A key pressed twice asks once.
        if self.pending.contains(&request) {
            return Vec::new();
        }
        if !matches!(request.what, What::Look(_)) {
            let title = self.tasks.card(&request.id).map(|card| sanitize_line(&card.task.title)).unwrap_or_default();
            self.news(format!("{} {} {title} …", present(&request.what), short_id(&request.id)));
            self.pending.push(request.clone());
        }
        vec![Effect::Ask(request)]
    }

    pub(super) fn news(&mut self, text: String) {
        self.notice = Some(Notice { tone: Tone::News, text, shown_at: self.now });
    }

    pub(super) fn problem(&mut self, text: String) {
        self.notice = Some(Notice { tone: Tone::Problem, text, shown_at: self.now });
    }

    pub fn notice_lines(&self) -> Vec<String> {
        let columns = usize::from(self.size.width.saturating_sub(2));
        let text = self.notice.as_ref().map(|notice| sanitize_line(&notice.text));
        text.map(|text| text::wrap(&text, columns, MAX_NOTICE_LINES)).unwrap_or_default()
    }

    pub fn panes(&self) -> Panes {
        Panes::of(Rect::from((Position::ORIGIN, self.size)), self.notice_lines().len())
    }

    /// Columns and rows of a page.
    pub fn page_size(&self) -> (usize, usize) {
        let body = self.panes().body;
        (usize::from(body.width.saturating_sub(2)), usize::from(body.height))
    }

    /// Only what is on the screen is looked at.
    fn change_of_watch(&mut self) -> Option<Effect> {
        let is_at_work = |id: &str| {
            let card = self.tasks.card(id)?;
            let agent = card.agent.filter(|_| card.task.status == TaskState::InProgress)?;
            agent.session_id.map(|id| id.to_string())
        };
        let wanted: BTreeSet<String> = layout::places(self).iter().filter_map(|place| is_at_work(&place.id)).collect();
        if wanted == self.watched {
            return None;
        }
        self.watched.clone_from(&wanted);
        Some(Effect::Watch(wanted))
    }
}

/// What is under way.
fn present(what: &What) -> &'static str {
    match what {
        What::Create(_) => "adding the task",
        What::Edit(_) => "changing",
        What::Start => "starting",
        What::Release => "releasing",
        What::Block(_) => "blocking",
        What::Unblock => "unblocking",
        What::Approve => "checking and merging",
        What::Reject(_) => "rejecting",
        What::Close(_) => "closing",
        What::Delete { .. } => "deleting",
        What::Cancel => "cancelling the run of",
        What::Retry => "retrying",
        What::Look(_) => "reading",
        What::Attach => "looking for the session of",
        What::Answer { .. } | What::Reply(_) => "answering",
    }
}

/// What has been done.
fn past(what: &What) -> &'static str {
    match what {
        What::Create(_) => "added",
        What::Edit(_) => "changed",
        What::Start => "started",
        What::Release => "released",
        What::Block(_) => "blocked",
        What::Unblock => "unblocked",
        What::Approve => "approved",
        What::Reject(_) => "rejected",
        What::Close(_) => "closed",
        What::Delete { .. } => "deleted",
        What::Cancel => "cancelled",
        What::Retry => "goes on",
        What::Look(_) => "read",
        What::Attach => "attached",
        What::Answer { .. } | What::Reply(_) => "answered",
    }
}
