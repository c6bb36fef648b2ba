//! Events for subscribers, and the state that they start from.

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
    /// Returns the next page, or `None` after the last one or if the read was interrupted.
    pub async fn next(&mut self) -> Result<Option<StatePage>, EngineError> {
        Ok(self.0.recv().await.transpose()?)
    }
}

impl Engine {
    /// Returns the feed of new events.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the range of stored event numbers.
    pub async fn event_range(&self) -> Result<Range<u64>, EngineError> {
        Ok(self.store.event_range().await?)
    }

    pub async fn events_after(&self, cursor: u64, limit: usize) -> Result<Vec<Event>, EngineError> {
        Ok(self.store.events_after(cursor, limit).await?)
    }

    /// Returns the number of the last event at or before this time.
    pub async fn event_number_at(&self, at: Timestamp) -> Result<u64, EngineError> {
        Ok(self.store.event_number_at(at).await?)
    }

    /// Returns at most `limit` rows after a cursor, read in one transaction.
    pub async fn state_page(&self, after: Option<StatePlace>, limit: usize) -> Result<StatePage, EngineError> {
        Ok(self.store.state_page(after, limit).await?)
    }

    /// Reads the whole state in one transaction, page by page.
    pub async fn state(&self) -> Result<StatePages, EngineError> {
        Ok(StatePages(self.store.state().await?))
    }

    /// Returns the repository if this home has it.
    pub async fn known_repo(&self, id: RepoId) -> Result<Option<Repo>, EngineError> {
        Ok(self.store.repo(id).await?)
    }

    /// Returns the session if this home has it.
    pub async fn known_session(&self, id: SessionId) -> Result<Option<Session>, EngineError> {
        Ok(self.store.session(id).await?)
    }

    pub fn max_body_bytes(&self) -> usize {
        self.config.http.max_body_bytes
    }
}
