//! What a store can do. A write is always state and its event, in one transaction.

use std::ops::Range;

use async_trait::async_trait;
use coven_domain::agent::Agent;
use coven_domain::agent_question::AgentQuestion;
use coven_domain::entry::Entry;
use coven_domain::event::{Event, EventBody};
use coven_domain::message::{MessageChange, StoredMessage};
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::permission::Permission;
use coven_domain::question_set::QuestionSetSummary;
use coven_domain::repo::Repo;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{Channel, Session};
use coven_domain::task::{FieldChange, Task, TaskState};
use coven_domain::workflow::Workflow;
use coven_domain::{
    AgentId, OperationId, PermissionId, QuestionId, QuestionSetId, RepoId, SessionId, TaskId, Timestamp, WorkflowId,
};
use serde_json::Value;

use crate::StoreError;
use coven_domain::query::{
    AgentQuery, AgentQuestionQuery, MessageQuery, OperationPage, OperationQuery, PermissionQuery, SessionPage,
    SessionQuery, StateSnapshot, SweepReport, TaskForm, TaskHistoryEntry, TaskPage, TaskQuery, TaskText, WorkflowQuery,
};

/// A change of state. Recording it writes the row and its event; there is no other way to write a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    SessionCreated(Session),
    /// The row as it is from now on; the event's kind says what happened: `killed` is told as `session.killed`.
    SessionChanged {
        session: Session,
        event: &'static str,
    },
    /// The row with its entries and keyframes goes.
    SessionSacrificed(SessionId),
    /// The session's ledger grew and its log is `offset` bytes long: `session.output`, which replaces the previous one.
    OutputAdded {
        session: SessionId,
        offset: u64,
    },
    RepoAdded(Repo),
    /// Taken off the list, or brought back; the event's kind says which.
    RepoChanged {
        repo: Repo,
        event: &'static str,
    },
    /// Messages that came or grew; an event for each, and the session was active now.
    MessagesChanged {
        session: SessionId,
        changes: Vec<MessageChange>,
    },
    /// A request for permission as it is from now on: `permission.requested`, `permission.answered`, …
    PermissionChanged {
        permission: Permission,
        event: &'static str,
    },
    /// What is known of a question set from now on: `question_set.asked`, `question_set.completed`, …
    QuestionSetChanged {
        set: QuestionSetSummary,
        event: &'static str,
    },
    /// Its folder is gone, and the row goes too: `question_set.dismissed`.
    QuestionSetRemoved(QuestionSetId),
    /// A task as it is from now on, new or known: `task.created`, `task.updated`, `task.closed`, …; what became different goes
    /// into its history.
    TaskWritten {
        task: Task,
        event: &'static str,
        changes: Vec<FieldChange>,
        by: String,
    },
    /// An agent as it is from now on, new or known: `agent.starting`, `agent.started`, `agent.completed`, …
    AgentWritten {
        agent: Agent,
        event: &'static str,
    },
    /// A run as it is from now on, new or known: `workflow.started`, `workflow.step.started`, `workflow.completed`, …
    WorkflowWritten {
        workflow: Workflow,
        event: &'static str,
    },
    /// What an agent asks at its terminal, as it is from now on: `question.asked`, `question.answered`, …
    AgentQuestionWritten {
        question: AgentQuestion,
        event: &'static str,
    },
    /// An operation as it is from now on, new or known: `operation.started`, `operation.progress`, `operation.completed`, …
    OperationWritten {
        operation: Operation,
        event: &'static str,
    },
    /// An event without a row.
    Noted {
        kind: String,
        subject: String,
        payload: Value,
    },
}

