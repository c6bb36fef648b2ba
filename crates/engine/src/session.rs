//! Sessions: finding them, listing them, typing into them.

use coven_domain::SessionId;
use coven_domain::query::{SessionPage, SessionQuery};
use coven_domain::session::{Channel, Session};
use coven_domain::text::Title;
use coven_holder::wire::{MAX_BODY, Request};
use rustix::process::Signal;

use super::Engine;
use super::termination::ensure_live;
use crate::error::EngineError;

/// How many candidates an ambiguous prefix shows.
const SHOWN: usize = 5;
/// The most sessions of one title to search for the one that has not ended.
const MOST_WITH_TITLE: usize = 1000;

impl Engine {
    /// A whole id, any prefix that only one session has, or a title.
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
            true => self.store.session_ids_with_prefix(text, SHOWN).await?,
            false => Vec::new(),
        };
        match candidates.len() {
            0 => match self.session_with_title(text).await? {
                Some(id) => Ok(id),
                None => Err(match self.conversation_like(text).await {
                    Some(id) => EngineError::IsConversation(id),
                    None => EngineError::SessionNotFound(text.chars().take(64).collect()),
                }),
            },
            1 => Ok(candidates.remove(0)),
            _ => Err(EngineError::AmbiguousId { prefix: text.to_owned(), candidates }),
        }
    }

    /// The session with this title. Where several have it, the only one of them that has not ended.
    async fn session_with_title(&self, title: &str) -> Result<Option<SessionId>, EngineError> {
        let found = self.store.sessions_with_title(title.trim(), MOST_WITH_TITLE).await?;
        let ids = |sessions: &[&Session]| sessions.iter().map(|session| session.id).collect::<Vec<_>>();
        let all = ids(&found.iter().collect::<Vec<_>>());
        let current = ids(&found.iter().filter(|session| !session.is_over()).collect::<Vec<_>>());
        match (&all[..], &current[..]) {
            ([], _) => Ok(None),
            ([only], _) | (_, [only]) => Ok(Some(*only)),
            _ => {
                let candidates = all.into_iter().take(SHOWN).collect();
                Err(EngineError::AmbiguousTitle { title: title.chars().take(64).collect(), candidates })
            }
        }
    }

    /// Gives a session another title.
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

    /// Forwards input; when this returns the holder has it and has noted it down.
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

    /// Signals what is in the foreground of a session's terminal. Input that its harness does not read cannot delay this.
    pub async fn signal_session(&self, id: SessionId, signal: Signal) -> Result<(), EngineError> {
        let session = self.session(id).await?;
        ensure_terminal(&session)?;
        ensure_live(&session)?;
        self.send_to_holder(id, &[Request::Signal(signal.as_raw())]).await
    }
}

/// Refuses what only a terminal can do.
pub fn ensure_terminal(session: &Session) -> Result<(), EngineError> {
    match session.channel {
        Channel::Terminal => Ok(()),
        Channel::Acp => Err(EngineError::NoTerminal(session.id)),
    }
}
