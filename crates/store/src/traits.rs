//! The store trait. Every write stores a row and its event in one transaction.

use std::ops::Range;

use async_trait::async_trait;
use coven_domain::activity::{ActivityCheckpoint, JudgedObservation};
use coven_domain::agent::Agent;
use coven_domain::entry::Entry;
use coven_domain::event::{Event, EventBody};
use coven_domain::message::{MessageChange, StoredMessage};
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::question_set::{QuestionSet, QuestionSetSummary};
use coven_domain::repo::Repo;
use coven_domain::request::Request;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{Channel, Session};
use coven_domain::task::{FieldChange, Task, TaskState};
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, OperationId, QuestionSetId, RepoId, RequestId, SessionId, TaskId, Timestamp, WorkflowId};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use crate::StoreError;
use coven_domain::query::{
    AgentQuery, MessageQuery, OperationQuery, Page, RequestQuery, RowPlace, SessionPage, SessionQuery, StatePage,
    StatePlace, SweepReport, TaskHistoryEntry, TaskPage, TaskQuery, WaitingItem, WaitingQuery, WorkflowQuery,
};

/// A state change. Recording it writes the row and its event; rows cannot be written in any other way.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    SessionCreated(Session),
    /// The new row; `event` is the suffix of the event kind: `killed` is published as `session.killed`.
    SessionChanged {
        session: Session,
        event: &'static str,
    },
    /// Deletes the row with its entries and keyframes.
    SessionSacrificed(SessionId),
    /// The session's ledger grew and its log is `offset` bytes long: `session.output`, which replaces the previous one.
    OutputAdded {
        session: SessionId,
        offset: u64,
    },
    RepoAdded(Repo),
    /// The repository was removed from the list or restored, as `event` says.
    RepoChanged {
        repo: Repo,
        event: &'static str,
    },
    /// New or extended messages; writes an event for each and updates the activity time of the session.
    MessagesChanged {
        session: SessionId,
        changes: Vec<MessageChange>,
    },
    /// The new state of a request: `permission.requested`, `agent_question.answered`, `terminal_prompt.delivered`, …
    RequestChanged {
        request: Request,
        event: &'static str,
    },
    /// The new state of a question set: `question_set.asked`, `question_set.completed`, …
    QuestionSetChanged {
        set: QuestionSet,
        event: &'static str,
    },
    /// The folder of the set was deleted; deletes the row: `question_set.dismissed`.
    QuestionSetRemoved(QuestionSetId),
    /// A new or changed task: `task.created`, `task.updated`, `task.closed`, …; `changes` are added to its history.
    TaskChanged {
        task: Task,
        event: &'static str,
        changes: Vec<FieldChange>,
        by: String,
    },
    /// A new task that an operation adds together with others: `task.created`.
    TaskAdded {
        task: Task,
        changes: Vec<FieldChange>,
        by: String,
        operation: OperationId,
    },
    /// A new or changed agent: `agent.starting`, `agent.started`, `agent.completed`, …
    AgentChanged {
        agent: Agent,
        event: &'static str,
    },
    /// A new or changed run: `workflow.started`, `workflow.step.started`, `workflow.completed`, …
    RunChanged {
        workflow: WorkflowRun,
        event: &'static str,
    },
    /// A new or changed operation: `operation.started`, `operation.progress`, `operation.completed`, …
    OperationChanged {
        operation: Operation,
        event: &'static str,
    },
    /// Unmerged work of a task is kept under a Git ref: `task.rescued`, an event without a row.
    TaskRescued {
        task: Task,
        reference: String,
    },
    /// An event without a row.
    EventOnly {
        kind: String,
        subject: String,
        payload: Value,
    },
}

/// Renders the payload of an event as JSON text without line breaks. The store writes and publishes it unchanged.
pub type Render = fn(EventBody<'_>) -> String;

/// Receives the events of each commit in the order of their numbers. It runs before the next transaction can start, so
/// it must not block.
pub type Publish = Box<dyn Fn(&[Event]) + Send + Sync>;

/// Checkpoint of an ACP session: stream offsets, protocol state and outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpCheckpoint {
    /// Offset up to which the agent's output has been read.
    pub read_to: u64,
    /// Offset of the next line in the agent's input.
    pub written_to: u64,
    /// The protocol state as JSON.
    pub state: String,
    /// Lines that the holder may not have received, with their offsets, oldest first.
    pub outbox: Vec<(u64, String)>,
}

