//! Queries of the store and their results.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::activity::Activity;
use crate::agent::Agent;
use crate::operation::{OperationKind, OperationState};
use crate::question_set::QuestionSet;
use crate::request::{Request, RequestKind};
use crate::session::{Channel, Session, SessionState};
use crate::task::{FieldChange, Priority, Task, TaskKind, TaskState};
use crate::workflow::{WorkflowRun, WorkflowState};
use crate::{OperationId, RepoId, SessionId, TaskId, Timestamp, WorkflowId, string_enum};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionFilter {
    /// Any of these states; empty means all.
    pub states: Vec<SessionState>,
    pub harness: Option<String>,
    pub channel: Option<Channel>,
    pub repo: Option<RepoId>,
    pub include_archived: bool,
    /// Any of these activities, of live sessions only; empty means all sessions.
    pub activities: Vec<Activity>,
}

/// A page query: after a cursor (the last row of the previous page), or from an offset.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionQuery {
    pub filter: SessionFilter,
    pub after: Option<(Timestamp, SessionId)>,
    pub offset: u64,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionPage {
    /// Newest first: by `created_at`, then by insertion order.
    pub sessions: Vec<Session>,
    pub total: u64,
    pub has_more: bool,
}

/// Selects messages of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageQuery {
    /// Only messages with a larger number.
    pub after: u64,
    /// Only messages with a smaller number. A limit then keeps the last ones.
    pub before: Option<u64>,
    /// Only messages after this time.
    pub since: Option<Timestamp>,
    pub limit: Option<usize>,
}

/// Position of an item in a list ordered by time, then by id as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemPlace {
    pub at: Timestamp,
    pub id: String,
}

/// Selects a page of items that need a human, oldest first, for a list merged from several sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitingQuery {
    /// Only these kinds of requests, without tasks; empty means requests of all kinds, and tasks.
    pub kinds: Vec<RequestKind>,
    pub include_settled: bool,
    pub session: Option<SessionId>,
    pub after: Option<ItemPlace>,
    pub limit: usize,
}

/// Which requests are selected by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestScope {
    #[default]
    Pending,
    /// Pending, or answered with a line that was not typed yet.
    Unfinished,
    All,
}

/// Selects requests, ordered by time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestQuery {
    pub scope: RequestScope,
    /// Any of these kinds; empty means all.
    pub kinds: Vec<RequestKind>,
    pub session: Option<SessionId>,
    pub after: Option<ItemPlace>,
    pub limit: Option<usize>,
}

/// A stored item that needs a human, or did.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitingItem {
    Request(Box<Request>),
    /// A task that is blocked or awaits a review.
    Task(Box<Task>),
}

/// Selects tasks. Each list matches any of its values; an empty list matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskQuery {
    pub ids: Vec<TaskId>,
    pub states: Vec<TaskState>,
    pub kinds: Vec<TaskKind>,
    pub priorities: Vec<Priority>,
    pub tag: Option<String>,
    pub parent: Option<TaskId>,
    /// Only tasks that this operation added, in the order of its request.
    pub operation: Option<AddedBy>,
    /// Only open, unclaimed tasks whose dependencies are all closed.
    pub is_ready: bool,
    pub include_deleted: bool,
    /// Only tasks after this cursor.
    pub after: Option<TaskCursor>,
    /// A page of long tasks may contain fewer.
    pub limit: usize,
}

/// Selects the tasks that an operation added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddedBy {
    pub operation: OperationId,
    /// Only tasks after this one.
    pub after: Option<TaskId>,
}

/// Position of a task in scheduling order, used as a page cursor. Successive pages contain every task once, even if
/// tasks are created or deleted in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCursor {
    pub priority: i64,
    pub created_at: Timestamp,
    pub row: i64,
}

impl fmt::Display for TaskCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.priority, self.created_at.as_millis(), self.row)
    }
}

impl FromStr for TaskCursor {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let mut parts = text.splitn(3, '.').map(str::parse::<i64>);
        let mut part = || parts.next().unwrap_or_else(|| "".parse());
        Ok(Self { priority: part()?, created_at: Timestamp::from_millis(part()?), row: part()? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPage {
    /// In scheduling order: by priority, then by age.
    pub tasks: Vec<Task>,
    /// Number of matching tasks; only the first page has it.
    pub total: Option<u64>,
    /// Cursor of the last task, if more follow.
    pub next: Option<TaskCursor>,
}

/// Selects agents, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentQuery {
    /// Starting or running.
    Live,
    Task(TaskId),
    Run(WorkflowId),
    Session(SessionId),
    All,
}

/// Selects runs, newest first; an empty list of states matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowQuery {
    pub states: Vec<WorkflowState>,
    pub task: Option<TaskId>,
    /// Only runs after this cursor.
    pub after: Option<RowPlace>,
    pub limit: usize,
}

/// Selects operations, newest first; an empty list matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationQuery {
    pub states: Vec<OperationState>,
    pub kinds: Vec<OperationKind>,
    pub subject: Option<String>,
    /// Those that follow this place.
    pub after: Option<RowPlace>,
    pub limit: usize,
}

