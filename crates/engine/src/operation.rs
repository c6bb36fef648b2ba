//! Operations: the engine does the work in the background, and the request that starts it returns the record.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::operation::{
    Operation, OperationEnd, OperationError, OperationKind, OperationProgress, OperationState,
};
use coven_domain::query::{OperationQuery, Page, SweepReport};
use coven_domain::task::Task;
use coven_domain::{OperationId, Timestamp};
use coven_holder::clock;
use coven_store::{Change, Tx};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use uuid::Uuid;

use super::Engine;
use crate::error::EngineError;
use crate::migrate::Migrated;
use crate::workflow::merge::NotMerged;

/// Minimum time between two `operation.progress` events of one operation.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Number of candidate ids in an error message.
const MAX_CANDIDATES: usize = 5;

/// The result of a completed operation.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationResult {
    Task(Box<Task>),
    /// The tasks that the operation added, in the order of its request.
    Tasks {
        operation: OperationId,
        tasks: Vec<Task>,
    },
    Migrated {
        done: Migrated,
        dry_run: bool,
    },
    Swept {
        report: SweepReport,
        dry_run: bool,
    },
}

/// Renders results and errors for clients. The server implements it, because it knows the wire format.
#[derive(Debug, Clone, Copy)]
pub struct OperationRender {
    /// The result as JSON text.
    pub result: fn(OperationResult) -> String,
    pub error: fn(&EngineError) -> OperationError,
}

/// Result of an operation's work; `None` if the work has already stored the end of the operation.
pub(crate) type WorkResult = Result<Option<OperationResult>, EngineError>;

/// The running operations of this daemon.
#[derive(Default)]
pub(super) struct Operations(Mutex<HashMap<OperationId, RunningOperation>>);

struct RunningOperation {
    /// The last written record.
    record: watch::Sender<Operation>,
    has_worker: bool,
}

impl Operations {
    fn lock(&self) -> MutexGuard<'_, HashMap<OperationId, RunningOperation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, operation: &Operation) {
        let new = || RunningOperation { record: watch::Sender::new(operation.clone()), has_worker: false };
        self.lock().entry(operation.id).or_insert_with(new);
    }

    /// Marks an operation as having a worker. Returns false if it already has one.
    fn take(&self, operation: &Operation) -> bool {
        self.add(operation);
        self.lock().get_mut(&operation.id).is_some_and(|known| !std::mem::replace(&mut known.has_worker, true))
    }

    /// Marks an operation as having no worker; another one may take it.
    fn release(&self, id: OperationId) {
        if let Some(known) = self.lock().get_mut(&id) {
            known.has_worker = false;
        }
    }

    fn forget(&self, id: OperationId) {
        self.lock().remove(&id);
    }

    fn publish(&self, operation: Operation) {
        let mut all = self.lock();
        if operation.has_ended() {
            if let Some(known) = all.remove(&operation.id) {
                known.record.send_replace(operation);
            }
        } else if let Some(known) = all.get(&operation.id) {
            known.record.send_replace(operation);
        }
    }

    fn watch(&self, id: OperationId) -> Option<watch::Receiver<Operation>> {
        self.lock().get(&id).map(|known| known.record.subscribe())
    }

    /// Reports whether a client waits for the end.
    pub(super) fn has_waiters(&self, id: OperationId) -> bool {
        self.lock().get(&id).is_some_and(|known| known.record.receiver_count() > 0)
    }
}

/// Reports the progress of an operation. Does nothing for work without an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reporter(Option<Arc<(OperationId, watch::Sender<OperationProgress>)>>);

impl Reporter {
    pub(crate) fn operation(&self) -> Option<OperationId> {
        self.0.as_ref().map(|target| target.0)
    }

    pub(crate) fn step(&self, done: u64, total: Option<u64>, message: impl Into<String>) {
        if let Some(target) = &self.0 {
            target.1.send_replace(OperationProgress { done, total, message: message.into() });
        }
    }
}

impl Engine {
    /// Starts work under a new operation.
    pub(crate) async fn start_operation<W>(
        self: &Arc<Self>,
        kind: OperationKind,
        work: impl FnOnce(Arc<Self>, Reporter) -> W,
    ) -> Result<Operation, EngineError>
    where
        W: Future<Output = WorkResult> + Send + 'static,
    {
        let now = clock::now();
        let tx = self.store.begin().await?;
        let operation = self.commit_new_operation(tx, kind, None, now).await?;
        self.run_operation(&operation, work);
        Ok(operation)
    }

