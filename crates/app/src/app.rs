//! The app's state. Pure: messages go in, effects come out; no I/O, no clock.

mod actions;
mod dialogs;
mod keys;
mod mouse;
mod select;

pub use self::keys::PaneResult;

use std::collections::{BTreeMap, HashMap};

use coven_api::live::{LiveMessage, LiveRequest};
use coven_api::session::InputRequest;
use coven_domain::session::{Channel, SessionState};
use coven_domain::{SessionId, Timestamp};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::layout::Rect;

use crate::dialog::Dialog;
use crate::feed::{Answer, Call, Report, SessionAction};
use crate::frame::editor::Editor;
use crate::frame::keymap::{Context, Key};
use crate::frame::list::ListState;
use crate::frame::theme::Theme;
use crate::layout::Areas;
use crate::pane::conversation::ConversationPane;
use crate::pane::form::Form;
use crate::pane::panes::Layout;
use crate::pane::scrollback::Scrollback;
use crate::pane::task::{TaskDraft, TaskPane};
use crate::pane::terminal::TerminalPane;
use crate::setup::{LaunchContext, Settings, Setup, View};
use crate::view::board::Board;
use crate::view::history::History;
use crate::view::{self, ListLine};
use crate::world::{Subject, World};

/// A conversation on the screen counts as seen for this long, and is reported again in time.
const LOOK_SECONDS: u64 = 30;
const LOOK_MILLIS: i64 = 20_000;
/// How long keys are ignored after the focused thing has gone.
const LOST_FOCUS_MILLIS: i64 = 1_500;
/// How long a notice stays if no key is pressed.
const NOTICE_MILLIS: i64 = 6_000;

#[derive(Debug)]
pub enum Message {
    Key(KeyEvent),
    Paste(String),
    Mouse(MouseEvent),
    Resized(Rect),
    Focus(bool),
    Report(Report),
    /// An export ended.
    Exported(Result<String, String>),
    Tick(Timestamp),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Live(LiveRequest),
    Call(Box<Call>),
    Bell,
    /// Put a text on the clipboard.
    Copy(String),
    /// Write a session's recording to a file.
    Export {
        session: SessionId,
        path: String,
    },
    Redraw,
    Suspend,
    Quit,
}

