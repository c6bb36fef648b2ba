//! A store decorator that fails the nth call, for fault injection.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use coven_domain::activity::{ActivityCheckpoint, JudgedObservation};
use coven_domain::agent::Agent;
use coven_domain::entry::Entry;
use coven_domain::event::Event;
use coven_domain::message::StoredMessage;
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::question_set::QuestionSetSummary;
use coven_domain::repo::Repo;
use coven_domain::request::Request;
use coven_domain::retention::Cutoffs;
use coven_domain::session::{Channel, Session};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, OperationId, RepoId, RequestId, SessionId, TaskId, Timestamp, WorkflowId};
use tokio::sync::mpsc::Receiver;

use crate::{AcpCheckpoint, AcpCheckpointUpdate, Change, Keyframe, Store, StoreError, Tx};
use coven_domain::query::{
    AgentQuery, MessageQuery, OperationQuery, Page, RequestQuery, RowPlace, SessionPage, SessionQuery, StatePage,
    StatePlace, SweepReport, TaskHistoryEntry, TaskPage, TaskQuery, WaitingItem, WaitingQuery, WorkflowQuery,
};

/// Forwards every call, except the one that must fail.
pub struct FaultInjectingStore<S> {
    inner: S,
    plan: Arc<FaultPlan>,
}

/// Counts the calls of a store and its transactions, from 1.
#[derive(Default)]
pub struct FaultPlan {
    made: AtomicU64,
    /// The call to fail; 0 means none.
    failing: AtomicU64,
}

impl FaultPlan {
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Restarts counting at 1 and fails call `nth`; 0 fails none.
    pub fn fail_at(&self, nth: u64) {
        self.made.store(0, Ordering::SeqCst);
        self.failing.store(nth, Ordering::SeqCst);
    }

    fn next(&self) -> Result<(), StoreError> {
        let call = self.made.fetch_add(1, Ordering::SeqCst) + 1;
        if call == self.failing.load(Ordering::SeqCst) { Err(StoreError::Injected { call }) } else { Ok(()) }
    }
}

impl<S: Store> FaultInjectingStore<S> {
    /// Wraps a store. No call fails until [`FaultPlan::fail_at`].
    pub fn new(inner: S) -> Self {
        Self { inner, plan: Arc::default() }
    }

    pub fn fault_plan(&self) -> Arc<FaultPlan> {
        Arc::clone(&self.plan)
    }
}

