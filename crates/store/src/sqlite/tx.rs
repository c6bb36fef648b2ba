//! A write transaction: rows and their events in one commit.

use async_trait::async_trait;
use coven_domain::activity::{ActivityCheckpoint, JudgedObservation};
use coven_domain::agent::Agent;
use coven_domain::entry::Entry;
use coven_domain::event::{EventBody, request_prefix};
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::question_set::QuestionSet;
use coven_domain::repo::Repo;
use coven_domain::request::Request;
use coven_domain::session::{Channel, Session};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, OperationId, RepoId, RequestId, SessionId, TaskId, Timestamp, WorkflowId};
use rusqlite::Connection;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::OwnedMutexGuard;
use tokio::task::block_in_place;

use super::connection::Lock;
use super::events::Recorder;
use super::{
    agents, aside, entries, events, messages, observations, operations, question_sets, repos, requests, sessions,
    tasks, workflows,
};
use crate::{AcpCheckpointUpdate, Change, Publish, Render, StoreError, Tx};

/// The only writing connection. Fields drop in order: the connection closes before the lock is released.
pub(super) struct Writer {
    connection: Connection,
    _lock: Lock,
    render: Render,
    pub publish: Option<Publish>,
}

impl Writer {
    pub(super) fn new(connection: Connection, lock: Lock, render: Render) -> Self {
        Self { connection, _lock: lock, render, publish: None }
    }
}

/// Exclusive use of the writer with an open transaction, which is rolled back on drop.
pub(super) struct Writing {
    writer: OwnedMutexGuard<Writer>,
    is_unsynced: bool,
}

impl Writing {
    pub(super) fn begin(writer: OwnedMutexGuard<Writer>) -> Result<Self, StoreError> {
        writer.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self { writer, is_unsynced: false })
    }

    /// Starts a transaction whose commit does not sync the disk; the next synced commit covers both.
    pub(super) fn begin_unsynced(writer: OwnedMutexGuard<Writer>) -> Result<Self, StoreError> {
        writer.connection.prepare_cached("PRAGMA synchronous = NORMAL")?.execute([])?;
        let started = writer.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut begin| begin.execute([]));
        let writing = Self { writer, is_unsynced: true };
        started?;
        Ok(writing)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.writer.connection
    }

    pub(super) fn recorder(&self) -> Recorder {
        Recorder::new(self.writer.render)
    }

    /// Commits, then publishes the events before another transaction can start, so that subscribers get them in the
    /// order of their numbers. This happens even if the caller no longer waits.
    pub(super) fn commit(self, recorder: &Recorder) -> Result<(), StoreError> {
        self.connection().prepare_cached("COMMIT")?.execute([])?;
        if let Some(publish) = self.writer.publish.as_ref().filter(|_| !recorder.written.is_empty()) {
            publish(&recorder.written);
        }
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.connection().is_autocommit() {
            // An error can be ignored: closing the connection rolls back too.
            let _ = self.connection().prepare_cached("ROLLBACK").and_then(|mut it| it.execute([]));
        }
        if self.is_unsynced {
            let restored =
                self.connection().prepare_cached("PRAGMA synchronous = FULL").and_then(|mut it| it.execute([]));
            debug_assert!(restored.is_ok(), "the pragma takes effect outside of a transaction");
        }
    }
}

pub(super) struct SqliteTx {
    /// `None` after a failed write: a row must not be committed without its event.
    writing: Option<Writing>,
    recorder: Recorder,
}

impl SqliteTx {
    pub(super) fn new(writing: Writing) -> Self {
        let recorder = writing.recorder();
        Self { writing: Some(writing), recorder }
    }

    fn connection(&self) -> Result<&Connection, StoreError> {
        self.writing.as_ref().map(Writing::connection).ok_or(StoreError::Aborted)
    }

    /// Rolls back the transaction on every error, except refusals that happen before any write.
    fn rollback_on_error<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match &result {
            Ok(_) | Err(StoreError::NotFound | StoreError::Gap { .. }) => {}
            Err(_) => self.writing = None,
        }
        result
    }
}

#[async_trait]
impl Tx for SqliteTx {
    async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError> {
        sessions::by_id(self.connection()?, id)
    }

