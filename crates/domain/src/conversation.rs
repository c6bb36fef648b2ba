//! A conversation: a multi-turn chat stored as a JSONL file. Its lifecycle, id, lines and prompt context.

mod context;
mod id;
mod line;
mod parse;
mod summary;
mod transcript;

use crate::{lifecycle::Lifecycle, string_enum};

pub use context::{Context, Fitted, Trim, Warning, estimated_tokens};
pub use id::{BadConversationId, ConversationId};
pub use line::{Line, Metadata, Turn, TurnRole, Usage};
pub use parse::BadLine;
pub use summary::Summary;
pub use transcript::Transcript;

string_enum! {
    pub enum ConversationState { Active = "active", Completed = "completed", Interrupted = "interrupted" }
}

string_enum! {
    pub enum ConversationFact { Finished = "finished", Broken = "broken", Resumed = "resumed" }
}

impl Lifecycle for ConversationState {
    type Fact = ConversationFact;

    const NOUN: &'static str = "conversation";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [ConversationFact] = ConversationFact::ALL;
    const TRANSITIONS: &'static [(Self, ConversationFact, Self)] = {
        use ConversationFact as On;
        use ConversationState::*;
        &[
            (Active, On::Finished, Completed),
            (Active, On::Broken, Interrupted),
            (Completed, On::Resumed, Active),
            (Interrupted, On::Resumed, Active),
        ]
    };
}