impl Effect {
    pub fn call(call: Call) -> Self {
        Self::Call(Box::new(call))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    List,
    Pane,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Connecting,
    Live,
    Lost(String),
    /// Connecting failed again.
    Down(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub is_problem: bool,
    shown_at: Timestamp,
}

/// Column and row.
pub type Cell = (u16, u16);

/// What a pane shows.
pub enum Content {
    Text(String),
    Terminal(Box<TerminalPane>),
    Conversation(Box<ConversationPane>),
    /// The answer form of an inbox item; the form itself is kept in the app, so that nothing typed is lost.
    Form(String),
    Task(Box<TaskPane>),
}

/// Decides whether the content of a pane must be made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentKind {
    Nothing,
    OwnSession,
    NotLaunched(String),
    Terminal(SessionId),
    Conversation(SessionId),
    Form(String),
    Task(coven_domain::TaskId),
    Gone,
}

pub struct Pane {
    pub subject: Option<Subject>,
    pub kind: ContentKind,
    pub content: Content,
    /// The request of its agent is shown in place of the conversation.
    is_answering: bool,
    /// The output of the session's past, while the user scrolls in it or replays it.
    pub scrollback: Option<Box<Scrollback>>,
}

impl Pane {
    const fn empty() -> Self {
        let content = Content::Text(String::new());
        Self { subject: None, kind: ContentKind::Nothing, content, is_answering: false, scrollback: None }
    }
}

pub struct App {
    pub world: World,
    pub view: View,
    pub lines: Vec<ListLine>,
    pub lists: HashMap<View, ListState<Subject>>,
    pub board: Board,
    pub history: History,
    pub filter: Editor,
    pub is_filtering: bool,
    pub panes: BTreeMap<usize, Pane>,
    pub layout: Layout,
    /// The pane that keys and actions are for; pane 0 follows the selection.
    pub active: usize,
    pub is_zoomed: bool,
    pub focus: Focus,
    pub dialog: Option<Dialog>,
    pub forms: HashMap<String, Form>,
    pub notice: Option<Notice>,
    pub link: Link,
    pub size: Rect,
    pub now: Timestamp,
    pub theme: Theme,
    pub settings: Settings,
    pub launch: LaunchContext,
    own_session: Option<SessionId>,
    /// The first detach key was typed, and the second is awaited.
    held_key: Option<Key>,
    /// Selected before the lists have arrived.
    wanted: Option<String>,
    is_focus_wanted: bool,
    /// The user is just opening a pane.
    is_opening: bool,
    ignores_keys_until: i64,
    next_id: u32,
    is_dirty: bool,
    /// Items known already, so that the bell rings once for each.
    known_needs: Option<Vec<String>>,
    /// Items whose answer by one key is under way.
    answering: Vec<String>,
    /// When the selection last moved because its row went away.
    moved_at: Timestamp,
    /// Conversations that the daemon knows to be on the screen, since when.
    looks: HashMap<SessionId, Timestamp>,
    /// Text that is typed and not sent, while its pane shows something else.
    drafts: HashMap<SessionId, String>,
    task_drafts: HashMap<coven_domain::TaskId, TaskDraft>,
    /// Cells between which text is selected with the mouse: the pane, the start and the end.
    pub marked: Option<(usize, Cell, Cell)>,
    effects: Vec<Effect>,
}

impl App {
    pub fn new(setup: Setup, size: Rect, now: Timestamp) -> Self {
        let theme = Theme { has_colors: setup.settings.has_colors };
        let mut app = Self {
            world: World::default(),
            view: setup.view,
            lines: Vec::new(),
            lists: HashMap::new(),
            board: Board::default(),
            history: History::default(),
            filter: Editor::one_line(&setup.filter),
            is_filtering: false,
            panes: BTreeMap::from([(0, Pane::empty())]),
            layout: Layout::Pane(0),
            active: 0,
            is_zoomed: false,
            focus: Focus::List,
            dialog: None,
            forms: HashMap::new(),
            notice: None,
            link: Link::Connecting,
            size,
            now,
            theme,
            settings: setup.settings,
            launch: setup.launch,
            own_session: setup.own_session,
            held_key: None,
            wanted: setup.selected,
            is_focus_wanted: setup.is_focused,
            is_opening: false,
            ignores_keys_until: 0,
            next_id: 1,
            is_dirty: true,
            known_needs: None,
            answering: Vec::new(),
            moved_at: Timestamp::from_millis(0),
            looks: HashMap::new(),
            drafts: HashMap::new(),
            task_drafts: HashMap::new(),
            marked: None,
            effects: Vec::new(),
        };
        app.refresh();
        app
    }

    /// Applies a message. Returns what is to be done. News of the daemon change the screen with the next `settle` only.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        let is_news = matches!(message, Message::Report(_) | Message::Exported(_) | Message::Tick(_));
        if !is_news {
            self.refresh();
        }
        match message {
            Message::Key(key) => self.key(key),
            Message::Paste(text) => self.paste(&text),
            Message::Mouse(mouse) => self.mouse(mouse),
            Message::Resized(size) => {
                self.size = size;
                self.marked = None;
            }
            Message::Focus(is_focused) => self.outer_focus(is_focused),
            Message::Report(report) => self.report(report),
            Message::Exported(Ok(path)) => self.notice(format!("exported to {path}")),
            Message::Exported(Err(why)) => self.problem(why),
            Message::Tick(now) => self.tick(now),
        }
        if !is_news {
            self.refresh();
        }
        std::mem::take(&mut self.effects)
    }

    /// Brings the screen in line with the news. Returns what is to be done.
    pub fn settle(&mut self) -> Vec<Effect> {
        self.refresh();
        std::mem::take(&mut self.effects)
    }

    /// Milliseconds until something changes by itself.
    pub fn next_tick_millis(&self) -> u64 {
        let minute = 60_000 - self.now.as_millis().rem_euclid(60_000);
        let notice = self
            .notice
            .as_ref()
            .filter(|it| !it.is_problem)
            .map(|it| NOTICE_MILLIS - (self.now.as_millis() - it.shown_at.as_millis()));
        let panes = self.panes.values().filter_map(|pane| pane.scrollback.as_ref()?.next_tick_millis());
        let look = self.looks.values().map(|at| LOOK_MILLIS - (self.now.as_millis() - at.as_millis())).min();
        let soonest = minute.min(notice.unwrap_or(minute)).min(look.unwrap_or(minute)).max(1).unsigned_abs();
        panes.fold(soonest, u64::min)
    }

