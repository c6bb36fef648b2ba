//! What is asked for and what comes back, in the domain's words.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use crate::operation::{Operation, OperationKind, OperationState};
use crate::session::{Channel, Session, SessionState};
use crate::task::{FieldChange, Priority, Task, TaskKind, TaskState};
use crate::workflow::WorkflowState;
use crate::{RepoId, SessionId, TaskId, Timestamp, WorkflowId};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionFilter {
    /// Any of these; empty: all.
    pub states: Vec<SessionState>,
    pub harness: Option<String>,
    pub channel: Option<Channel>,
    pub repo: Option<RepoId>,
    pub include_archived: bool,
}

/// A page: after a cursor (the last row of the page before), or from an offset.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionQuery {
    pub filter: SessionFilter,
    pub after: Option<(Timestamp, SessionId)>,
    pub offset: u64,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionPage {
    /// Newest first: by `created_at`, then by the order of insertion.
    pub sessions: Vec<Session>,
    pub total: u64,
    pub has_more: bool,
}

/// Which messages of a session: oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageQuery {
    /// Those with a larger number.
    pub after: u64,
    /// Those after this time.
    pub since: Option<Timestamp>,
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct PermissionQuery {
    pub include_settled: bool,
    pub session: Option<SessionId>,
    /// Whose id begins so: hex digits and dashes.
    pub prefix: Option<String>,
}

/// Which tasks; every list is of any of these, and empty for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskQuery {
    pub states: Vec<TaskState>,
    pub kinds: Vec<TaskKind>,
    pub priorities: Vec<Priority>,
    pub tag: Option<String>,
    pub parent: Option<TaskId>,
    /// Open, nobody's, and everything it depends on is closed.
    pub is_ready: bool,
    pub include_deleted: bool,
    /// Those behind this place; then `offset` counts from there.
    pub after: Option<TaskPlace>,
    pub offset: u64,
    pub limit: usize,
}

/// Where a task stands in the order that they are given out. Pages that go on from a place have every task once, whatever is made or
/// deleted meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskPlace {
    pub priority: i64,
    pub created_at: Timestamp,
    pub row: i64,
}

impl fmt::Display for TaskPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.priority, self.created_at.as_millis(), self.row)
    }
}

impl FromStr for TaskPlace {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let mut parts = text.splitn(3, '.').map(str::parse::<i64>);
        let mut part = || parts.next().unwrap_or_else(|| "".parse());
        Ok(Self { priority: part()?, created_at: Timestamp::from_millis(part()?), row: part()? })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPage {
    /// In the order that they are given out: priority, then age.
    pub tasks: Vec<Task>,
    pub total: u64,
    /// Where the last of them stands, if there are more.
    pub next: Option<TaskPlace>,
}

/// How much of each task a text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskForm {
    /// All of it: a `TaskRecord`.
    Record,
    /// What a list shows: a `TaskBrief`.
    Brief,
}

/// A page of tasks as a JSON array, behind what was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskText {
    pub text: Vec<u8>,
    pub total: u64,
    pub next: Option<TaskPlace>,
}

/// Which agents, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentQuery {
    /// Starting or running.
    Live,
    Task(TaskId),
    Workflow(WorkflowId),
    Session(SessionId),
    Newest(usize),
}

/// Which questions of agents, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentQuestionQuery {
    /// Pending, or answered and not typed in yet.
    Open,
    /// Whose id begins so: hex digits and dashes.
    Prefix(String),
    All,
}

/// Which runs, newest first; no states: all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkflowQuery {
    pub states: Vec<WorkflowState>,
    pub task: Option<TaskId>,
    pub offset: u64,
    pub limit: usize,
}

/// Which operations, newest first; an empty list is all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationQuery {
    pub states: Vec<OperationState>,
    pub kinds: Vec<OperationKind>,
    pub subject: Option<String>,
    /// Those that follow this place.
    pub after: Option<OperationPlace>,
    pub limit: usize,
}

/// The place of an operation in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationPlace {
    pub created_at: Timestamp,
    pub row: i64,
}

impl fmt::Display for OperationPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at.as_millis(), self.row)
    }
}

impl FromStr for OperationPlace {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (at, row) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self { created_at: Timestamp::from_millis(at.parse()?), row: row.parse()? })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct OperationPage {
    pub operations: Vec<Operation>,
    /// The place of the last one, if there are more.
    pub next: Option<OperationPlace>,
}

/// One field of a task that became different.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskHistoryEntry {
    pub number: u64,
    pub at: Timestamp,
    pub by: String,
    pub change: FieldChange,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StateSnapshot {
    /// The number of the last event whose change is in here.
    pub event_number: u64,
    pub sessions: Vec<Session>,
    pub tasks: Vec<Value>,
    pub agents: Vec<Value>,
    pub workflows: Vec<Value>,
    pub questions: Vec<Value>,
}

/// What a sweep did; the ids of sessions whose files can be deleted now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SweepReport {
    pub tasks_soft_deleted: Vec<String>,
    pub tasks_deleted: Vec<String>,
    pub agents_deleted: Vec<String>,
    pub sessions_deleted: Vec<SessionId>,
    pub workflows_deleted: Vec<String>,
    pub questions_deleted: Vec<String>,
    /// Operations that ended before the events that are kept.
    pub operations_deleted: u64,
    pub events_deleted: u64,
    /// The event that lists all this, to wake subscribers with; `None` if nothing worth telling went.
    #[serde(skip)]
    pub event_number: Option<u64>,
}
