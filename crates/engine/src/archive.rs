//! Archives, summons and sacrifices sessions, and compresses logs of finished ones.

use std::sync::Arc;

use coven_domain::SessionId;
use coven_domain::session::{Session, SessionState, SessionStateError};
use coven_holder::clock;
use coven_store::{Change, StoreError};

use super::Engine;
use super::log_file;
use super::termination::ANSWER_TIMEOUT;
use crate::error::EngineError;
use crate::runtime;
use coven_holder::fault;

impl Engine {
    pub async fn archive_session(&self, id: SessionId) -> Result<Session, EngineError> {
        let archived = self
            .change_session(id, "archived", |session, now| {
                session.archived(now).map_err(|source| EngineError::SessionState { id, source })
            })
            .await?;
        // It may have waited for its launch.
        self.launch_queue.changed.notify_one();
        Ok(archived)
    }

    pub async fn summon_session(&self, id: SessionId) -> Result<Session, EngineError> {
        self.change_session(id, "summoned", |session, now| {
            session.summoned(now).map_err(|source| EngineError::SessionState { id, source })
        })
        .await
    }

    /// Deletes record, ledger and log. Waits briefly for a session that was just killed.
    pub async fn sacrifice_session(&self, id: SessionId) -> Result<Session, EngineError> {
        let not_now = |source| EngineError::SessionState { id, source };
        let session = self.session(id).await?;
        session.ensure_not_running().map_err(not_now)?;
        if !session.is_detached() && !session.is_queued() {
            let ended = tokio::time::timeout(ANSWER_TIMEOUT, self.wait_for_end(id)).await;
            let ended = ended.map_err(|_| not_now(SessionStateError::Ending))??;
            if ended.has_survivors() {
                return Err(not_now(SessionStateError::Running));
            }
        }
        let session = match self.delete_record(id).await {
            // Deleting must work on a full disk.
            Err(EngineError::Store(StoreError::Full)) => {
                self.make_room();
                self.delete_record(id).await?
            }
            other => other?,
        };
        fault::point("after_sacrifice");
        self.remove_files(id).await;
        Ok(session)
    }

    async fn delete_record(&self, id: SessionId) -> Result<Session, EngineError> {
        let mut tx = self.store.begin().await?;
        let session = tx.session(id).await?.ok_or_else(|| EngineError::SessionNotFound(id.to_string()))?;
        session.ensure_not_running().map_err(|source| EngineError::SessionState { id, source })?;
        tx.record(Change::SessionSacrificed(id), clock::now()).await?;
        self.commit(tx).await?;
        Ok(session)
    }

    /// Removes a session's folder after the commit. Retention retries if this fails.
    pub(crate) async fn remove_files(&self, id: SessionId) {
        let dir = self.home.session_dir(id);
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(dir)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(session = %id, %error, "cannot remove the session's folder; retention retries");
        }
    }

    /// Completes the screen of an ended session and compresses its log in the background, one session at a time.
    pub(crate) fn compress_later(self: &Arc<Self>, id: SessionId) {
        let engine = self.clone();
        // Ends with the daemon, which leaves only complete files, plain or compressed.
        runtime::spawn(async move {
            let _turn = engine.compressing.lock().await;
            let is_finished = match engine.store.session(id).await {
                Ok(Some(session)) => !matches!(session.state, SessionState::Created | SessionState::Running),
                Ok(None) | Err(_) => false,
            };
            if !is_finished || engine.live_session(id).is_some() || engine.is_stopping() {
                return;
            }
            let dir = engine.home.session_dir(id);
            // A running holder may still write to the log.
            if coven_holder::client::connect_socket(&dir).is_ok() {
                return;
            }
            engine.close_screen(id).await;
            if !engine.config.sessions.compress_finished {
                return;
            }
            let engine = engine.clone();
            let done = tokio::task::spawn_blocking(move || log_file::compress(&dir, &|| engine.is_stopping())).await;
            if let Ok(Err(error)) = done {
                tracing::warn!(session = %id, %error, "cannot compress the log");
            }
        });
    }
}
