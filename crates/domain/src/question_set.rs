//! The life of a question set: questions from an agent to a human, kept as a folder.

use crate::{lifecycle::Lifecycle, words};

words! {
    pub enum QuestionSetState {
        Pending = "pending",
        Completed = "completed",
        Rejected = "rejected",
        TimedOut = "timed_out",
        Abandoned = "abandoned",
    }
}

words! {
    pub enum QuestionSetFact {
        Answered = "answered",
        Rejected = "rejected",
        Expired = "expired",
        Abandoned = "abandoned",
    }
}

impl Lifecycle for QuestionSetState {
    type Fact = QuestionSetFact;

    const NOUN: &'static str = "question set";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [QuestionSetFact] = QuestionSetFact::ALL;
    const TRANSITIONS: &'static [(Self, QuestionSetFact, Self)] = {
        use QuestionSetFact as On;
        use QuestionSetState::*;
        &[
            (Pending, On::Answered, Completed),
            (Pending, On::Rejected, Rejected),
            (Pending, On::Expired, TimedOut),
            (Pending, On::Abandoned, Abandoned),
        ]
    };
}
