//! Conversations of `coven spawn`: shown beside the sessions, never written to from here.

use coven_domain::conversation::{ConversationId, Summary};
use coven_interop::conversations::{ConversationError, Conversations, LastTurns, Listing};

pub use coven_interop::conversations::Filter;

use super::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;

impl Engine {
    pub async fn list_conversations(&self, filter: Filter) -> Result<Listing, EngineError> {
        self.beside_files(move |conversations| conversations.list(&filter)).await
    }

    /// One, by its name or a unique beginning of it.
    pub async fn conversation_summary(&self, text: String) -> Result<Summary, EngineError> {
        self.beside_files(move |conversations| conversations.summary(&conversations.find(&text)?)).await
    }

    /// The last ones, of all or of the first `before`.
    pub async fn last_turns(&self, text: String, count: usize, before: Option<u64>) -> Result<LastTurns, EngineError> {
        self.beside_files(move |conversations| {
            let id = conversations.find(&text)?;
            match before {
                Some(before) => conversations.load_before(&id, count, before),
                None => conversations.load_last(&id, count),
            }
        })
        .await
    }

    /// The conversation that is meant by what is no session's id.
    pub(super) async fn conversation_like(&self, text: &str) -> Option<ConversationId> {
        let text = text.to_owned();
        self.beside_files(move |conversations| conversations.find(&text)).await.ok()
    }

    /// Reads files on a thread that is there for waiting.
    async fn beside_files<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Conversations) -> Result<T, ConversationError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let conversations = self.conversations.clone();
        Ok(blocking(move || read(&conversations)).await?)
    }
}