/// Renders the payload of an event: JSON text without line breaks. The store writes it and passes it on as it is.
pub type Render = fn(EventBody<'_>) -> String;

/// Receives the events of each commit in the order of their numbers. It runs before the next transaction can start, so it must
/// not wait.
pub type Publish = Box<dyn Fn(&[Event]) + Send + Sync>;

/// Where the daemon stands in an ACP session's streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The agent's output has been read up to this byte.
    pub read_to: u64,
    /// The byte of its input that the next line begins at.
    pub written_to: u64,
    /// The protocol's state, as JSON.
    pub state: String,
    /// Lines that its holder may not have yet, with where they begin, oldest first.
    pub outbox: Vec<(u64, String)>,
}

/// How a conversation went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    pub read_to: u64,
    pub written_to: u64,
    /// Lines that end at or before this byte are with the holder: they leave the outbox.
    pub delivered_to: u64,
    /// When somebody said something, if that is why it went on.
    pub active_at: Option<Timestamp>,
    /// The protocol's state, if it changed.
    pub state: Option<&'a str>,
    /// New lines, with where they begin.
    pub lines: &'a [(u64, String)],
}

/// An open write transaction: dropped without commit, nothing of it stays.
#[async_trait]
pub trait Tx: Send {
    async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError>;