    async fn record(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError> {
        let written = match change {
            Change::SessionSacrificed(id) => {
                // A long ledger takes a while to delete.
                let writing = self.writing.take().ok_or(StoreError::Aborted)?;
                let (writing, deleted) = aside(move || {
                    let deleted = delete_session(writing.connection(), id);
                    Ok((writing, deleted))
                })
                .await?;
                let recorded = deleted.and_then(|session| {
                    add_session(&mut self.recorder, writing.connection(), "sacrificed", &session, now)
                });
                self.writing = Some(writing);
                recorded
            }
            change => {
                let writing = self.writing.as_ref().ok_or(StoreError::Aborted)?;
                write(writing.connection(), &mut self.recorder, &change, now)
            }
        };
        self.rollback_on_error(written)
    }

    async fn append_entries(&mut self, id: SessionId, entries: &[Entry]) -> Result<(), StoreError> {
        let appended = entries::append(self.connection()?, id, entries);
        self.rollback_on_error(appended)
    }

    async fn append_observations(
        &mut self,
        id: SessionId,
        observations: &[JudgedObservation],
    ) -> Result<(), StoreError> {
        let appended = observations::append(self.connection()?, id, observations);
        self.rollback_on_error(appended)
    }

    async fn put_activity_checkpoint(
        &mut self,
        id: SessionId,
        checkpoint: &ActivityCheckpoint,
    ) -> Result<(), StoreError> {
        let put = observations::put_checkpoint(self.connection()?, id, checkpoint);
        self.rollback_on_error(put)
    }

    async fn put_keyframe(
        &mut self,
        id: SessionId,
        offset: u64,
        rows: u16,
        cols: u16,
        screen: &[u8],
    ) -> Result<(), StoreError> {
        let put = entries::put_keyframe(self.connection()?, id, offset, rows, cols, screen);
        self.rollback_on_error(put)
    }

    async fn save_acp_checkpoint(
        &mut self,
        id: SessionId,
        progress: &AcpCheckpointUpdate<'_>,
    ) -> Result<(), StoreError> {
        let saved = messages::save(self.connection()?, id, progress);
        self.rollback_on_error(saved)
    }

    async fn request(&mut self, id: RequestId) -> Result<Option<Request>, StoreError> {
        requests::by_id(self.connection()?, id)
    }

    async fn active_sessions(&mut self, channel: Channel) -> Result<u64, StoreError> {
        sessions::active(self.connection()?, Some(channel.as_str()), None)
    }

    async fn task(&mut self, id: TaskId) -> Result<Option<Task>, StoreError> {
        tasks::by_id(self.connection()?, id)
    }

    async fn task_dependents(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        tasks::dependents(self.connection()?, id)
    }

    async fn task_children(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError> {
        tasks::children(self.connection()?, id)
    }

    async fn task_dependencies(&mut self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError> {
        tasks::dependencies(self.connection()?, id)
    }

    async fn ready_tasks(&mut self, limit: usize) -> Result<Vec<Task>, StoreError> {
        tasks::ready(self.connection()?, limit)
    }

    async fn tasks_in_progress(&mut self) -> Result<u64, StoreError> {
        tasks::in_progress(self.connection()?)
    }

    async fn agent(&mut self, id: AgentId) -> Result<Option<Agent>, StoreError> {
        agents::by_id(self.connection()?, id)
    }

    async fn live_agent(&mut self, task: TaskId) -> Result<Option<Agent>, StoreError> {
        agents::live_of(self.connection()?, task)
    }

    async fn workflow(&mut self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError> {
        workflows::by_id(self.connection()?, id)
    }

    async fn latest_workflow(&mut self, task: TaskId) -> Result<Option<WorkflowRun>, StoreError> {
        workflows::latest_of(self.connection()?, task)
    }

    async fn operation(&mut self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        operations::by_id(self.connection()?, id)
    }

    async fn running_operation(&mut self, kind: OperationKind, subject: &str) -> Result<Option<Operation>, StoreError> {
        operations::running(self.connection()?, kind, subject)
    }

    async fn repo(&mut self, id: RepoId) -> Result<Option<Repo>, StoreError> {
        repos::by_id(self.connection()?, id)
    }

    async fn repo_at(&mut self, path: &str) -> Result<Option<Repo>, StoreError> {
        repos::at(self.connection()?, path)
    }

    async fn active_sessions_of(&mut self, repo: RepoId) -> Result<u64, StoreError> {
        sessions::active(self.connection()?, None, Some(&repo.to_string()))
    }

    async fn commit(mut self: Box<Self>) -> Result<u64, StoreError> {
        let newest = match self.recorder.written.last() {
            Some(event) => event.number,
            None => events::newest(self.connection()?)?,
        };
        let (writing, recorder) = (self.writing.take().ok_or(StoreError::Aborted)?, self.recorder);
        // The commit waits for the disk. On a multi-threaded runtime, block in place to save a thread switch.
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => block_in_place(|| writing.commit(&recorder))?,
            _ => aside(move || writing.commit(&recorder)).await?,
        }
        Ok(newest)
    }
}

/// Writes the row, then its event.
fn write(connection: &Connection, recorder: &mut Recorder, change: &Change, now: Timestamp) -> Result<(), StoreError> {
    match change {
        Change::SessionCreated(session) => {
            sessions::insert(connection, session)?;
            add_session(recorder, connection, "created", session, now)
        }
        Change::SessionChanged { session, event } => {
            sessions::update(connection, session)?;
            add_session(recorder, connection, event, session, now)
        }
        Change::SessionSacrificed(id) => {
            let session = delete_session(connection, *id)?;
            add_session(recorder, connection, "sacrificed", &session, now)
        }
        Change::OutputAdded { session, offset } => {
            let subject = session.to_string();
            events::drop_output(connection, &subject)?;
            let body = EventBody::Output { session: *session, offset: *offset };
            recorder.add(connection, "session.output".to_owned(), subject, now, body)
        }
        Change::RepoAdded(repo) => {
            repos::insert(connection, repo)?;
            recorder.add(connection, "repo.added".to_owned(), repo.id.to_string(), now, EventBody::Repo(repo))
        }
        Change::RepoChanged { repo, event } => {
            repos::update(connection, repo)?;
            recorder.add(connection, format!("repo.{event}"), repo.id.to_string(), now, EventBody::Repo(repo))
        }
        Change::MessagesChanged { session, changes } => messages::change(connection, recorder, *session, changes, now),
        Change::RequestChanged { request, event } => {
            requests::put(connection, request)?;
            let (kind, subject) = (format!("{}.{event}", request_prefix(request.kind())), request.id.to_string());
            recorder.add(connection, kind, subject, now, EventBody::Request(request))
        }
        Change::TaskChanged { task, event, changes, by } => {
            tasks::put(connection, task)?;
            tasks::note(connection, &task.id.to_string(), changes, by, now)?;
            let body = EventBody::Task { task, changes, by };
            recorder.add(connection, format!("task.{event}"), task.id.to_string(), now, body)
        }
        Change::TaskAdded { task, changes, by, operation } => {
            tasks::put(connection, task)?;
            tasks::added_by(connection, task.id, *operation)?;
            tasks::note(connection, &task.id.to_string(), changes, by, now)?;
            let body = EventBody::Task { task, changes, by };
            recorder.add(connection, "task.created".to_owned(), task.id.to_string(), now, body)
        }
        Change::AgentChanged { agent, event } => {
            agents::put(connection, agent)?;
            recorder.add(connection, format!("agent.{event}"), agent.id.to_string(), now, EventBody::Agent(agent))
        }
        Change::RunChanged { workflow, event } => {
            workflows::put(connection, workflow)?;
            let (kind, subject) = (format!("workflow.{event}"), workflow.id.to_string());
            recorder.add(connection, kind, subject, now, EventBody::Run(workflow))
        }
        Change::OperationChanged { operation, event } => {
            operations::put(connection, operation)?;
            let (kind, subject) = (format!("operation.{event}"), operation.id.to_string());
            recorder.add(connection, kind, subject, now, EventBody::Operation(operation))
        }
        Change::QuestionSetChanged { set, event } => {
            question_sets::put(connection, set)?;
            add_question_set(recorder, connection, event, set, now)
        }
        Change::QuestionSetRemoved(id) => {
            let set = question_sets::take(connection, *id)?;
            add_question_set(recorder, connection, "dismissed", &set, now)
        }
        Change::TaskRescued { task, reference } => {
            let body = EventBody::TaskRescued { task, reference };
            recorder.add(connection, "task.rescued".to_owned(), task.id.to_string(), now, body)
        }
        Change::EventOnly { kind, subject, payload } => {
            recorder.add(connection, kind.clone(), subject.clone(), now, EventBody::Payload(payload))
        }
    }
}

/// Deletes a session with everything that belongs to it; returns its last record.
fn delete_session(connection: &Connection, id: SessionId) -> Result<Session, StoreError> {
    let session = sessions::by_id(connection, id)?.ok_or(StoreError::NotFound)?;
    sessions::delete(connection, id)?;
    Ok(session)
}

fn add_question_set(
    recorder: &mut Recorder,
    connection: &Connection,
    event: &str,
    set: &QuestionSet,
    now: Timestamp,
) -> Result<(), StoreError> {
    recorder.add(connection, format!("question_set.{event}"), set.id.to_string(), now, EventBody::QuestionSet(set))
}

fn add_session(
    recorder: &mut Recorder,
    connection: &Connection,
    event: &str,
    session: &Session,
    now: Timestamp,
) -> Result<(), StoreError> {
    recorder.add(connection, format!("session.{event}"), session.id.to_string(), now, EventBody::Session(session))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;
    use crate::{SqliteStore, Store};

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn noted(bytes: usize) -> Change {
        Change::EventOnly { kind: "test.noted".into(), subject: String::new(), payload: json!("x".repeat(bytes)) }
    }

    fn render(body: EventBody<'_>) -> String {
        match body {
            EventBody::Payload(payload) => payload.to_string(),
            _ => "{}".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_full_disk_is_reported_and_leaves_the_previous_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store");
        // Given a file that cannot grow.
        {
            let writer = store.writer.lock().await;
            let pages: i64 =
                writer.connection.pragma_query_value(None, "page_count", |row| row.get(0)).expect("a number");
            writer
                .connection
                .pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0))
                .expect("a limit");
        }
        let mut tx = store.begin().await.expect("a transaction");
        tx.record(noted(10), NOW).await.expect("a little fits");

        let full = tx.record(noted(1 << 20), NOW).await;

        assert!(matches!(full, Err(StoreError::Full)), "{full:?}");
        // Later changes must not be written without the failed one.
        assert!(matches!(tx.record(noted(10), NOW).await, Err(StoreError::Aborted)));
        assert!(matches!(tx.commit().await, Err(StoreError::Aborted)));
        assert_eq!(store.event_range().await.expect("a read"), 1..1);
        let mut tx = store.begin().await.expect("a transaction");
        tx.record(noted(10), NOW).await.expect("a little still fits");
        assert_eq!(tx.commit().await.expect("a commit"), 1);
    }

    #[tokio::test]
    async fn a_commit_whose_caller_is_gone_is_published_and_leaves_the_writer_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store");
        let published = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&published);
        store.publish_to(Box::new(move |events| sink.lock().expect("no panic").extend_from_slice(events)));
        for _ in 0..20 {
            let mut tx = store.begin().await.expect("a transaction");
            tx.record(noted(10), NOW).await.expect("an event");
            // Polled once: the commit is running on another thread when its future is dropped.
            let mut commit = tx.commit();
            let _ = poll_once(&mut commit).await;
            drop(commit);
        }
        let tx = store.begin().await.expect("a transaction");
        assert_eq!(tx.commit().await.expect("a commit"), 20);
        // Subscribers get exactly the stored events.
        let stored = store.events_after(0, 100).await.expect("a read");
        assert_eq!(stored.iter().map(|event| event.number).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
        assert_eq!(*published.lock().expect("no panic"), stored);
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            let done = std::pin::Pin::new(&mut *future).poll(context).is_ready();
            std::task::Poll::Ready(done)
        })
        .await
    }
}