#[async_trait]
impl<S: Store> Store for FaultInjectingStore<S> {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.plan.next()?;
        Ok(Box::new(FaultInjectingTx { inner: Some(self.inner.begin().await?), plan: self.fault_plan() }))
    }

    async fn begin_unsynced(&self) -> Result<Box<dyn Tx>, StoreError> {
        self.plan.next()?;
        Ok(Box::new(FaultInjectingTx { inner: Some(self.inner.begin_unsynced().await?), plan: self.fault_plan() }))
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError> {
        self.plan.next()?;
        self.inner.session(id).await
    }

    async fn session_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.plan.next()?;
        self.inner.session_ids_with_prefix(prefix, limit).await
    }

    async fn sessions_with_title(&self, title: &str, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.plan.next()?;
        self.inner.sessions_with_title(title, limit).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError> {
        self.plan.next()?;
        self.inner.sessions(query).await
    }

    async fn sessions_to_recover(&self) -> Result<Vec<Session>, StoreError> {
        self.plan.next()?;
        self.inner.sessions_to_recover().await
    }

    async fn entries(&self, id: SessionId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        self.plan.next()?;
        self.inner.entries(id, after, limit).await
    }

    async fn last_entry(&self, id: SessionId) -> Result<u64, StoreError> {
        self.plan.next()?;
        self.inner.last_entry(id).await
    }

    async fn keyframe_before(&self, id: SessionId, offset: u64) -> Result<Option<Keyframe>, StoreError> {
        self.plan.next()?;
        self.inner.keyframe_before(id, offset).await
    }

    async fn observations(&self, id: SessionId) -> Result<Vec<JudgedObservation>, StoreError> {
        self.plan.next()?;
        self.inner.observations(id).await
    }

    async fn activity_checkpoint(&self, id: SessionId) -> Result<ActivityCheckpoint, StoreError> {
        self.plan.next()?;
        self.inner.activity_checkpoint(id).await
    }

    async fn repos(&self) -> Result<Vec<Repo>, StoreError> {
        self.plan.next()?;
        self.inner.repos().await
    }

    async fn repo(&self, id: RepoId) -> Result<Option<Repo>, StoreError> {
        self.plan.next()?;
        self.inner.repo(id).await
    }

    async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, StoreError> {
        self.plan.next()?;
        self.inner.messages(id, query).await
    }

    async fn acp_checkpoint(&self, id: SessionId) -> Result<Option<AcpCheckpoint>, StoreError> {
        self.plan.next()?;
        self.inner.acp_checkpoint(id).await
    }

    async fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        self.plan.next()?;
        self.inner.request(id).await
    }

    async fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>, StoreError> {
        self.plan.next()?;
        self.inner.requests(query).await
    }

    async fn waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingItem>, StoreError> {
        self.plan.next()?;
        self.inner.waiting(query).await
    }

    async fn waiting_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WaitingItem>, StoreError> {
        self.plan.next()?;
        self.inner.waiting_with_prefix(prefix, limit).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.plan.next()?;
        self.inner.task(id).await
    }

    async fn task_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.plan.next()?;
        self.inner.task_ids_with_prefix(prefix, limit).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, StoreError> {
        self.plan.next()?;
        self.inner.tasks(query).await
    }

    async fn task_dependencies(&self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError> {
        self.plan.next()?;
        self.inner.task_dependencies(id).await
    }

    async fn task_history(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<TaskHistoryEntry>, StoreError> {
        self.plan.next()?;
        self.inner.task_history(id, after, limit).await
    }

    async fn agent(&self, id: AgentId) -> Result<Option<Agent>, StoreError> {
        self.plan.next()?;
        self.inner.agent(id).await
    }

    async fn agents(
        &self,
        query: AgentQuery,
        after: Option<RowPlace>,
        limit: usize,
    ) -> Result<Page<Agent>, StoreError> {
        self.plan.next()?;
        self.inner.agents(query, after, limit).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError> {
        self.plan.next()?;
        self.inner.workflow(id).await
    }

    async fn workflow_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WorkflowId>, StoreError> {
        self.plan.next()?;
        self.inner.workflow_ids_with_prefix(prefix, limit).await
    }

    async fn workflows(&self, query: &WorkflowQuery) -> Result<Page<WorkflowRun>, StoreError> {
        self.plan.next()?;
        self.inner.workflows(query).await
    }

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.plan.next()?;
        self.inner.operation(id).await
    }

    async fn operation_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<OperationId>, StoreError> {
        self.plan.next()?;
        self.inner.operation_ids_with_prefix(prefix, limit).await
    }

    async fn operations(&self, query: &OperationQuery) -> Result<Page<Operation>, StoreError> {
        self.plan.next()?;
        self.inner.operations(query).await
    }

    async fn question_sets(&self) -> Result<Vec<QuestionSetSummary>, StoreError> {
        self.plan.next()?;
        self.inner.question_sets().await
    }

    async fn event_range(&self) -> Result<Range<u64>, StoreError> {
        self.plan.next()?;
        self.inner.event_range().await
    }

    async fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.plan.next()?;
        self.inner.events_after(number, limit).await
    }

    async fn event_number_at(&self, at: Timestamp) -> Result<u64, StoreError> {
        self.plan.next()?;
        self.inner.event_number_at(at).await
    }

    async fn state_page(&self, after: Option<StatePlace>, limit: usize) -> Result<StatePage, StoreError> {
        self.plan.next()?;
        self.inner.state_page(after, limit).await
    }

    async fn state(&self) -> Result<Receiver<Result<StatePage, StoreError>>, StoreError> {
        self.plan.next()?;
        self.inner.state().await
    }

    async fn sweep(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError> {
        self.plan.next()?;
        self.inner.sweep(cutoffs, now).await
    }

    async fn sweep_preview(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError> {
        self.plan.next()?;
        self.inner.sweep_preview(cutoffs, now).await
    }
}

struct FaultInjectingTx {
    /// `None` after a failed write, as in the real store.
    inner: Option<Box<dyn Tx>>,
    plan: Arc<FaultPlan>,
}

impl FaultInjectingTx {
    fn reading(&mut self) -> Result<&mut Box<dyn Tx>, StoreError> {
        self.plan.next()?;
        self.inner.as_mut().ok_or(StoreError::Aborted)
    }

    fn writing(&mut self) -> Result<&mut Box<dyn Tx>, StoreError> {
        if let Err(injected) = self.plan.next() {
            self.inner = None;
            return Err(injected);
        }
        self.inner.as_mut().ok_or(StoreError::Aborted)
    }
}

#[async_trait]
impl Tx for FaultInjectingTx {
    async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        self.reading()?.session(id).await
    }

    async fn record(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError> {
        self.writing()?.record(change, now).await
    }

    async fn append_entries(&mut self, id: SessionId, entries: &[Entry]) -> Result<(), StoreError> {
        self.writing()?.append_entries(id, entries).await
    }

    async fn append_observations(
        &mut self,
        id: SessionId,
        observations: &[JudgedObservation],
    ) -> Result<(), StoreError> {
        self.writing()?.append_observations(id, observations).await
    }

    async fn put_activity_checkpoint(
        &mut self,
        id: SessionId,
        checkpoint: &ActivityCheckpoint,
    ) -> Result<(), StoreError> {
        self.writing()?.put_activity_checkpoint(id, checkpoint).await
    }

    async fn put_keyframe(
        &mut self,
        id: SessionId,
        offset: u64,
        rows: u16,
        cols: u16,
        screen: &[u8],
    ) -> Result<(), StoreError> {
        self.writing()?.put_keyframe(id, offset, rows, cols, screen).await
    }

    async fn save_acp_checkpoint(
        &mut self,
        id: SessionId,
        progress: &AcpCheckpointUpdate<'_>,
    ) -> Result<(), StoreError> {
        self.writing()?.save_acp_checkpoint(id, progress).await
    }

    async fn request(&mut self, id: RequestId) -> Result<Option<Request>, StoreError> {
        self.reading()?.request(id).await
    }

    async fn active_sessions(&mut self, channel: Channel) -> Result<u64, StoreError> {
        self.reading()?.active_sessions(channel).await
    }

    async fn task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.reading()?.task(id).await
    }

    async fn task_dependents(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        self.reading()?.task_dependents(id).await
    }

    async fn task_children(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        self.reading()?.task_children(id).await
    }

    async fn task_dependencies(&mut self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError> {
        self.reading()?.task_dependencies(id).await
    }

    async fn ready_tasks(&mut self, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.reading()?.ready_tasks(limit).await
    }

    async fn tasks_in_progress(&mut self) -> Result<u64, StoreError> {
        self.reading()?.tasks_in_progress().await
    }

    async fn agent(&mut self, id: AgentId) -> Result<Option<Agent>, StoreError> {
        self.reading()?.agent(id).await
    }

    async fn live_agent(&mut self, task: TaskId) -> Result<Option<Agent>, StoreError> {
        self.reading()?.live_agent(task).await
    }

    async fn workflow(&mut self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError> {
        self.reading()?.workflow(id).await
    }

    async fn latest_workflow(&mut self, task: TaskId) -> Result<Option<WorkflowRun>, StoreError> {
        self.reading()?.latest_workflow(task).await
    }

    async fn operation(&mut self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.reading()?.operation(id).await
    }

    async fn running_operation(&mut self, kind: OperationKind, subject: &str) -> Result<Option<Operation>, StoreError> {
        self.reading()?.running_operation(kind, subject).await
    }

    async fn repo(&mut self, id: RepoId) -> Result<Option<Repo>, StoreError> {
        self.reading()?.repo(id).await
    }

    async fn repo_at(&mut self, path: &str) -> Result<Option<Repo>, StoreError> {
        self.reading()?.repo_at(path).await
    }

    async fn active_sessions_of(&mut self, repo: RepoId) -> Result<u64, StoreError> {
        self.reading()?.active_sessions_of(repo).await
    }

    async fn commit(mut self: Box<Self>) -> Result<u64, StoreError> {
        self.plan.next()?;
        self.inner.take().ok_or(StoreError::Aborted)?.commit().await
    }
}
