//! A question set: questions from an agent to a human, stored as a folder.

use serde::{Deserialize, Serialize};

use crate::question::{Question, QuestionAnswer};
use crate::text::one_line;
use crate::{QuestionSetId, SessionId, Timestamp};
use crate::{lifecycle::Lifecycle, string_enum};

/// Titles are shortened for lists.
const TITLE_CHARS: usize = 200;

string_enum! {
    pub enum QuestionSetState {
        Pending = "pending",
        Completed = "completed",
        Rejected = "rejected",
        TimedOut = "timed_out",
        Abandoned = "abandoned",
    }
}

string_enum! {
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
    /// Returns the suffix of the event that announces a set in this state, as in `question_set.asked`.
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

/// The contents of a set's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionSet {
    pub id: QuestionSetId,
    pub questions: Vec<Question>,
    pub state: QuestionSetState,
    pub created_at: Timestamp,
    pub modified_at: Timestamp,
    pub call_id: Option<String>,
    pub working_directory: Option<String>,
    /// The coven session that asked, if any.
    pub session: Option<String>,
    /// `session:<id>` if a process in a session answered or rejected the set instead of the human.
    pub answered_by: Option<String>,
    pub rejection_reason: Option<String>,
    /// Why coven abandoned the set.
    pub abandon_reason: Option<String>,
    pub answers: Option<Answers>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    pub answers: Vec<QuestionAnswer>,
    pub timestamp: Timestamp,
    pub last_read_at: Option<Timestamp>,
}

impl QuestionSet {
    /// Returns the part that a daemon remembers.
    pub fn summary(&self) -> QuestionSetSummary {
        QuestionSetSummary {
            id: self.id,
            state: self.state,
            session: self.asking_session(),
            title: title_of(&self.questions),
            created_at: self.created_at,
            is_whole: true,
        }
    }

    /// Returns the coven session that asked, or `None` if the file contains no valid session id.
    pub fn asking_session(&self) -> Option<SessionId> {
        self.session.as_deref()?.parse().ok()
    }
}

/// The part of a set that a daemon remembers in order to detect changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionSetSummary {
    pub id: QuestionSetId,
    pub state: QuestionSetState,
    /// The coven session that asked, if any; it may belong to another coven home.
    pub session: Option<SessionId>,
    /// The first question, on one line.
    pub title: String,
    pub created_at: Timestamp,
    /// False for a row written by an older coven, which stored neither questions nor answers.
    pub is_whole: bool,
}

/// Returns the title of a set for lists: the first question's prompt, on one line.
pub fn title_of(questions: &[Question]) -> String {
    let first = questions.first().map_or("", |question| question.prompt.as_str());
    one_line(first, TITLE_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_takes_its_title_from_its_first_question() {
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
