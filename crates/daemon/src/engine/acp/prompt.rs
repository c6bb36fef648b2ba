//! What people ask of a conversation: prompts, cancelling, modes, messages.

use std::sync::Arc;
use std::time::Duration;

use coven_acp::{State, Step};
use coven_domain::message::{Message, MessageChange, Role, StoredMessage};
use coven_domain::session::{Channel, Session};
use coven_domain::text::MAX_ACP_PROMPT_BYTES;
use coven_domain::{MessageId, SessionId};
use coven_store::MessageQuery;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::Engine;
use super::super::ending::must_be_live;
use super::{Conversation, Talk, new_step, piece_text};
use crate::error::EngineError;

/// How long a goodbye may take to reach the agent before its process is ended.
const GOODBYE_LIMIT: Duration = Duration::from_millis(500);

impl Engine {
    /// Stores the prompt and lets it follow its way; when this returns no crash can lose it.
    pub async fn prompt(self: &Arc<Self>, id: SessionId, text: &str) -> Result<MessageId, EngineError> {
        if text.trim().is_empty() {
            return Err(EngineError::Invalid("text: the prompt is empty".to_owned()));
        }
        if text.len() > MAX_ACP_PROMPT_BYTES {
            return Err(EngineError::Invalid(format!("text: the prompt is longer than {MAX_ACP_PROMPT_BYTES} bytes")));
        }
        let conversation = self.live_conversation(id).await?;
        self.change(&conversation, |talk, step| Ok(talk.machine.prompt(text, step))).await
    }

    /// Stops the turn that runs; the session goes on.
    pub async fn cancel_turn(self: &Arc<Self>, id: SessionId) -> Result<(), EngineError> {
        let conversation = self.live_conversation(id).await?;
        self.change(&conversation, |talk, step| match talk.machine.cancel_turn(step) {
            true => Ok(()),
            false => Err(EngineError::NoTurn(id)),
        })
        .await
    }

    pub async fn set_mode(self: &Arc<Self>, id: SessionId, mode: &str) -> Result<(), EngineError> {
        let conversation = self.live_conversation(id).await?;
        self.change(&conversation, |talk, step| match talk.machine.set_mode(mode, step) {
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
        let conversation = self.live_conversation(id).await?;
        self.change(&conversation, |talk, step| match talk.machine.set_config_option(option, value, step) {
            true => Ok(()),
            false => Err(EngineError::NotOpenYet(id)),
        })
        .await
    }

    /// One change that somebody asked for, stored before it is answered.
    pub(super) async fn change<T>(
        self: &Arc<Self>,
        conversation: &Arc<Conversation>,
        decide: impl FnOnce(&mut Talk, &mut Step) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut talk = conversation.talk().await;
        if talk.is_over {
            let session = self.session(conversation.id).await?;
            must_be_live(&session)?;
            return Err(EngineError::HolderGone(conversation.id));
        }
        let before = talk.machine.state().clone();
        let mut step = new_step();
        let decided = decide(&mut talk, &mut step)?;
        self.settle(conversation, &mut talk, before, step).await?;
        Ok(decided)
    }

    async fn live_conversation(&self, id: SessionId) -> Result<Arc<Conversation>, EngineError> {
        if let Some(conversation) = self.conversation(id) {
            return Ok(conversation);
        }
        let session = self.session(id).await?;
        must_speak_acp(&session)?;
        must_be_live(&session)?;
        Err(EngineError::HolderGone(id))
    }

    /// The agent hears that its session is about to end; `reason` is kept for readers.
    pub(crate) async fn say_goodbye(self: &Arc<Self>, id: SessionId, reason: Option<&str>) -> Result<(), EngineError> {
        let Some(conversation) = self.conversation(id) else { return Ok(()) };
        self.change(&conversation, |talk, step| {
            talk.machine.tell_cancel(step);
            if let Some(reason) = reason {
                let message = Message::new(
                    MessageId::from_uuid(Uuid::new_v4()),
                    Role::System,
                    &json!({ "type": "cancelled", "reason": reason }),
                );
                step.messages.push(MessageChange::Added(message));
            }
            Ok(())
        })
        .await?;
        // An agent that reads nothing is ended all the same.
        let _ = tokio::time::timeout(GOODBYE_LIMIT, conversation.outbox.emptied()).await;
        Ok(())
    }

    /// What is known of the agent, live or as it was at the end.
    pub async fn agent_state(&self, id: SessionId) -> Result<(State, bool), EngineError> {
        if let Some(conversation) = self.conversation(id) {
            return Ok((conversation.state().await, true));
        }
        let session = self.session(id).await?;
        must_speak_acp(&session)?;
        let stored = self.store.conversation(id).await?;
        let state = stored.and_then(|stored| serde_json::from_str(&stored.state).ok()).unwrap_or_default();
        Ok((state, false))
    }

    pub async fn messages(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, EngineError> {
        Ok(self.store.messages(id, query).await?)
    }

    /// Messages as history has them: the pieces of one that is still being written are one.
    pub async fn history(&self, id: SessionId, query: &MessageQuery) -> Result<Vec<StoredMessage>, EngineError> {
        Ok(folded(self.messages(id, query).await?))
    }
}

/// Refuses what only a conversation can do.
pub(crate) fn must_speak_acp(session: &Session) -> Result<(), EngineError> {
    match session.channel {
        Channel::Acp => Ok(()),
        Channel::Terminal => Err(EngineError::NotAcp(session.id)),
    }
}

fn folded(messages: Vec<StoredMessage>) -> Vec<StoredMessage> {
    let mut folded: Vec<StoredMessage> = Vec::with_capacity(messages.len());
    let mut text = String::new();
    let mut messages = messages.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        if message.is_piece {
            text.push_str(&piece_text(&message));
            if messages.peek().is_some_and(|next| next.is_piece && next.whole == message.whole) {
                continue;
            }
            let mut content: Value = serde_json::from_str(&message.content).unwrap_or_default();
            content["text"] = Value::String(std::mem::take(&mut text));
            (message.content, message.id) = (content.to_string(), message.whole);
        }
        folded.push(message);
    }
    folded
}