    /// Output that the user waits for should be painted immediately: the focused terminal answers a key.
    pub fn is_focused_output(&self, report: &Report) -> bool {
        let Report::Output { id, .. } = report else { return false };
        self.focus == Focus::Pane
            && matches!(&self.active_pane().content, Content::Terminal(terminal) if terminal.id() == *id)
    }

    /// Brings list, selection and panes in line with the state.
    fn refresh(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            self.lines = match self.view {
                View::Agents => view::agents::lines(&self.world, self.filter.text(), self.theme, self.now),
                View::Inbox => view::inbox::lines(&self.world, self.filter.text(), self.theme, self.now),
                View::History => self.history.lines(&self.world, self.filter.text(), self.theme, self.now),
                View::Board => Vec::new(),
            };
            if self.view == View::Board {
                self.board.refresh(&self.world, self.filter.text());
            }
            let keys = self.keys();
            self.follow_selection(&keys);
        }
        self.refresh_panes();
        self.size_focused_pane();
    }

    pub(crate) fn changed(&mut self) {
        self.is_dirty = true;
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn call(&mut self, call: Call) {
        self.effect(Effect::call(call));
    }

    pub(crate) fn live(&mut self, request: Option<LiveRequest>) {
        if let Some(request) = request {
            self.effect(Effect::Live(request));
        }
    }

    pub fn notice(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), is_problem: false, shown_at: self.now });
    }

    pub fn problem(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), is_problem: true, shown_at: self.now });
    }

    pub fn is_connected(&self) -> bool {
        self.link == Link::Live
    }

    pub fn areas(&self) -> Areas {
        Areas::of(self)
    }

    pub fn context(&self) -> Context {
        match self.view {
            View::Agents => Context::Agents,
            View::Inbox => Context::Inbox,
            View::Board => Context::Board,
            View::History => Context::History,
        }
    }

    pub fn active_pane(&self) -> &Pane {
        &self.panes[&self.active]
    }

    pub fn active_pane_mut(&mut self) -> &mut Pane {
        self.panes.get_mut(&self.active).expect("the active pane exists")
    }

    fn tick(&mut self, now: Timestamp) {
        // Ages have whole minutes.
        if now.as_millis() / 60_000 != self.now.as_millis() / 60_000 {
            self.changed();
        }
        self.now = now;
        // A problem stays until a key is pressed.
        let is_over = |it: &Notice| !it.is_problem && now.as_millis() - it.shown_at.as_millis() >= NOTICE_MILLIS;
        if self.notice.as_ref().is_some_and(is_over) {
            self.notice = None;
        }
        let mut effects = Vec::new();
        for pane in self.panes.values_mut() {
            if let Some(scrollback) = &mut pane.scrollback {
                effects.extend(scrollback.tick(now));
            }
            if let Content::Conversation(conversation) = &mut pane.content {
                effects.extend(conversation.tick(now));
            }
        }
        self.effects.extend(effects);
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Connected => self.connected(),
            Report::Lost(why) => {
                let terminals = self.panes.values_mut().filter_map(|pane| match &mut pane.content {
                    Content::Terminal(terminal) => terminal.take_unconfirmed(),
                    _ => None,
                });
                let unconfirmed: Vec<String> = terminals.collect();
                if !unconfirmed.is_empty() {
                    self.problem(format!(
                        "the daemon was gone; this may not have reached the agent: {}",
                        unconfirmed.concat()
                    ));
                }
                self.link = match self.link {
                    Link::Live | Link::Connecting => Link::Lost(why),
                    Link::Lost(_) | Link::Down(_) => Link::Down(why),
                };
            }
            Report::ReadStarted => self.world.read_started(),
            Report::Sessions(records) => {
                self.world.add_sessions(records);
                self.changed();
            }
            Report::FinishedTotal(total) => {
                self.world.finished_total = total;
                self.changed();
            }
            Report::Inbox(items) => {
                self.world.set_inbox(items);
                self.inbox_changed();
            }
            Report::Tasks(records) => {
                self.world.add_tasks(records);
                self.changed();
            }
            Report::ReadEnded => {
                self.world.read_ended();
                self.changed();
            }
            Report::Event(event) => {
                self.world.event(&event);
                let mut effects = Vec::new();
                for pane in self.panes.values_mut() {
                    match &mut pane.content {
                        Content::Conversation(conversation) => effects.extend(conversation.event(&event)),
                        Content::Task(task) => effects.extend(task.event(&event)),
                        _ => {}
                    }
                }
                self.effects.extend(effects);
                self.changed();
            }
            Report::Live(message) => self.live_message(*message),
            Report::Unsent(request) => self.unsent(*request),
            Report::Output { id, offset, data } => {
                let is_allowed = self.settings.is_clipboard_on;
                let Some(terminal) = self.terminal(id) else { return };
                let copied = if is_allowed { terminal.copied_text(&data) } else { None };
                let reply = terminal.output(offset, &data);
                if let Some(text) = copied {
                    self.effect(Effect::Copy(text));
                }
                self.live(reply);
            }
            Report::Answered { call, result } => self.answered(*call, result),
        }
    }

    /// Subscribes everything again on a new connection.
    fn connected(&mut self) {
        self.link = Link::Live;
        let mut effects = Vec::new();
        for pane in self.panes.values_mut() {
            match &mut pane.content {
                Content::Terminal(terminal) => effects.extend(terminal.connected().into_iter().map(Effect::Live)),
                Content::Conversation(conversation) => effects.extend(conversation.connected()),
                Content::Task(task) => effects.extend(task.connected()),
                Content::Text(_) | Content::Form(_) => {}
            }
        }
        self.effects.extend(effects);
        if self.view == View::History {
            let wanted = self.history.load();
            self.effects.extend(wanted);
        }
        for form in self.forms.values_mut() {
            form.is_sent = false;
        }
    }

    /// Keeps typed text for the next connection. Everything else is sent anew then.
    fn unsent(&mut self, request: LiveRequest) {
        let LiveRequest::Input { session_id, data, data_base64, request } = request else { return };
        let bytes = InputRequest { data, data_base64 }.bytes().unwrap_or_default();
        let mut terminals = self.panes.values_mut().filter_map(|pane| match &mut pane.content {
            Content::Terminal(terminal) if terminal.session() == session_id => Some(terminal),
            _ => None,
        });
        match terminals.next() {
            Some(terminal) => terminal.keep_unsent(request, &bytes),
            None => self.problem("the last keys did not reach the agent: the daemon was gone"),
        }
    }

    fn terminal(&mut self, id: u32) -> Option<&mut TerminalPane> {
        self.panes.values_mut().find_map(|pane| match &mut pane.content {
            Content::Terminal(terminal) if terminal.id() == id => Some(terminal.as_mut()),
            _ => None,
        })
    }

    fn live_message(&mut self, message: LiveMessage) {
        let id = match &message {
            LiveMessage::Screen { id, .. }
            | LiveMessage::Rows { id, .. }
            | LiveMessage::Lagging { id, .. }
            | LiveMessage::Jump { id, .. }
            | LiveMessage::Resize { id, .. }
            | LiveMessage::Exit { id, .. }
            | LiveMessage::Subscribed { id, .. }
            | LiveMessage::Unsubscribed { id } => Some(*id),
            LiveMessage::Error { id, .. } => *id,
            _ => None,
        };
        let request = match &message {
            LiveMessage::Accepted { request } => Some(*request),
            LiveMessage::Error { request, .. } => *request,
            _ => None,
        };
        if let Some(request) = request
            && let Some(terminal) = u32::try_from(request >> 32).ok().and_then(|id| self.terminal(id))
        {
            terminal.confirmed(request);
        }
        match (id.and_then(|id| self.terminal(id)), message) {
            (Some(terminal), message) => terminal.message(message),
            (None, LiveMessage::Error { error, id: None, .. }) => self.problem(error.message),
            (None, _) => {}
        }
    }

    /// Handles the answer to a request.
    fn answered(&mut self, call: Call, result: Result<Answer, String>) {
        match (&call, &result) {
            (_, Ok(Answer::Session(record))) => {
                match &call {
                    Call::Session { id, action: SessionAction::Sacrifice } => self.world.remove_session(*id),
                    _ => self.world.put_session((**record).clone()),
                }
                self.history
                    .session_changed(record, matches!(&call, Call::Session { action: SessionAction::Sacrifice, .. }));
                self.changed();
            }
            (_, Ok(Answer::Task(record))) => {
                self.world.put_task((**record).clone());
                self.changed();
            }
            _ => {}
        }
        self.say_done(&call, &result);
        let mut effects = Vec::new();
        for pane in self.panes.values_mut() {
            if let Some(scrollback) = &mut pane.scrollback {
                effects.extend(scrollback.answered(&call, &result));
            }
            match &mut pane.content {
                Content::Conversation(conversation) => effects.extend(conversation.answered(&call, &result)),
                Content::Task(task) => effects.extend(task.answered(&call, &result)),
                _ => {}
            }
        }
        self.effects.extend(effects);
        if self.history.answered(&call, &result) {
            self.changed();
        }
        if let Some(dialog) = &mut self.dialog {
            dialog.answered(&call, &result);
        }
    }

    fn inbox_changed(&mut self) {
        let pending: Vec<String> = self.world.inbox().iter().map(|item| item.id.clone()).collect();
        if let Some(known) = &self.known_needs
            && self.settings.is_bell_on
            && pending.iter().any(|id| !known.contains(id))
        {
            self.effect(Effect::Bell);
        }
        // Forms of items that are gone are dropped, unless a pane still shows what was typed.
        self.forms.retain(|id, _| pending.contains(id));
        self.known_needs = Some(pending);
        self.changed();
    }

    /// Decides what a pane shows for a subject.
    fn content_kind(&self, subject: Option<&Subject>, is_answering: bool) -> ContentKind {
        match subject {
            None => ContentKind::Nothing,
            Some(Subject::Item(id)) => match self.world.item(id) {
                Some(_) => ContentKind::Form(id.clone()),
                None => ContentKind::Gone,
            },
            Some(Subject::Task(id)) => ContentKind::Task(*id),
            Some(Subject::Session(id)) if self.own_session == Some(*id) => ContentKind::OwnSession,
            Some(Subject::Session(id)) => match self.world.session(*id).or_else(|| self.history.session(*id)) {
                None => ContentKind::Gone,
                Some(session) if session.status == SessionState::Created => {
                    ContentKind::NotLaunched(match session.queued_launch() {
                        Some(queued) => queued.describe(),
                        None => "This session was never launched.".to_owned(),
                    })
                }
                Some(session) => match session.channel {
                    Channel::Terminal => ContentKind::Terminal(*id),
                    Channel::Acp => match self.world.item_of(*id).filter(|_| is_answering) {
                        Some(item) => ContentKind::Form(item.id.clone()),
                        None => ContentKind::Conversation(*id),
                    },
                },
            },
        }
    }

    /// Makes the content of panes whose subject shows something else now.
    fn refresh_panes(&mut self) {
        // A pane keeps its subject while the user types into it, even if the row is gone from the list.
        let is_typed_into = self.focus == Focus::Pane && self.active == 0 && !self.is_opening;
        let selected = self.selected();
        if let Some(pane) = self.panes.get_mut(&0).filter(|_| !is_typed_into) {
            pane.subject = selected;
        }
        let areas = self.areas();
        if areas.is_too_small {
            return;
        }
        // What is not on the screen is not watched: looking at a session marks it as seen.
        let kind = |(id, pane): (&usize, &Pane)| match areas.is_visible(*id) {
            true => (*id, self.content_kind(pane.subject.as_ref(), pane.is_answering)),
            false => (*id, ContentKind::Nothing),
        };
        let wanted: Vec<(usize, ContentKind)> = self.panes.iter().map(kind).collect();
        for (id, kind) in wanted {
            if self.panes[&id].kind != kind {
                let is_typed_into = self.focus == Focus::Pane && self.active == id && !self.is_opening;
                self.replace_content(id, kind);
                if is_typed_into {
                    self.lose_focus();
                }
            }
        }
        self.look();
    }

    /// The conversations that the daemon takes for visible.
    pub fn looks(&self) -> impl Iterator<Item = SessionId> {
        self.looks.keys().copied()
    }

    /// What the user typed into is gone. Keys that were meant for it must not act on the list.
    fn lose_focus(&mut self) {
        self.blur();
        self.ignores_keys_until = self.now.as_millis() + LOST_FOCUS_MILLIS;
        self.problem("what you typed into is gone: it was answered, deleted or started elsewhere");
        self.refresh_panes();
    }

    /// Tells the daemon which conversations are on the screen. Terminals tell it by their subscriptions.
    fn look(&mut self) {
        if !self.is_connected() {
            self.looks.clear();
            return;
        }
        let shown: Vec<SessionId> = self
            .panes
            .values()
            .filter_map(|pane| match (&pane.content, &pane.subject) {
                (Content::Conversation(_) | Content::Form(_), Some(Subject::Session(session))) => Some(*session),
                _ => None,
            })
            .collect();
        let gone: Vec<SessionId> = self.looks.keys().filter(|id| !shown.contains(id)).copied().collect();
        for session in gone {
            self.looks.remove(&session);
            self.call(Call::Look { session, seconds: 0 });
        }
        for session in shown {
            let is_due = self.looks.get(&session).is_none_or(|at| self.now.as_millis() - at.as_millis() >= LOOK_MILLIS);
            if is_due {
                self.looks.insert(session, self.now);
                self.call(Call::Look { session, seconds: LOOK_SECONDS });
            }
        }
    }

    fn replace_content(&mut self, pane: usize, kind: ContentKind) {
        let content = match &kind {
            ContentKind::Nothing => Content::Text(String::new()),
            ContentKind::OwnSession => Content::Text("this is the session you are in".to_owned()),
            ContentKind::NotLaunched(why) => Content::Text(format!("{why}\n\ns starts it, d deletes it")),
            ContentKind::Gone => Content::Text("no longer here".to_owned()),
            ContentKind::Terminal(session) => {
                let terminal = TerminalPane::new(self.next_id, *session);
                self.next_id += 1;
                if self.is_connected() {
                    self.effect(Effect::Live(terminal.subscribe()));
                }
                Content::Terminal(Box::new(terminal))
            }
            ContentKind::Conversation(session) => {
                let (mut conversation, effects) = ConversationPane::new(*session, self.now);
                if let Some(draft) = self.drafts.remove(session) {
                    conversation.set_draft(&draft);
                }
                self.effects.extend(effects);
                Content::Conversation(Box::new(conversation))
            }
            ContentKind::Form(id) => {
                if !self.forms.contains_key(id)
                    && let Some(form) = self.world.item(id).and_then(Form::new)
                {
                    self.forms.insert(id.clone(), form);
                }
                Content::Form(id.clone())
            }
            ContentKind::Task(id) => {
                let (mut task, effects) = TaskPane::new(*id);
                task.set_launch(self.launch.clone());
                if let Some(draft) = self.task_drafts.remove(id) {
                    task.set_draft(draft);
                }
                self.effects.extend(effects);
                Content::Task(Box::new(task))
            }
        };
        let Some(pane) = self.panes.get_mut(&pane) else { return };
        let before = std::mem::replace(&mut pane.content, content);
        pane.kind = kind;
        pane.scrollback = None;
        self.marked = None;
        match before {
            Content::Terminal(terminal) if self.is_connected() => {
                self.effect(Effect::Live(terminal.unsubscribe()));
            }
            Content::Conversation(conversation) if !conversation.draft().is_empty() => {
                self.drafts.insert(conversation.session(), conversation.draft().to_owned());
            }
            Content::Task(mut task) => {
                let draft = task.take_draft();
                if !draft.is_empty() {
                    self.task_drafts.insert(task.id(), draft);
                }
            }
            _ => {}
        }
    }

    /// Gives the terminal of the focused pane the size of its pane.
    fn size_focused_pane(&mut self) {
        if self.focus != Focus::Pane || !self.is_connected() {
            return;
        }
        let areas = self.areas();
        let Some((_, area)) = areas.contents().into_iter().find(|(pane, _)| *pane == self.active) else { return };
        let request = match &mut self.active_pane_mut().content {
            Content::Terminal(terminal) => terminal.resize(area),
            _ => None,
        };
        self.live(request);
    }

    /// Returns the acknowledgements of everything that was painted.
    pub fn painted(&mut self) -> Vec<Effect> {
        if !self.is_connected() {
            return Vec::new();
        }
        let terminals = self.panes.values_mut().filter_map(|pane| match &mut pane.content {
            Content::Terminal(terminal) => Some(terminal),
            _ => None,
        });
        terminals.filter_map(|terminal| terminal.acknowledge()).map(Effect::Live).collect()
    }
}
