//! The life of a question set: questions from an agent to a human, kept as a folder.

use crate::question::Question;
use crate::text::one_line;
use crate::{QuestionSetId, SessionId, Timestamp};
use crate::{lifecycle::Lifecycle, words};

/// A title is one line of a list, not the question itself.
const TITLE_CHARS: usize = 200;

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

impl QuestionSetState {
    /// What happened when a set is found in this state, as its event is called: `question_set.asked`.
    pub const fn event(self) -> &'static str {
        match self {
            Self::Pending => "asked",
            Self::Completed => "completed",
            Self::Rejected => "rejected",
            Self::TimedOut => "timed_out",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What a home's store remembers of a set; all else is in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionSetSummary {
    pub id: QuestionSetId,
    pub state: QuestionSetState,
    /// The session of coven that asked, if it was one; whether of this home is not said.
    pub session: Option<SessionId>,
    /// What is asked first, in one line.
    pub title: String,
    pub question_count: u32,
    pub created_at: Timestamp,
    pub modified_at: Timestamp,
}

/// What these questions are called in a list: the first one's prompt in one line.
pub fn title_of(questions: &[Question]) -> String {
    let first = questions.first().map_or("", |question| question.prompt.as_str());
    one_line(first, TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_called_after_its_first_question() {
        let asked = |prompt: &str| Question {
            options: Vec::new(),
            prompt: prompt.to_owned(),
            title: "T".to_owned(),
            multi_select: false,
        };
        assert_eq!(title_of(&[asked("Which\n\n  database?\x1b[2J"), asked("Second?")]), "Which database? [2J");
        assert_eq!(title_of(&[]), "");
        assert_eq!(title_of(&[asked(&"x".repeat(500))]).chars().count(), TITLE_CHARS);
    }
}
