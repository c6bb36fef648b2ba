//! What the app knows: sessions, inbox items and tasks, kept up to date by events, and the rows of the Agents view.

use std::collections::{HashMap, HashSet};

use coven_api::event::{EventRecord, SessionPayload, TaskPayload};
use coven_api::inbox::{InboxItem, InboxKind};
use coven_api::session::SessionRecord;
use coven_api::task::TaskRecord;
use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use coven_domain::{SessionId, TaskId, Timestamp, string_enum};

use crate::feed::MAX_FINISHED;
use crate::frame::markdown;
use crate::view::inbox;

string_enum! {
    /// The groups of the list, in their order.
    pub enum Group { NeedsYou = "needs you", Working = "working", Idle = "idle", Finished = "finished" }
}

/// What a row or a pane is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    Session(SessionId),
    /// An inbox item of no listed session, by its id.
    Item(String),
    Task(TaskId),
}

/// A row of the Agents view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub subject: Subject,
    pub group: Group,
    pub harness: String,
    pub title: String,
    /// The folder's name, or the task.
    pub project: String,
    pub detail: String,
    pub since: Timestamp,
    pub is_unseen: bool,
}

#[derive(Debug, Default)]
pub struct World {
    sessions: HashMap<SessionId, SessionRecord>,
    tasks: HashMap<TaskId, TaskRecord>,
    inbox: Vec<InboxItem>,
    /// Ids seen since the lists are read again; the others are dropped at the end.
    reading: Option<(HashSet<SessionId>, HashSet<TaskId>)>,
    /// The lists have been read once.
    pub is_complete: bool,
    pub finished_total: u64,
}

impl World {
    pub fn session(&self, id: SessionId) -> Option<&SessionRecord> {
        self.sessions.get(&id)
    }

