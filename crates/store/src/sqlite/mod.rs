//! The store in one SQLite file, with one writer, a few readers and one owning process.

mod agents;
pub mod checksums;
mod connection;
mod entries;
mod events;
mod listing;
mod messages;
pub mod migrations;
mod observations;
mod operations;
mod question_sets;
mod readers;
pub mod repair;
mod repos;
mod requests;
mod sessions;
mod snapshot;
mod sweep;
mod tasks;
mod tx;
mod workflows;

use std::any::Any;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use coven_domain::activity::{ActivityCheckpoint, JudgedObservation};
use coven_domain::agent::Agent;
use coven_domain::entry::Entry;
use coven_domain::event::Event;
use coven_domain::message::StoredMessage;
use coven_domain::operation::Operation;
use coven_domain::question_set::QuestionSetSummary;
use coven_domain::repo::Repo;
use coven_domain::request::Request;
use coven_domain::retention::Cutoffs;
use coven_domain::session::Session;
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, OperationId, RepoId, RequestId, SessionId, TaskId, Timestamp, WorkflowId};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};

use self::connection::{Lock, make_private};
use self::readers::Readers;
use self::tx::{SqliteTx, Writer, Writing};
use crate::{AcpCheckpoint, Keyframe, Publish, Render, Store, StoreError, Tx};
use coven_domain::query::{
    AgentQuery, ItemPlace, MessageQuery, OperationQuery, Page, RequestQuery, RowPlace, SessionPage, SessionQuery,
    StatePage, StatePlace, SweepReport, TaskHistoryEntry, TaskPage, TaskQuery, WaitingItem, WaitingQuery,
    WorkflowQuery,
};

/// One for a long read, two for short reads in the meantime.
const READERS: usize = 3;
const SLOW_READERS: usize = 2;
/// Bodies and definitions may be long: a page ends once it contains this many bytes of them.
const PAGE_BYTES: usize = 4 << 20;
/// Reads of more rows than this run on a blocking thread.
const SHORT_READ_ROWS: usize = 256;
/// Reads that skip more rows than this run on a blocking thread.
const SHORT_SKIP_ROWS: u64 = 4096;

pub struct SqliteStore {
    // Dropped before the writer: the last connection to close cleans up, and only the writer may do that.
    readers: Arc<Readers>,
    /// For reads that last until a client has received all rows.
    slow_readers: Arc<Readers>,
    writer: Arc<Mutex<Writer>>,
}

impl SqliteStore {
    /// Opens the file; creates it and migrates its schema if needed. The opener owns the file: a second one, in this
    /// process or another, immediately gets [`StoreError::Locked`].
    pub fn open(path: impl AsRef<Path>, render: Render) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut lock = Lock::take(path)?;
        make_private(path)?;
        let (connection, _) = migrations::bring_up_to_date(&mut lock, path)?;
        let (readers, slow_readers) = (Readers::open(path, READERS)?, Readers::open(path, SLOW_READERS)?);
        Ok(Self { readers, slow_readers, writer: Arc::new(Mutex::new(Writer::new(connection, lock, render))) })
    }

    /// Sends the events of all commits to `publish`. Must be called before the first transaction.
    pub fn publish_to(&mut self, publish: Publish) {
        let writer = Arc::get_mut(&mut self.writer).expect("no transaction is open yet");
        writer.get_mut().publish = Some(publish);
    }

    async fn writing(&self) -> Result<Writing, StoreError> {
        Writing::begin(Arc::clone(&self.writer).lock_owned().await)
    }

    /// Runs a short read on the current thread.
    async fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        read(&*self.readers.take().await)
    }

    /// Runs a longer read on a blocking thread.
    async fn read_aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = self.readers.take().await;
        aside(move || read(&reader)).await
    }
}

/// One type of work for all, so that tokio's code for a task is compiled once.
type Work = Box<dyn FnOnce() -> Result<Box<dyn Any + Send>, StoreError> + Send>;

