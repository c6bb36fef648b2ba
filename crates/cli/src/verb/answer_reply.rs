//! A reply to a question set from the command line: flags, JSON or a rejection.

use std::collections::BTreeMap;

use coven_domain::question::{Question, QuestionAnswer};
use serde::Deserialize;

use super::answer_flags::Pieces;
use crate::failure::Failure;
use crate::piped;

#[derive(Debug, clap::Args)]
pub struct ReplyArgs {
    #[command(flatten)]
    pieces: Pieces,
    /// All answers as JSON, keyed by question index from 0; `-` reads standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["option", "text", "question", "reject"])]
    answers: Option<String>,
    /// Decline to answer
    #[arg(long, group = "reasoned", conflicts_with_all = ["option", "text", "question"])]
    reject: bool,
    /// Reason for the rejection
    #[arg(long, value_name = "TEXT", requires = "reasoned")]
    pub reason: Option<String>,
}

/// The reply to a question set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Answers(Vec<QuestionAnswer>),
    Rejection(Option<String>),
}

impl ReplyArgs {
    pub fn is_empty(&self) -> bool {
        !self.reject && self.answers.is_none() && self.pieces.is_empty()
    }

    pub const fn is_rejection(&self) -> bool {
        self.reject
    }

    /// Returns the value if a single `--option` is all that was given.
    pub fn only_option(&self) -> Option<&str> {
        self.pieces.only_option().filter(|_| !self.reject && self.answers.is_none())
    }

    /// Builds the reply to these questions. Its receiver checks that the answers fit.
    pub fn reply(self, questions: &[Question]) -> Result<Reply, Failure> {
        if self.reject {
            return Ok(Reply::Rejection(self.reason));
        }
        Ok(Reply::Answers(match self.answers {
            Some(text) => from_json(&read_argument(text)?)?,
            None => self.pieces.answers(questions)?,
        }))
    }
}

fn read_argument(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    piped::text()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    selected_option: Option<String>,
    selected_options: Option<Vec<String>>,
    custom_text: Option<String>,
}

/// `{"0":{"selectedOption":"A"}}`
fn from_json(text: &str) -> Result<Vec<QuestionAnswer>, Failure> {
    let answers: BTreeMap<usize, Given> = serde_json::from_str(text).map_err(|error| {
        Failure::usage(
            format!("--answers: {error}"),
            "Expected: {\"0\":{\"selectedOption\":\"A\"},\"1\":{\"selectedOptions\":[\"B\"],\"customText\":\"and more\"}}",
        )
    })?;
    let answer = |(question_index, Given { selected_option, selected_options, custom_text })| QuestionAnswer {
        question_index,
        selected_option,
        selected_options,
        custom_text,
        timestamp: String::new(),
    };
    Ok(answers.into_iter().map(answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_keyed_by_question_index() {
        let answers = from_json(r#"{"1":{"selectedOptions":[],"customText":"x"},"0":{"selectedOption":"A"}}"#);
        let first = QuestionAnswer { selected_option: Some("A".into()), ..QuestionAnswer::default() };
        let second = QuestionAnswer {
            question_index: 1,
            selected_options: Some(Vec::new()),
            custom_text: Some("x".into()),
            ..QuestionAnswer::default()
        };
        assert_eq!(answers.expect("good JSON"), [first, second]);
    }

    #[test]
    fn invalid_json_is_rejected_with_an_example() {
        for text in ["", "[]", r#"{"a":{}}"#, r#"{"-1":{}}"#, r#"{"0":{"selectOption":"A"}}"#, r#"{"0":"A"}"#] {
            let failure = from_json(text).expect_err(text);
            assert!(failure.exit_code() == 2 && failure.sentence().contains("Expected"), "{text}");
        }
    }
}
