//! Events for subscribers, and the state that they begin with.

use std::ops::Range;

use coven_domain::event::Event;
use coven_domain::query::{StatePage, StatePlace};
use coven_domain::repo::Repo;
use coven_domain::session::Session;
use coven_domain::{RepoId, SessionId, Timestamp};
use coven_store::StoreError;
use tokio::sync::mpsc::Receiver;

use crate::Engine;
use crate::error::EngineError;
use crate::events::Hub;

/// Pages of one state.
pub struct StatePages(Receiver<Result<StatePage, StoreError>>);

impl StatePages {
    /// The next page; none behind the last one, and where the read was cut off.
    pub async fn next(&mut self) -> Result<Option<StatePage>, EngineError> {
        Ok(self.0.recv().await.transpose()?)
    }
}

impl Engine {
    /// New events, ready to be sent.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The numbers of the events that are kept.
    pub async fn event_range(&self) -> Result<Range<u64>, EngineError> {
        Ok(self.store.event_range().await?)
    }

    pub async fn events_after(&self, cursor: u64, limit: usize) -> Result<Vec<Event>, EngineError> {
        Ok(self.store.events_after(cursor, limit).await?)
    }

    /// The number of the last event at or before this moment.
    pub async fn event_number_at(&self, at: Timestamp) -> Result<u64, EngineError> {
        Ok(self.store.event_number_at(at).await?)
    }

    /// At most `limit` rows of everything behind a place, read in one transaction.
    pub async fn state_page(&self, after: Option<StatePlace>, limit: usize) -> Result<StatePage, EngineError> {
        Ok(self.store.state_page(after, limit).await?)
    }

    /// Everything, read in one transaction, some rows at a time.
    pub async fn state(&self) -> Result<StatePages, EngineError> {
        Ok(StatePages(self.store.state().await?))
    }

    /// The repository, if this home knows it.
    pub async fn known_repo(&self, id: RepoId) -> Result<Option<Repo>, EngineError> {
        Ok(self.store.repo(id).await?)
    }

    /// The session, if this home knows it.
    pub async fn known_session(&self, id: SessionId) -> Result<Option<Session>, EngineError> {
        Ok(self.store.session(id).await?)
    }

    pub fn max_body_bytes(&self) -> usize {
        self.config.http.max_body_bytes
    }
}