    /// Commits a transaction together with a new operation.
    pub(crate) async fn commit_new_operation(
        &self,
        mut tx: Box<dyn Tx>,
        kind: OperationKind,
        subject: Option<String>,
        now: Timestamp,
    ) -> Result<Operation, EngineError> {
        let operation = Operation::new(OperationId::from_uuid(Uuid::new_v4()), kind, subject, now);
        tx.record(Change::OperationChanged { operation: operation.clone(), event: "started" }, now).await?;
        // Before a client can see the operation, so that it can wait for its end.
        self.operations.add(&operation);
        if let Err(error) = self.commit(tx).await {
            self.operations.forget(operation.id);
            return Err(error.into());
        }
        Ok(operation)
    }

    /// Runs the work of a stored operation, unless it already has a worker.
    pub(crate) fn run_operation<W>(self: &Arc<Self>, operation: &Operation, work: impl FnOnce(Arc<Self>, Reporter) -> W)
    where
        W: Future<Output = WorkResult> + Send + 'static,
    {
        if !self.operations.take(operation) {
            return;
        }
        let (progress, changes) = watch::channel(operation.progress.clone());
        let reporter = Reporter(Some(Arc::new((operation.id, progress))));
        // In a separate task, so that a panic ends only the operation.
        let worker = self.foreground.spawn(work(self.clone(), reporter));
        let (engine, id, kind) = (self.clone(), operation.id, operation.kind);
        // Ends with the operation, or with the daemon; the next daemon recovers the operation.
        self.foreground.spawn(async move { engine.follow_operation(id, kind, worker, changes).await });
    }