/// One field of a task that became different.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskHistoryEntry {
    pub number: u64,
    pub at: Timestamp,
    pub by: String,
    pub change: FieldChange,
}

/// Page cursor of a list ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPlace {
    pub at: Timestamp,
    pub row: i64,
}

impl fmt::Display for RowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.as_millis(), self.row)
    }
}

impl FromStr for RowPlace {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (at, row) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self { at: Timestamp::from_millis(at.parse()?), row: row.parse()? })
    }
}

/// A page of a list, with the cursor of its last row if more follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, P = RowPlace> {
    pub items: Vec<T>,
    pub next: Option<P>,
}

string_enum! {
    /// The kinds of rows in a snapshot, in page order.
    pub enum StateTable {
        Sessions = "sessions",
        Tasks = "tasks",
        Agents = "agents",
        Workflows = "workflows",
        Questions = "questions",
        QuestionSets = "question_sets",
    }
}

/// Page cursor of a snapshot: the last row of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatePlace {
    pub table: StateTable,
    pub row: i64,
}

impl fmt::Display for StatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.row)
    }
}

/// A text that is not a valid snapshot cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid snapshot cursor")]
pub struct BadPlace;

impl FromStr for StatePlace {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let (table, row) = text.split_once('.').ok_or(BadPlace)?;
        Ok(Self { table: table.parse().map_err(|_| BadPlace)?, row: row.parse().map_err(|_| BadPlace)? })
    }
}

/// A page of a snapshot of the store, read in one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatePage {
    /// The number of the newest event that the snapshot reflects.
    pub event_number: u64,
    pub sessions: Vec<Session>,
    /// Without deleted tasks.
    pub tasks: Vec<Task>,
    pub agents: Vec<Agent>,
    pub workflows: Vec<WorkflowRun>,
    /// Questions and terminal prompts of agents; permission requests are not part of it.
    pub questions: Vec<Request>,
    pub question_sets: Vec<QuestionSet>,
    /// The last row, if more follow.
    pub next: Option<StatePlace>,
}

/// The result of a sweep. The files of `sessions_deleted` can be deleted afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepReport {
    pub tasks_soft_deleted: Vec<String>,
    pub tasks_deleted: Vec<String>,
    pub agents_deleted: Vec<String>,
    pub sessions_deleted: Vec<SessionId>,
    pub workflows_deleted: Vec<String>,
    pub questions_deleted: Vec<String>,
    /// Number of operations that ended before the cutoff for events.
    pub operations_deleted: u64,
    pub events_deleted: u64,
    /// The last event that lists the deleted records, for waking subscribers; `None` if no event was written.
    pub event_number: Option<u64>,
}

impl SweepReport {
    /// Splits the report into parts with at most `max_ids` ids of each kind, so that no event grows without bound. The
    /// first part has the counts.
    pub fn parts(&self, max_ids: usize) -> impl Iterator<Item = SweepPart<'_>> {
        let most = [
            self.tasks_soft_deleted.len(),
            self.tasks_deleted.len(),
            self.agents_deleted.len(),
            self.sessions_deleted.len(),
            self.workflows_deleted.len(),
            self.questions_deleted.len(),
        ]
        .into_iter()
        .max()
        .unwrap_or(0);
        let count = most.div_ceil(max_ids).max(1);
        (0..count).map(move |nth| SweepPart {
            tasks_soft_deleted: part(&self.tasks_soft_deleted, max_ids, nth),
            tasks_deleted: part(&self.tasks_deleted, max_ids, nth),
            agents_deleted: part(&self.agents_deleted, max_ids, nth),
            sessions_deleted: part(&self.sessions_deleted, max_ids, nth),
            workflows_deleted: part(&self.workflows_deleted, max_ids, nth),
            questions_deleted: part(&self.questions_deleted, max_ids, nth),
            operations_deleted: if nth == 0 { self.operations_deleted } else { 0 },
            events_deleted: if nth == 0 { self.events_deleted } else { 0 },
            more: nth + 1 < count,
        })
    }
}

fn part<T>(ids: &[T], max_ids: usize, nth: usize) -> &[T] {
    ids.chunks(max_ids).nth(nth).unwrap_or_default()
}

/// The payload of one `retention.swept` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SweepPart<'a> {
    pub tasks_soft_deleted: &'a [String],
    pub tasks_deleted: &'a [String],
    pub agents_deleted: &'a [String],
    pub sessions_deleted: &'a [SessionId],
    pub workflows_deleted: &'a [String],
    pub questions_deleted: &'a [String],
    pub operations_deleted: u64,
    pub events_deleted: u64,
    /// The next event continues the list of the same sweep.
    pub more: bool,
}
