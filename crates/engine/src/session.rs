//! Finds and lists sessions, and sends them input and signals.

use coven_domain::SessionId;
use coven_domain::query::{SessionPage, SessionQuery};
use coven_domain::session::{Channel, Session};
use coven_domain::text::Title;
use coven_holder::wire::{MAX_BODY, Request};
use rustix::process::Signal;

use super::Engine;
use super::termination::ensure_live;
use crate::error::EngineError;

/// Number of candidate ids in an error message.
const MAX_CANDIDATES: usize = 5;
/// Maximum number of sessions with one title that are searched for one that has not ended.
const MAX_WITH_TITLE: usize = 1000;

impl Engine {
    /// Finds a session by its id, a unique prefix or its title.
    pub async fn find_session(&self, text: &str) -> Result<SessionId, EngineError> {
        if text.len() == 36
            && let Ok(id) = text.parse()
        {
            return Ok(id);
        }
        let is_prefix = text.len() <= 36
            && text.starts_with(|c: char| c.is_ascii_hexdigit())
            && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let mut candidates = match is_prefix {
            true => self.store.session_ids_with_prefix(text, MAX_CANDIDATES).await?,
            false => Vec::new(),
        };
        match candidates.len() {
            0 => match self.session_with_title(text).await? {
                Some(id) => Ok(id),
                None => Err(match self.find_conversation(text).await {
                    Ok(id) => EngineError::IsConversation(id),
                    Err(_) => EngineError::SessionNotFound(text.chars().take(64).collect()),
                }),
            },
            1 => Ok(candidates.remove(0)),
            _ => Err(EngineError::AmbiguousId { prefix: text.to_owned(), candidates }),
        }
    }

    /// Returns the session with this title. If several have it, returns the only one that has not ended.
    async fn session_with_title(&self, title: &str) -> Result<Option<SessionId>, EngineError> {
        let found = self.store.sessions_with_title(title.trim(), MAX_WITH_TITLE).await?;
        let ids = |sessions: &[&Session]| sessions.iter().map(|session| session.id).collect::<Vec<_>>();
        let all = ids(&found.iter().collect::<Vec<_>>());
        let current = ids(&found.iter().filter(|session| !session.is_over()).collect::<Vec<_>>());
        match (&all[..], &current[..]) {
            ([], _) => Ok(None),
            ([only], _) | (_, [only]) => Ok(Some(*only)),
            _ => {
                let candidates = all.into_iter().take(MAX_CANDIDATES).collect();
                Err(EngineError::AmbiguousTitle { title: title.chars().take(64).collect(), candidates })
            }
        }
    }

    /// Changes the title of a session.
    pub async fn rename_session(&self, id: SessionId, title: &str) -> Result<Session, EngineError> {
        let title = Title::parse(title)?.into_string();
        self.change_session(id, "renamed", |session, now| -> Result<(), EngineError> {
            session.renamed(title, now);
            Ok(())
        })
        .await
    }

    pub async fn session(&self, id: SessionId) -> Result<Session, EngineError> {
        self.store.session(id).await?.ok_or_else(|| EngineError::SessionNotFound(id.to_string()))
    }

    pub async fn list_sessions(&self, query: &SessionQuery) -> Result<SessionPage, EngineError> {
        Ok(self.store.sessions(query).await?)
    }

    /// Sends input. When this returns, the holder has recorded it.
    pub async fn send_input(&self, id: SessionId, bytes: Vec<u8>) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        ensure_terminal(&session)?;
        ensure_live(&session)?;
        let pieces: Vec<Request> = bytes.chunks(MAX_BODY).map(|piece| Request::Input(piece.to_vec())).collect();
        self.send_to_holder(id, &pieces).await
    }

    pub async fn resize_session(&self, id: SessionId, rows: u16, cols: u16) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        ensure_terminal(&session)?;
        ensure_live(&session)?;
        self.send_to_holder(id, &[Request::Resize { rows, cols }]).await
    }

    /// Signals the foreground processes of a session's terminal. Unread input does not delay this.
    pub async fn signal_session(&self, id: SessionId, signal: Signal) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        ensure_terminal(&session)?;
        ensure_live(&session)?;
        self.send_to_holder(id, &[Request::Signal(signal.as_raw())]).await
    }
}

/// Fails unless the session has a terminal.
pub fn ensure_terminal(session: &Session) -> Result<(), EngineError> {
    match session.channel {
        Channel::Terminal => Ok(()),
        Channel::Acp => Err(EngineError::NoTerminal(session.id)),
    }
}