    /// Stores the progress of an operation, and its end.
    async fn follow_operation(
        &self,
        id: OperationId,
        kind: OperationKind,
        mut worker: JoinHandle<WorkResult>,
        mut changes: watch::Receiver<OperationProgress>,
    ) {
        let mut next_at = Instant::now();
        let ended = loop {
            let changed = async {
                let changed = changes.changed().await;
                tokio::time::sleep_until(next_at).await;
                changed
            };
            tokio::select! {
                biased;
                ended = &mut worker => break ended,
                Ok(()) = changed => {
                    let progress = changes.borrow_and_update().clone();
                    if let Err(error) = self.write_progress(id, progress).await {
                        tracing::warn!(operation = %id, %error, "cannot store the progress of an operation");
                    }
                    next_at = Instant::now() + PROGRESS_INTERVAL;
                }
            }
        };
        let Some(end) = self.end_of(kind, ended) else { return self.operations.release(id) };
        let progress = changes.borrow().clone();
        loop {
            match self.write_operation_end(id, &progress, end.clone()).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(operation = %id, %error, "cannot store the end of an operation; retrying")
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_DELAY) => {}
                () = self.stopped() => return,
            }
        }
    }

    /// Returns how an operation ended; `None` if it continues, in this daemon or the next one.
    fn end_of(&self, kind: OperationKind, ended: Result<WorkResult, JoinError>) -> Option<Option<OperationEnd>> {
        let render = self.operation_render;
        match ended {
            Ok(Ok(result)) => Some(result.map(|result| OperationEnd::Completed((render.result)(result)))),
            Ok(Err(EngineError::Stopping)) => None,
            // The approval is stored, and the scheduler retries the merge.
            Ok(Err(EngineError::Store(_))) if kind == OperationKind::TaskApprove => None,
            Ok(Err(error @ EngineError::NotMerged { why: NotMerged::Stopped { .. }, .. })) => {
                Some(Some(OperationEnd::Cancelled((render.error)(&error))))
            }
            Ok(Err(error)) => Some(Some(OperationEnd::Failed((render.error)(&error)))),
            Err(failed) if failed.is_panic() => {
                Some(Some(OperationEnd::Failed((render.error)(&EngineError::OperationPanicked))))
            }
            // The daemon is stopping.
            Err(_) => None,
        }
    }

    async fn write_progress(&self, id: OperationId, progress: OperationProgress) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut operation) = tx.operation(id).await?.filter(|it| !it.has_ended()) else { return Ok(()) };
        if operation.progress == progress {
            return Ok(());
        }
        operation.progressed(progress, now)?;
        tx.record(Change::OperationChanged { operation: operation.clone(), event: "progress" }, now).await?;
        self.commit_output(tx).await?;
        self.operations.publish(operation);
        Ok(())
    }

    async fn write_operation_end(
        &self,
        id: OperationId,
        progress: &OperationProgress,
        end: Option<OperationEnd>,
    ) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut operation) = tx.operation(id).await? else {
            self.operations.forget(id);
            return Ok(());
        };
        if let (Some(end), false) = (end, operation.has_ended()) {
            operation.progress = progress.clone();
            record_end(&mut tx, &mut operation, end, now).await?;
            self.commit_output(tx).await?;
        }
        self.operations.publish(operation);
        Ok(())
    }

    /// Completes the operation of `reporter` in a transaction, together with the work itself.
    pub(crate) async fn complete_operation(
        &self,
        tx: &mut Box<dyn Tx>,
        reporter: &Reporter,
        result: OperationResult,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let Some(target) = &reporter.0 else { return Ok(()) };
        let (id, progress) = (target.0, target.1.borrow().clone());
        let Some(mut operation) = tx.operation(id).await? else { return Ok(()) };
        operation.progress = progress;
        record_end(tx, &mut operation, OperationEnd::Completed((self.operation_render.result)(result)), now).await
    }

    /// Fails the operations that an earlier daemon did not finish. An approval continues instead: its merge is resumed.
    pub(crate) async fn fail_interrupted_operations(&self) -> Result<(), EngineError> {
        for mut operation in self.running_operations().await? {
            if operation.kind == OperationKind::TaskApprove {
                continue;
            }
            let now = clock::now();
            let error = EngineError::Interrupted { kind: operation.kind };
            let end = OperationEnd::Failed((self.operation_render.error)(&error));
            let mut tx = self.store.begin().await?;
            record_end(&mut tx, &mut operation, end, now).await?;
            self.commit_output(tx).await?;
        }
        Ok(())
    }

    /// Returns running operations, oldest first.
    pub(crate) async fn running_operations(&self) -> Result<Vec<Operation>, EngineError> {
        let limit = usize::MAX >> 1;
        let query = OperationQuery { states: vec![OperationState::Running], limit, ..OperationQuery::default() };
        let mut running = self.store.operations(&query).await?.items;
        running.reverse();
        Ok(running)
    }

    /// Waits for the work that the next daemon cannot resume.
    pub async fn finish_operations(&self) {
        let running: Vec<_> = self.operations.lock().values().map(|known| known.record.subscribe()).collect();
        for mut record in running {
            if record.borrow().kind != OperationKind::TaskApprove {
                let _ = record.wait_for(Operation::has_ended).await;
            }
        }
    }

    pub async fn operations(&self, query: &OperationQuery) -> Result<Page<Operation>, EngineError> {
        Ok(self.store.operations(query).await?)
    }

    /// Finds an operation by its id or a unique prefix.
    pub async fn operation(&self, text: &str) -> Result<Operation, EngineError> {
        let unknown = || EngineError::OperationNotFound(text.chars().take(64).collect());
        if text.is_empty() || text.len() > 36 || !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(unknown());
        }
        let found = self.store.operation_ids_with_prefix(text, MAX_CANDIDATES + 1).await?;
        match found.as_slice() {
            [] => Err(unknown()),
            [only] => self.store.operation(*only).await?.ok_or_else(unknown),
            several => {
                let candidates = several.iter().take(MAX_CANDIDATES).map(ToString::to_string).collect();
                Err(EngineError::AmbiguousItem { what: "operations", prefix: text.to_owned(), candidates })
            }
        }
    }

    /// Waits until the operation has ended or, with `since`, has changed after that time.
    pub async fn wait_for_operation(&self, text: &str, since: Option<Timestamp>) -> Result<Operation, EngineError> {
        let mut operation = self.operation(text).await?;
        if let Some(mut record) = self.operations.watch(operation.id) {
            let is_news = |it: &Operation| it.has_ended() || since.is_some_and(|since| it.updated_at > since);
            tokio::select! {
                changed = record.wait_for(is_news) => if let Ok(changed) = changed { operation = changed.clone() },
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        } else if !operation.has_ended() {
            // The operation ended after it was read.
            operation = self.operation(&operation.id.to_string()).await?;
        }
        Ok(operation)
    }
}

async fn record_end(
    tx: &mut Box<dyn Tx>,
    operation: &mut Operation,
    end: OperationEnd,
    now: Timestamp,
) -> Result<(), EngineError> {
    operation.end(end, now)?;
    let event = operation.state.as_str();
    tx.record(Change::OperationChanged { operation: operation.clone(), event }, now).await?;
    Ok(())
}