    /// Writes the row and its event.
    async fn record(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError>;

    /// Appends to a session's ledger; [`Change::OutputAdded`] is their event. Entries whose `seq` is already there are left alone, so that reading a log
    /// again after a crash repeats nothing; a gap is refused.
    async fn append_entries(&mut self, id: SessionId, entries: &[Entry]) -> Result<(), StoreError>;

    async fn put_keyframe(
        &mut self,
        id: SessionId,
        offset: u64,
        rows: u16,
        cols: u16,
        screen: &[u8],
    ) -> Result<(), StoreError>;

    /// Notes how far an ACP session's conversation has come.
    async fn save_conversation(&mut self, id: SessionId, progress: &Progress<'_>) -> Result<(), StoreError>;

    async fn permission(&mut self, id: PermissionId) -> Result<Option<Permission>, StoreError>;

    /// How many sessions of this channel are launching or running.
    async fn active_sessions(&mut self, channel: Channel) -> Result<u64, StoreError>;

    /// One, even if it was deleted.
    async fn task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError>;
    /// Those that depend on it and are neither closed nor deleted.
    async fn task_dependents(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError>;
    /// Those right below it that were not deleted, oldest first.
    async fn task_children(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError>;

    /// How the tasks stand that it depends on.
    async fn task_dependencies(&mut self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError>;
    /// The tasks that are to be given out next, leaving out those whose run somebody cancelled.
    async fn ready_tasks(&mut self, limit: usize) -> Result<Vec<Task>, StoreError>;
    /// How many tasks are being worked on.
    async fn tasks_in_progress(&mut self) -> Result<u64, StoreError>;

    async fn agent(&mut self, id: AgentId) -> Result<Option<Agent>, StoreError>;
    /// The agent that is starting or running on a task.
    async fn live_agent(&mut self, task: TaskId) -> Result<Option<Agent>, StoreError>;
    async fn agent_question(&mut self, id: QuestionId) -> Result<Option<AgentQuestion>, StoreError>;
    async fn workflow(&mut self, id: WorkflowId) -> Result<Option<Workflow>, StoreError>;
    /// A task's newest run.
    async fn latest_workflow(&mut self, task: TaskId) -> Result<Option<Workflow>, StoreError>;

    async fn operation(&mut self, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// The running operation of this kind about `subject`.
    async fn running_operation(&mut self, kind: OperationKind, subject: &str) -> Result<Option<Operation>, StoreError>;

    async fn repo(&mut self, id: RepoId) -> Result<Option<Repo>, StoreError>;
    /// The repo at this path, even if it was taken off the list.
    async fn repo_at(&mut self, path: &str) -> Result<Option<Repo>, StoreError>;
    /// How many sessions that are launching or running are bound to the repo.
    async fn active_sessions_of(&mut self, repo: RepoId) -> Result<u64, StoreError>;

    async fn commit(self: Box<Self>) -> Result<u64, StoreError>;
}

/// A screen as it was when the log stood at `offset`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyframe {
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub screen: Vec<u8>,
}

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Waits for its turn: there is one writer.
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError>;

    /// Like `begin`, but on the disk only together with the next transaction: for what nobody was told yet.
    async fn begin_unsynced(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.begin().await
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError>;
    /// Ids that begin with `prefix` (hex digits, dashes optional), at most `limit`.
    async fn session_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, StoreError>;
    /// Sessions with exactly this title, newest first, at most `limit`.
    async fn sessions_with_title(&self, title: &str, limit: usize) -> Result<Vec<Session>, StoreError>;
    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError>;
    /// Sessions a starting daemon must look at: launching, running, or killed without an exit code.
    async fn unsettled_sessions(&self) -> Result<Vec<Session>, StoreError>;

    /// Entries with `seq > after`, oldest first.
    async fn entries(&self, id: SessionId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError>;
    /// The number of the newest entry; 0 for none.
    async fn last_entry(&self, id: SessionId) -> Result<u64, StoreError>;
    /// The newest keyframe at or before `offset`.
    async fn keyframe_before(&self, id: SessionId, offset: u64) -> Result<Option<Keyframe>, StoreError>;

    /// Those that were not taken off the list.
    async fn repos(&self) -> Result<Vec<Repo>, StoreError>;
    /// One, even if it was taken off the list.
    async fn repo(&self, id: RepoId) -> Result<Option<Repo>, StoreError>;

    async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, StoreError>;
    async fn conversation(&self, id: SessionId) -> Result<Option<Conversation>, StoreError>;
    /// Oldest first.
    async fn permissions(&self, query: &PermissionQuery) -> Result<Vec<Permission>, StoreError>;

    /// One, even if it was deleted.
    async fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError>;
    /// Ids of tasks that were not deleted and begin with `prefix` (hex digits and dashes), at most `limit`.
    async fn task_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>, StoreError>;
    async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, StoreError>;
    /// The same as JSON, put behind `text`.
    async fn task_text(&self, query: &TaskQuery, form: TaskForm, text: Vec<u8>) -> Result<TaskText, StoreError>;
    /// How the tasks stand that it depends on.
    async fn task_dependencies(&self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError>;
    /// What became different, with a number beyond `after`, oldest first.
    async fn task_history(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<TaskHistoryEntry>, StoreError>;

    async fn agent(&self, id: AgentId) -> Result<Option<Agent>, StoreError>;
    async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, StoreError>;
    /// Oldest first.
    async fn agent_questions(&self, query: &AgentQuestionQuery) -> Result<Vec<AgentQuestion>, StoreError>;
    async fn workflow(&self, id: WorkflowId) -> Result<Option<Workflow>, StoreError>;
    /// Ids that begin with `prefix` (hex digits and dashes), at most `limit`.
    async fn workflow_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WorkflowId>, StoreError>;
    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<Workflow>, StoreError>;

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError>;
    /// Ids that start with `prefix` (hex digits and dashes), at most `limit`.
    async fn operation_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<OperationId>, StoreError>;
    async fn operations(&self, query: &OperationQuery) -> Result<OperationPage, StoreError>;

    /// What was last told of each question set, oldest first.
    async fn question_sets(&self) -> Result<Vec<QuestionSetSummary>, StoreError>;

    /// The numbers that have not expired: `first..end`, where `end` is the next number. Numbers of replaced events are missing
    /// from it.
    async fn event_range(&self) -> Result<Range<u64>, StoreError>;
    async fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// The number of the last event at or before `at`; 0 if all are later.
    async fn event_number_at(&self, at: Timestamp) -> Result<u64, StoreError>;

    /// Everything, read in one transaction, with the last event number.
    async fn snapshot(&self) -> Result<StateSnapshot, StoreError>;

    /// Deletes what is older than the cut-offs in one transaction, with an event that lists what went.
    async fn sweep(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError>;
    /// What that would delete; nothing is written.
    async fn sweep_preview(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError>;
}