/// An update of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcpCheckpointUpdate<'a> {
    pub read_to: u64,
    pub written_to: u64,
    /// The holder has received all lines that end at or before this offset; they are removed from the outbox.
    pub delivered_to: u64,
    /// Time of the message that caused the update, if any.
    pub active_at: Option<Timestamp>,
    /// The protocol state, if it changed.
    pub state: Option<&'a str>,
    /// New lines with their offsets.
    pub lines: &'a [(u64, String)],
}

/// An open write transaction. Dropping it without a commit rolls it back.
#[async_trait]
pub trait Tx: Send {
    async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError>;

    /// Writes the row and its event.
    async fn record(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError>;

    /// Appends to a session's ledger; record [`Change::OutputAdded`] as the event. Skips entries whose `seq` exists, so
    /// that reading a log again after a crash adds no duplicates. Refuses gaps.
    async fn append_entries(&mut self, id: SessionId, entries: &[Entry]) -> Result<(), StoreError>;

    /// Appends to the evidence for a session's activity; only the newest observations are kept. Their event is that of the
    /// session's record, if it changed.
    async fn append_observations(
        &mut self,
        id: SessionId,
        observations: &[JudgedObservation],
    ) -> Result<(), StoreError>;

    /// Replaces the checkpoint of a session's activity.
    async fn put_activity_checkpoint(
        &mut self,
        id: SessionId,
        checkpoint: &ActivityCheckpoint,
    ) -> Result<(), StoreError>;

    async fn put_keyframe(
        &mut self,
        id: SessionId,
        offset: u64,
        rows: u16,
        cols: u16,
        screen: &[u8],
    ) -> Result<(), StoreError>;

    /// Updates the checkpoint of an ACP session.
    async fn save_acp_checkpoint(
        &mut self,
        id: SessionId,
        progress: &AcpCheckpointUpdate<'_>,
    ) -> Result<(), StoreError>;

    async fn request(&mut self, id: RequestId) -> Result<Option<Request>, StoreError>;

    /// Counts sessions of this channel that are launching or running.
    async fn active_sessions(&mut self, channel: Channel) -> Result<u64, StoreError>;

    /// Returns a task, even if it was deleted.
    async fn task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError>;
    /// Returns tasks that depend on this one and are neither closed nor deleted.
    async fn task_dependents(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError>;
    /// Returns the direct subtasks that were not deleted, oldest first.
    async fn task_children(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError>;

    /// Returns the states of the tasks that this one depends on.
    async fn task_dependencies(&mut self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError>;
    /// Returns ready tasks in scheduling order, without those whose run was cancelled.
    async fn ready_tasks(&mut self, limit: usize) -> Result<Vec<Task>, StoreError>;
    /// Counts tasks in progress.
    async fn tasks_in_progress(&mut self) -> Result<u64, StoreError>;

    async fn agent(&mut self, id: AgentId) -> Result<Option<Agent>, StoreError>;
    /// Returns the agent of a task that is starting or running.
    async fn live_agent(&mut self, task: TaskId) -> Result<Option<Agent>, StoreError>;
    async fn workflow(&mut self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError>;
    /// Returns the newest run of a task.
    async fn latest_workflow(&mut self, task: TaskId) -> Result<Option<WorkflowRun>, StoreError>;

    async fn operation(&mut self, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// Returns the running operation of this kind about `subject`.
    async fn running_operation(&mut self, kind: OperationKind, subject: &str) -> Result<Option<Operation>, StoreError>;

    async fn repo(&mut self, id: RepoId) -> Result<Option<Repo>, StoreError>;
    /// Returns the repository at this path, even if it was removed.
    async fn repo_at(&mut self, path: &str) -> Result<Option<Repo>, StoreError>;
    /// Counts sessions bound to the repository that are launching or running.
    async fn active_sessions_of(&mut self, repo: RepoId) -> Result<u64, StoreError>;

    /// Commits and returns the number of the newest event.
    async fn commit(self: Box<Self>) -> Result<u64, StoreError>;
}

/// The screen at a log offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyframe {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub screen: Vec<u8>,
}

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Starts a transaction. Waits for the writer, of which there is one.
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError>;

    /// Like `begin`, but the commit reaches the disk only with the next synced one. Only for changes that no client has
    /// seen.
    async fn begin_unsynced(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.begin().await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError>;
    /// Returns at most `limit` ids that start with `prefix` (hex digits, dashes optional).
    async fn session_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, StoreError>;
    /// Returns at most `limit` sessions with exactly this title, newest first.
    async fn sessions_with_title(&self, title: &str, limit: usize) -> Result<Vec<Session>, StoreError>;
    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError>;
    /// Returns sessions that a starting daemon must recover: launching, running, or killed without an exit code.
    async fn sessions_to_recover(&self) -> Result<Vec<Session>, StoreError>;

    /// Returns entries with `seq > after`, oldest first.
    async fn entries(&self, id: SessionId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError>;
    /// Returns the number of the newest entry, or 0.
    async fn last_entry(&self, id: SessionId) -> Result<u64, StoreError>;
    /// Returns the newest keyframe at or before `offset`.
    async fn keyframe_before(&self, id: SessionId, offset: u64) -> Result<Option<Keyframe>, StoreError>;

    /// Returns the newest observations of a session, oldest first.
    async fn observations(&self, id: SessionId) -> Result<Vec<JudgedObservation>, StoreError>;
    /// Returns the checkpoint of a session's activity; the default if none was stored.
    async fn activity_checkpoint(&self, id: SessionId) -> Result<ActivityCheckpoint, StoreError>;

    /// Returns repositories that were not removed.
    async fn repos(&self) -> Result<Vec<Repo>, StoreError>;
    /// Returns a repository, even if it was removed.
    async fn repo(&self, id: RepoId) -> Result<Option<Repo>, StoreError>;

    async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, StoreError>;
    async fn acp_checkpoint(&self, id: SessionId) -> Result<Option<AcpCheckpoint>, StoreError>;
    async fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError>;
    /// Oldest first.
    async fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>, StoreError>;
    /// Returns requests, and tasks that need a human: blocked, or awaiting review. Ordered by the time of the request or
    /// of the task's last change, then by id.
    async fn waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingItem>, StoreError>;
    /// Returns at most `limit` requests, and tasks that need a human, whose id starts with `prefix` (hex digits and
    /// dashes).
    async fn waiting_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WaitingItem>, StoreError>;

    /// Returns a task, even if it was deleted.
    async fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError>;
    /// Returns at most `limit` ids of undeleted tasks that start with `prefix` (hex digits and dashes).
    async fn task_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>, StoreError>;
    async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, StoreError>;
    /// Returns the states of the tasks that this one depends on.
    async fn task_dependencies(&self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError>;
    /// Returns changes with a number greater than `after`, oldest first.
    async fn task_history(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<TaskHistoryEntry>, StoreError>;

    async fn agent(&self, id: AgentId) -> Result<Option<Agent>, StoreError>;
    /// Oldest first.
    async fn agents(&self, query: AgentQuery, after: Option<RowPlace>, limit: usize)
    -> Result<Page<Agent>, StoreError>;
    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError>;
    /// Returns at most `limit` ids that start with `prefix` (hex digits and dashes).
    async fn workflow_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WorkflowId>, StoreError>;
    /// Newest first.
    async fn workflows(&self, query: &WorkflowQuery) -> Result<Page<WorkflowRun>, StoreError>;

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// Returns at most `limit` ids that start with `prefix` (hex digits and dashes).
    async fn operation_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<OperationId>, StoreError>;
    async fn operations(&self, query: &OperationQuery) -> Result<Page<Operation>, StoreError>;

    /// Returns the last published state of each question set, oldest first.
    async fn question_sets(&self) -> Result<Vec<QuestionSetSummary>, StoreError>;

    /// Returns the range of unexpired event numbers, `first..end`, where `end` is the next number. Replaced events
    /// leave gaps in it.
    async fn event_range(&self) -> Result<Range<u64>, StoreError>;
    async fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// Returns the number of the last event at or before `at`; 0 if all are later.
    async fn event_number_at(&self, at: Timestamp) -> Result<u64, StoreError>;

    /// Returns at most `limit` rows of the snapshot after a cursor, read in one transaction, with the last event
    /// number.
    async fn state_page(&self, after: Option<StatePlace>, limit: usize) -> Result<StatePage, StoreError>;
    /// Streams all rows in pages, read in one transaction. The last page has no `next`; a stream that ends without it
    /// is incomplete.
    async fn state(&self) -> Result<Receiver<Result<StatePage, StoreError>>, StoreError>;

    /// Deletes records older than the cutoffs in one transaction, with an event that lists them.
    async fn sweep(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError>;
    /// Returns what a sweep would delete, without writing anything.
    async fn sweep_preview(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError>;
}
