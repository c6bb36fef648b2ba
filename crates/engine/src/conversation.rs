//! Conversations of `coven spawn`: listed with the sessions, read-only.

use coven_domain::conversation::{ConversationId, Summary};
use coven_interop::conversations::{ConversationError, Conversations, LastTurns, Listing};

pub use coven_interop::conversations::Filter;

use super::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;

impl Engine {
    pub async fn list_conversations(&self, filter: Filter) -> Result<Listing, EngineError> {
        self.read_files(move |conversations| conversations.list(&filter)).await
    }

    /// Finds a conversation by its name or a unique prefix.
    pub async fn conversation_summary(&self, text: String) -> Result<Summary, EngineError> {
        self.read_files(move |conversations| conversations.summary(&conversations.find(&text)?)).await
    }

    /// Returns the last `count` turns, or the last `count` of the first `before`.
    pub async fn last_turns(
        &self,
        id: ConversationId,
        count: usize,
        before: Option<u64>,
    ) -> Result<LastTurns, EngineError> {
        self.read_files(move |conversations| match before {
            Some(before) => conversations.load_before(&id, count, before),
            None => conversations.load_last(&id, count),
        })
        .await
    }

    /// Finds a conversation by its id or a unique prefix of it.
    pub async fn find_conversation(&self, text: &str) -> Result<ConversationId, EngineError> {
        let text = text.to_owned();
        self.read_files(move |conversations| conversations.find(&text)).await
    }

    /// Reads files on a blocking thread.
    async fn read_files<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Conversations) -> Result<T, ConversationError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let conversations = self.conversations.clone();
        Ok(blocking(move || read(&conversations)).await?)
    }
}
