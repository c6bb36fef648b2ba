//! What a store can do. A write is always state and its event, in one transaction.

use std::ops::Range;

use async_trait::async_trait;
use coven_domain::entry::Entry;
use coven_domain::event::{Event, NewEvent};
use coven_domain::repo::Repo;
use coven_domain::retention::Cutoffs;
use coven_domain::session::Session;
use coven_domain::{SessionId, Timestamp};

use crate::{SessionPage, SessionQuery, StateSnapshot, StoreError, SweepReport};

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
    RepoAdded(Repo),
    /// Something happened that has no row of its own.
    Noted(NewEvent),
}

/// A message of an ACP session.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub session: SessionId,
    pub role: String,
    pub content: String,
    pub at: Timestamp,
}

/// An open write transaction: dropped without commit, nothing of it stays.
#[async_trait]
pub trait Tx: Send {
    async fn session(&mut self, id: SessionId) -> Result<Option<Session>, StoreError>;

    /// Writes the row and its event.
    async fn record(&mut self, change: Change, now: Timestamp) -> Result<(), StoreError>;

    /// Appends to a session's ledger. Entries whose `seq` is already there are left alone, so that reading a log
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
    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError>;
    /// Sessions a starting daemon must look at: launching, running, or killed without an exit code.
    async fn unsettled_sessions(&self) -> Result<Vec<Session>, StoreError>;

    /// Entries with `seq > after`, oldest first.
    async fn entries(&self, id: SessionId, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError>;
    /// The number of the newest entry; 0 for none.
    async fn last_entry(&self, id: SessionId) -> Result<u64, StoreError>;
    /// The newest keyframe at or before `offset`.
    async fn keyframe_before(&self, id: SessionId, offset: u64) -> Result<Option<Keyframe>, StoreError>;

    async fn repos(&self) -> Result<Vec<Repo>, StoreError>;

    /// The numbers of the events that are kept: `first..end`; empty while there is none (then `end` is the next number).
    async fn event_range(&self) -> Result<Range<u64>, StoreError>;
    async fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// The number of the last event at or before `at`; 0 if all are later.
    async fn event_number_at(&self, at: Timestamp) -> Result<u64, StoreError>;

    /// Everything, read in one transaction, with the last event number.
    async fn snapshot(&self) -> Result<StateSnapshot, StoreError>;

    /// Deletes what is older than the cut-offs in one transaction, with an event that lists what went.
    async fn sweep(&self, cutoffs: &Cutoffs, now: Timestamp) -> Result<SweepReport, StoreError>;
}
