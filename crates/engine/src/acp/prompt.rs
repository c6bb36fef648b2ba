//! Requests of clients to ACP sessions: prompts, cancelling, modes, messages.

use std::sync::Arc;
use std::time::Duration;

use coven_acp::{Effects, State};
use coven_domain::message::StoredMessage;
use coven_domain::query::MessageQuery;
use coven_domain::session::{Channel, Session};
use coven_domain::text::MAX_ACP_PROMPT_BYTES;
use coven_domain::{MessageId, SessionId};
use serde_json::Value;

use super::super::Engine;
use super::super::termination::ensure_live;
use super::{AcpConnection, AcpSession, CONNECTION_TIMEOUT, chunk_text, new_effects};
use crate::error::EngineError;

/// How long `session/cancel` may take to reach the agent before its process is ended.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

impl Engine {
    /// Stores the prompt and queues it. When this returns, a crash of the daemon does not lose it.
    pub async fn prompt(self: &Arc<Self>, id: SessionId, text: &str) -> Result<MessageId, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::Invalid("text: the prompt is empty".to_owned()));
        }
        if text.len() > MAX_ACP_PROMPT_BYTES {
            return Err(EngineError::Invalid(format!("text: the prompt is longer than {MAX_ACP_PROMPT_BYTES} bytes")));
        }
        let acp = self.live_acp_session(id).await?;
        self.change(&acp, |connection, effects| match connection.machine.state().is_ending() {
            true => Err(EngineError::NotLive { id, state: "ending".to_owned() }),
            false => Ok(connection.machine.prompt(text, effects)),
        })
        .await
    }

    /// Cancels the running turn; the session continues.
    pub async fn cancel_turn(self: &Arc<Self>, id: SessionId) -> Result<(), EngineError> {
        let acp = self.live_acp_session(id).await?;
        self.change(&acp, |connection, effects| match connection.machine.cancel_turn(effects) {
            true => Ok(()),
            false => Err(EngineError::NoTurn(id)),
        })
        .await
    }

    pub async fn set_mode(self: &Arc<Self>, id: SessionId, mode: &str) -> Result<(), EngineError> {
        let acp = self.live_acp_session(id).await?;
        self.change(&acp, |connection, effects| match connection.machine.set_mode(mode, effects) {
            true => Ok(()),
            false => Err(EngineError::NotOpenYet(id)),
        })
        .await
    }

    pub async fn set_config_option(
        self: &Arc<Self>,
        id: SessionId,
        option: &str,
        value: &str,
    ) -> Result<(), EngineError> {
        let acp = self.live_acp_session(id).await?;
        self.change(&acp, |connection, effects| match connection.machine.set_config_option(option, value, effects) {
            true => Ok(()),
            false => Err(EngineError::NotOpenYet(id)),
        })
        .await
    }

    /// Applies a client's change and stores it before it is answered.
    pub(super) async fn change<T>(
        self: &Arc<Self>,
        acp: &Arc<AcpSession>,
        decide: impl FnOnce(&mut AcpConnection, &mut Effects) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let waited = tokio::time::timeout(CONNECTION_TIMEOUT, acp.connection()).await;
        let mut connection = waited.map_err(|_| EngineError::Busy(acp.id))?;
        if connection.is_over {
            let session = self.session(acp.id).await?;
            ensure_live(&session)?;
            return Err(EngineError::HolderGone(acp.id));
        }
        let before = connection.machine.state().clone();
        let mut effects = new_effects();
        let decided = decide(&mut connection, &mut effects)?;
        self.commit_or_revert(acp, &mut connection, before, effects, None).await?;
        Ok(decided)
    }

    async fn live_acp_session(&self, id: SessionId) -> Result<Arc<AcpSession>, EngineError> {
        if let Some(acp) = self.acp_session(id) {
            return Ok(acp);
        }
        let session = self.session(id).await?;
        ensure_acp(&session)?;
        ensure_live(&session)?;
        Err(EngineError::HolderGone(id))
    }

    /// Sends `session/cancel`; the history keeps `reason`. Has a timeout, so that an end never waits for a session that
    /// cannot be stored.
    pub(crate) async fn send_cancel(self: &Arc<Self>, id: SessionId, reason: Option<&str>) -> Result<(), EngineError> {
        let Some(acp) = self.acp_session(id) else { return Ok(()) };
        acp.begin_end();
        let sent = self.change(&acp, |connection, effects| {
            connection.machine.begin_shutdown(reason, effects);
            Ok(())
        });
        match tokio::time::timeout(CANCEL_TIMEOUT, sent).await {
            Ok(sent) => sent?,
            Err(_) => return Err(EngineError::Busy(id)),
        }
        // The session ends even if the agent does not read its input.
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, acp.outbox.wait_until_drained()).await;
        Ok(())
    }

    /// Returns `read` of the live state, or else of the stored state, and whether the session is live.
    pub async fn acp_state<T>(&self, id: SessionId, read: impl Fn(&State) -> T) -> Result<(T, bool), EngineError> {
        let acp = self.acp_session(id);
        if let Some(acp) = &acp
            && let Some(seen) = acp.with_state(&read).await
        {
            return Ok((seen, true));
        }
        let session = self.session(id).await?;
        ensure_acp(&session)?;
        let stored = self.store.acp_checkpoint(id).await?;
        let state: State = stored.and_then(|stored| serde_json::from_str(&stored.state).ok()).unwrap_or_default();
        Ok((read(&state), acp.is_some()))
    }

    pub async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, EngineError> {
        Ok(self.store.messages(id, query).await?)
    }

    /// Returns messages as the history shows them: the chunks of an unfinished message are joined.
    pub async fn history(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, EngineError> {
        Ok(fold_chunks(self.messages(id, query).await?))
    }
}

/// Fails unless the session uses ACP.
pub fn ensure_acp(session: &Session) -> Result<(), EngineError> {
    match session.channel {
        Channel::Acp => Ok(()),
        Channel::Terminal => Err(EngineError::NotAcp(session.id)),
    }
}

fn fold_chunks(messages: Vec<StoredMessage>) -> Vec<StoredMessage> {
    let mut folded: Vec<StoredMessage> = Vec::with_capacity(messages.len());
    // Index and text of the unfinished message.
    let mut growing: Option<(usize, String)> = None;
    for mut message in messages {
        if !message.is_chunk {
            folded.push(message);
            continue;
        }
        let text = chunk_text(&message);
        match &mut growing {
            Some((place, whole)) if folded[*place].message_id == message.message_id => {
                whole.push_str(&text);
                (folded[*place].number, folded[*place].at) = (message.number, message.at);
            }
            _ => {
                finish(growing.take(), &mut folded);
                message.id = message.message_id;
                growing = Some((folded.len(), text));
                folded.push(message);
            }
        }
    }
    finish(growing, &mut folded);
    folded
}

fn finish(growing: Option<(usize, String)>, folded: &mut [StoredMessage]) {
    let Some((place, text)) = growing else { return };
    let mut content: Value = serde_json::from_str(&folded[place].content).unwrap_or_default();
    if let Some(content) = content.as_object_mut() {
        content.insert("text".to_owned(), Value::String(text));
    }
    folded[place].content = content.to_string();
}
