//! A terminal prompt: a task's agent is blocked waiting for terminal input.

use crate::lifecycle::{Lifecycle, Refused};
use crate::question_set::{QuestionSetFact, QuestionSetState};
use crate::{AgentId, QuestionId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalPrompt {
    pub id: QuestionId,
    pub agent: AgentId,
    pub state: QuestionSetState,
    /// The screen text up to the cursor.
    pub prompt: String,
    /// Log length when the prompt was detected. Output beyond it means that the agent is no longer waiting.
    pub offset: u64,
    pub answer: Option<String>,
    /// The answer was typed into the terminal.
    pub is_delivered: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub answered_at: Option<Timestamp>,
}

impl TerminalPrompt {
    pub fn new(id: QuestionId, agent: AgentId, prompt: String, offset: u64, now: Timestamp) -> Self {
        Self {
            id,
            agent,
            state: QuestionSetState::Pending,
            prompt,
            offset,
            answer: None,
            is_delivered: false,
            created_at: now,
            updated_at: now,
            answered_at: None,
        }
    }

    /// Records the first answer; later ones are refused.
    pub fn answered(&mut self, text: &str, now: Timestamp) -> Result<(), Refused<QuestionSetState>> {
        self.state = self.state.after(QuestionSetFact::Answered)?;
        (self.answer, self.is_delivered) = (Some(text.to_owned()), false);
        self.answered_at = Some(now);
        self.updated_at = now.not_before(self.updated_at);
        Ok(())
    }

    /// Records that the agent no longer needs an answer.
    pub fn abandoned(&mut self, now: Timestamp) -> Result<(), Refused<QuestionSetState>> {
        self.state = self.state.after(QuestionSetFact::Abandoned)?;
        self.updated_at = now.not_before(self.updated_at);
        Ok(())
    }
}

/// Extracts the prompt from the screen lines up to the cursor: the last block of non-empty lines, at most 6.
pub fn extract_prompt(lines: &[&str]) -> String {
    const MAX_LINES: usize = 6;
    let last = lines.iter().rposition(|line| !line.trim().is_empty());
    let Some(last) = last else { return String::new() };
    let above = lines[..=last].iter().rev().take(MAX_LINES).take_while(|line| !line.trim().is_empty());
    let mut asked: Vec<&str> = above.map(|line| line.trim_end()).collect();
    asked.reverse();
    asked.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_prompt_is_the_last_block_of_non_empty_lines() {
        assert_eq!(
            extract_prompt(&["Building", "", "Two ways:", "  1) a", "Which? ", "", ""]),
            "Two ways:\n  1) a\nWhich?"
        );
        assert_eq!(extract_prompt(&["a", "b", "c", "d", "e", "f", "g", "h"]), "c\nd\ne\nf\ng\nh");
        assert_eq!(extract_prompt(&["", " "]), "");
    }

    #[test]
    fn the_first_answer_wins_and_an_ended_question_accepts_none() {
        let at = Timestamp::from_millis;
        let id = QuestionId::from_uuid(Uuid::from_u128(1));
        let agent = AgentId::from_uuid(Uuid::from_u128(2));
        let mut question = TerminalPrompt::new(id, agent, "ok?".into(), 7, at(1));
        assert_eq!(question.answered("yes", at(2)), Ok(()));
        assert!(question.answered("no", at(3)).is_err() && question.abandoned(at(3)).is_err());
        assert_eq!((question.answer.as_deref(), question.answered_at), (Some("yes"), Some(at(2))));
    }
}