/// Runs work that may wait for the disk on a blocking thread.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let work: Work = Box::new(|| work().map(|done| Box::new(done) as Box<dyn Any + Send>));
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(*done?.downcast().expect("the box holds what the work returned")),
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        // The runtime is shutting down; an open transaction is rolled back.
        Err(_) => Err(StoreError::Aborted),
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn begin(&self) -> Result<Box<dyn Tx>, StoreError> {
        Ok(Box::new(SqliteTx::new(self.writing().await?)))
    }

    async fn begin_unsynced(&self) -> Result<Box<dyn Tx>, StoreError> {
        let writer = Arc::clone(&self.writer).lock_owned().await;
        Ok(Box::new(SqliteTx::new(Writing::begin_unsynced(writer)?)))
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, StoreError> {
        self.read(|connection| sessions::by_id(connection, id)).await
    }

    async fn session_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        self.read(|connection| sessions::ids_with_prefix(connection, prefix, limit)).await
    }

    async fn sessions_with_title(&self, title: &str, limit: usize) -> Result<Vec<Session>, StoreError> {
        let title = title.to_owned();
        self.read_aside(move |connection| sessions::with_title(connection, &title, limit)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError> {
        if query.limit <= SHORT_READ_ROWS && query.offset <= SHORT_SKIP_ROWS {
            return self.read(|connection| listing::page(connection, query)).await;
        }
        let query = query.clone();
        self.read_aside(move |connection| listing::page(connection, &query)).await
    }

    async fn sessions_to_recover(&self) -> Result<Vec<Session>, StoreError> {
        self.read_aside(sessions::to_recover).await
    }

    async fn entries(&self, id: SessionId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
        if limit <= SHORT_READ_ROWS {
            return self.read(|connection| entries::after(connection, id, after, limit)).await;
        }
        self.read_aside(move |connection| entries::after(connection, id, after, limit)).await
    }

    async fn last_entry(&self, id: SessionId) -> Result<u64, StoreError> {
        self.read(|connection| entries::last(connection, id)).await
    }

    async fn keyframe_before(&self, id: SessionId, offset: u64) -> Result<Option<Keyframe>, StoreError> {
        self.read(|connection| entries::keyframe_before(connection, id, offset)).await
    }

    async fn observations(&self, id: SessionId) -> Result<Vec<JudgedObservation>, StoreError> {
        self.read(|connection| observations::of_session(connection, id)).await
    }

    async fn activity_checkpoint(&self, id: SessionId) -> Result<ActivityCheckpoint, StoreError> {
        self.read(|connection| observations::checkpoint(connection, id)).await
    }

    async fn repos(&self) -> Result<Vec<Repo>, StoreError> {
        self.read(repos::all).await
    }

    async fn repo(&self, id: RepoId) -> Result<Option<Repo>, StoreError> {
        self.read(|connection| repos::by_id(connection, id)).await
    }

    async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, StoreError> {
        if query.limit.is_some_and(|limit| limit <= SHORT_READ_ROWS) {
            return self.read(|connection| messages::list(connection, id, query)).await;
        }
        let query = query.clone();
        self.read_aside(move |connection| messages::list(connection, id, &query)).await
    }

    async fn acp_checkpoint(&self, id: SessionId) -> Result<Option<AcpCheckpoint>, StoreError> {
        self.read(|connection| messages::acp_checkpoint(connection, id)).await
    }

    async fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>, StoreError> {
        self.read(|connection| requests::list(connection, query)).await
    }

    async fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        self.read(|connection| requests::by_id(connection, id)).await
    }

    async fn waiting(&self, query: &WaitingQuery) -> Result<Vec<WaitingItem>, StoreError> {
        self.read(|connection| requests::waiting(connection, query)).await
    }

    async fn waiting_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WaitingItem>, StoreError> {
        self.read(|connection| requests::with_prefix(connection, prefix, limit)).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.read(|connection| tasks::by_id(connection, id)).await
    }

    async fn task_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.read(|connection| tasks::ids_with_prefix(connection, prefix, limit)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, StoreError> {
        let query = query.clone();
        self.read_aside(move |connection| tasks::page(connection, &query)).await
    }

    async fn task_dependencies(&self, id: TaskId) -> Result<Vec<(TaskId, TaskState)>, StoreError> {
        self.read(|connection| tasks::dependencies(connection, id)).await
    }

    async fn task_history(&self, id: TaskId, after: u64, limit: usize) -> Result<Vec<TaskHistoryEntry>, StoreError> {
        self.read_aside(move |connection| tasks::history(connection, id, after, limit)).await
    }

    async fn agent(&self, id: AgentId) -> Result<Option<Agent>, StoreError> {
        self.read(|connection| agents::by_id(connection, id)).await
    }

    async fn agents(
        &self,
        query: AgentQuery,
        after: Option<RowPlace>,
        limit: usize,
    ) -> Result<Page<Agent>, StoreError> {
        self.read(|connection| agents::page(connection, query, after, limit)).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<WorkflowRun>, StoreError> {
        self.read(|connection| workflows::by_id(connection, id)).await
    }

    async fn workflow_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<WorkflowId>, StoreError> {
        self.read(|connection| ids_with_prefix(connection, "workflows", prefix, limit)).await
    }

    async fn workflows(&self, query: &WorkflowQuery) -> Result<Page<WorkflowRun>, StoreError> {
        let query = query.clone();
        self.read_aside(move |connection| workflows::page(connection, &query)).await
    }

    async fn operation(&self, id: OperationId) -> Result<Option<Operation>, StoreError> {
        self.read(|connection| operations::by_id(connection, id)).await
    }

    async fn operation_ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<OperationId>, StoreError> {
        self.read(|connection| ids_with_prefix(connection, "operations", prefix, limit)).await
    }

    async fn operations(&self, query: &OperationQuery) -> Result<Page<Operation>, StoreError> {
        let query = query.clone();
        self.read_aside(move |connection| operations::page(connection, &query)).await
    }

    async fn question_sets(&self) -> Result<Vec<QuestionSetSummary>, StoreError> {
        self.read_aside(question_sets::summaries).await
    }

    async fn event_range(&self) -> Result<Range<u64>, StoreError> {
        self.read(events::range).await
    }

    async fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        if limit <= SHORT_READ_ROWS {
            return self.read(|connection| events::after(connection, number, limit)).await;
        }
        self.read_aside(move |connection| events::after(connection, number, limit)).await
    }

    async fn event_number_at(&self, at: Timestamp) -> Result<u64, StoreError> {
        self.read(|connection| events::number_at(connection, at)).await
    }

    async fn state_page(&self, after: Option<StatePlace>, limit: usize) -> Result<StatePage, StoreError> {
        self.read_aside(move |connection| snapshot::page(connection, after, limit)).await
    }

    async fn state(&self) -> Result<Receiver<Result<StatePage, StoreError>>, StoreError> {
        let reader = self.slow_readers.take().await;
        let (sender, receiver) = channel(1);
        tokio::task::spawn_blocking(move || snapshot::send(&reader, &sender));
        Ok(receiver)
    }

    async fn sweep(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError> {
        let (writing, cutoffs) = (self.writing().await?, *cutoffs);
        aside(move || {
            let mut recorder = writing.recorder();
            let report = sweep::sweep(writing.connection(), &mut recorder, &cutoffs, now)?;
            writing.commit(&recorder)?;
            Ok(report)
        })
        .await
    }

    async fn sweep_preview(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError> {
        let (writing, cutoffs) = (self.writing().await?, *cutoffs);
        // Runs the real sweep and rolls it back.
        aside(move || {
            let report = sweep::sweep(writing.connection(), &mut writing.recorder(), &cutoffs, now)?;
            Ok(SweepReport { event_number: None, ..report })
        })
        .await
    }
}

/// Returns time and id of a cursor; without one, values smaller than all others.
fn behind(place: Option<&ItemPlace>) -> (i64, &str) {
    place.map_or((i64::MIN, ""), |place| (place.at.as_millis(), &place.id))
}

/// Rows after a row number, in row order.
struct RowsAfter<T> {
    items: Vec<T>,
    last: Option<i64>,
    has_more: bool,
}

/// Reads rows whose last column is their number. The parameters of `sql` are the previous number and a limit.
fn rows_after<T>(
    connection: &Connection,
    sql: &str,
    row: i64,
    limit: usize,
    read: fn(&Row<'_>) -> Result<T, StoreError>,
    bytes_of: fn(&T) -> usize,
) -> Result<RowsAfter<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let number = statement.column_count() - 1;
    let mut rows = statement.query([row, count(limit.saturating_add(1))])?;
    let (mut found, mut bytes) = (RowsAfter { items: Vec::new(), last: None, has_more: false }, 0);
    while let Some(row) = rows.next()? {
        if found.items.len() == limit || bytes >= PAGE_BYTES {
            found.has_more = true;
            break;
        }
        let item = read(row)?;
        bytes += bytes_of(&item);
        found.last = Some(row.get(number)?);
        found.items.push(item);
    }
    Ok(found)
}

/// Converts to SQLite's signed integers; a larger cursor is past every row anyway.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number)
        .map_err(|_| StoreError::corrupt(format!("negative number {number} where a count was expected")))
}

/// Reads one of the domain's words or ids.
/// The ids of a table that start with `prefix`.
fn ids_with_prefix<T>(
    connection: &Connection,
    table: &'static str,
    prefix: &str,
    limit: usize,
) -> Result<Vec<T>, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let sql = format!("SELECT id FROM {table} WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let (from, to) = (prefix.to_ascii_lowercase(), format!("{}~", prefix.to_ascii_lowercase()));
    let mut rows = statement.query(params![from, to, count(limit)])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.push(parsed(row.get_ref(0)?.as_str()?)?);
    }
    Ok(ids)
}

/// One page of a list, newest first. `select` reads the columns and then the row id.
fn newest_first<T>(
    connection: &Connection,
    select: &str,
    mut values: Vec<Value>,
    limit: usize,
    from_row: fn(&Row<'_>) -> Result<T, StoreError>,
    created_at: fn(&T) -> Timestamp,
) -> Result<Page<T>, StoreError> {
    // One more than asked for shows whether there is another page.
    values.push(count(limit.saturating_add(1)).into());
    let mut statement = connection.prepare_cached(&format!("{select} ORDER BY created_at DESC, rowid DESC LIMIT ?"))?;
    let row_id = statement.column_count() - 1;
    let mut rows = statement.query(params_from_iter(&values))?;
    let (mut items, mut next) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        if items.len() == limit {
            return Ok(Page { items, next });
        }
        let item = from_row(row)?;
        next = Some(RowPlace { at: created_at(&item), row: row.get(row_id)? });
        items.push(item);
    }
    Ok(Page { items, next: None })
}

fn parsed<T>(text: &str) -> Result<T, StoreError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|problem| StoreError::corrupt(format!("{text:?}: {problem}")))
}

fn from_json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|problem| StoreError::corrupt(format!("JSON: {problem}")))
}

fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data with string keys serializes to JSON")
}