    pub fn task(&self, id: TaskId) -> Option<&TaskRecord> {
        self.tasks.get(&id)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &TaskRecord> {
        self.tasks.values()
    }

    pub fn sessions(&self) -> impl Iterator<Item = &SessionRecord> {
        self.sessions.values()
    }

    /// Everything that waits for the user, oldest first.
    pub fn inbox(&self) -> &[InboxItem] {
        &self.inbox
    }

    pub fn item(&self, id: &str) -> Option<&InboxItem> {
        self.inbox.iter().find(|item| item.id == id)
    }

    /// The oldest item that this session asks.
    pub fn item_of(&self, session: SessionId) -> Option<&InboxItem> {
        self.inbox.iter().find(|item| item.session_id == Some(session) && is_asked_by_session(item))
    }

    pub fn read_started(&mut self) {
        self.reading = Some(Default::default());
    }

    pub fn read_ended(&mut self) {
        if let Some((sessions, tasks)) = self.reading.take() {
            self.sessions.retain(|id, _| sessions.contains(id));
            self.tasks.retain(|id, _| tasks.contains(id));
        }
        self.is_complete = true;
    }

    /// Adds records of a list. An event may have brought a newer one.
    pub fn add_sessions(&mut self, records: Vec<SessionRecord>) {
        for record in records {
            if self.sessions.get(&record.id).is_none_or(|known| known.updated_at <= record.updated_at) {
                self.put_session(record);
            } else if let Some((seen, _)) = &mut self.reading {
                seen.insert(record.id);
            }
        }
    }

    pub fn add_tasks(&mut self, records: Vec<TaskRecord>) {
        for record in records {
            if self.tasks.get(&record.id).is_none_or(|known| known.updated_at <= record.updated_at) {
                self.put_task(record);
            } else if let Some((_, seen)) = &mut self.reading {
                seen.insert(record.id);
            }
        }
    }

    pub fn set_inbox(&mut self, items: Vec<InboxItem>) {
        self.inbox = items;
    }

    /// Removes an item that was answered here; the next reading of the inbox confirms it.
    pub fn answered(&mut self, id: &str) {
        self.inbox.retain(|item| item.id != id);
    }

    pub fn put_session(&mut self, record: SessionRecord) {
        if let Some((seen, _)) = &mut self.reading {
            seen.insert(record.id);
        }
        self.sessions.insert(record.id, record);
    }

    pub fn put_task(&mut self, record: TaskRecord) {
        if let Some((_, seen)) = &mut self.reading {
            seen.insert(record.id);
        }
        self.tasks.insert(record.id, record);
    }

    pub fn remove_task(&mut self, id: TaskId) {
        self.tasks.remove(&id);
    }

    pub fn remove_session(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// Applies an event.
    pub fn event(&mut self, event: &EventRecord) {
        match event.kind.as_str() {
            "session.sacrificed" => {
                if let Ok(id) = event.subject.parse() {
                    self.sessions.remove(&id);
                }
            }
            "task.deleted" => {
                if let Ok(id) = event.subject.parse() {
                    self.tasks.remove(&id);
                }
            }
            kind if kind.starts_with("session.") => {
                if let Some(SessionPayload { session }) = event.payload() {
                    self.put_session(session);
                }
            }
            kind if kind.starts_with("task.") => {
                if let Some(TaskPayload { task, .. }) = event.payload() {
                    self.put_task(task);
                }
            }
            _ => {}
        }
    }

    /// Builds the rows of the Agents view, in their order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.sessions.values().filter_map(|session| self.session_row(session)).collect();
        let is_separate = |item: &&InboxItem| {
            !is_asked_by_session(item) || item.session_id.is_none_or(|id| !self.sessions.contains_key(&id))
        };
        rows.extend(self.inbox.iter().filter(is_separate).map(item_row));
        // Those that have waited longest come first; of the others the newest.
        rows.sort_by(|a, b| {
            let order = a.group.cmp(&b.group);
            let by_time = match a.group {
                Group::NeedsYou => a.since.cmp(&b.since),
                _ => b.since.cmp(&a.since),
            };
            order.then(by_time).then_with(|| a.title.cmp(&b.title))
        });
        rows
    }

    fn session_row(&self, session: &SessionRecord) -> Option<Row> {
        if session.archived_at.is_some() {
            return None;
        }
        let item = self.item_of(session.id);
        let needs = item.is_some() || session.activity.is_some_and(Activity::needs_a_human);
        let group = match (session.status, session.activity) {
            (SessionState::Created, _) => Group::Idle,
            (SessionState::Running, _) if needs => Group::NeedsYou,
            (SessionState::Running, Some(Activity::Idle | Activity::Limited)) => Group::Idle,
            (SessionState::Running, _) => Group::Working,
            _ => Group::Finished,
        };
        Some(Row {
            subject: Subject::Session(session.id),
            group,
            harness: session.harness.clone(),
            title: session.title.clone(),
            project: session.cwd.rsplit('/').next().unwrap_or_default().to_owned(),
            detail: detail(session, item),
            since: session
                .activity_since
                .filter(|_| session.status == SessionState::Running)
                .unwrap_or(if group == Group::Finished { session.updated_at } else { session.created_at }),
            is_unseen: session.unseen,
        })
    }

    /// Number of ended sessions for the heading. Only the newest are listed if there are many.
    pub fn finished_count(&self, listed: usize) -> u64 {
        if listed < MAX_FINISHED { listed as u64 } else { self.finished_total.max(listed as u64) }
    }
}

/// Reports whether the item is a request of its session, rather than a task or a set that a process of it asked.
const fn is_asked_by_session(item: &InboxItem) -> bool {
    matches!(item.kind, InboxKind::Permission | InboxKind::Question | InboxKind::Terminal)
}

fn detail(session: &SessionRecord, item: Option<&InboxItem>) -> String {
    if session.status == SessionState::Created {
        return match session.queued_launch() {
            Some(queued) => format!("queued {}: {}", queued.place, queued.reason),
            None => "never launched".to_owned(),
        };
    }
    if session.status != SessionState::Running {
        return match session.exit_code {
            Some(0) | None => session.status.to_string(),
            Some(code) => format!("{}, exit code {code}", session.status),
        };
    }
    let said = session.activity_detail.clone();
    match session.activity {
        Some(Activity::Limited) => match session.activity_until {
            Some(until) => format!("limited until {}", clock_time(until)),
            None => said.unwrap_or_else(|| "limited".to_owned()),
        },
        activity => said
            .or_else(|| item.map(|item| item.title.clone()))
            .or_else(|| activity.filter(|it| *it != Activity::Unknown).map(|it| it.to_string()))
            .unwrap_or_else(|| "running".to_owned()),
    }
}

/// Formats a time of the day in UTC.
fn clock_time(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(11..16).unwrap_or(&text))
}

fn item_row(item: &InboxItem) -> Row {
    let what = inbox::kind_word(item.kind);
    // The title of some items says what they want.
    let is_named = item.title.starts_with(what);
    Row {
        subject: inbox::subject(item),
        group: Group::NeedsYou,
        harness: item.harness.clone().unwrap_or_else(|| if is_named { String::new() } else { what.to_owned() }),
        title: if item.question_set().is_some() { markdown::plain(&item.title) } else { item.title.clone() },
        project: String::new(),
        detail: item.harness.as_ref().filter(|_| !is_named).map_or_else(String::new, |_| what.to_owned()),
        since: item.created_at,
        is_unseen: false,
    }
}
