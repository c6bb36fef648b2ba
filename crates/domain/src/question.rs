//! Questions to a human: what is asked, what is answered, and the text an agent gets. Field names are those of the files.

mod checks;
mod format;

use serde::{Deserialize, Serialize};

pub use checks::{BadAnswers, BadQuestions, check_answers, check_questions, check_stored_answers};
pub use format::{
    ELABORATE_REQUEST, REPHRASE_REQUEST, SESSION_REJECTED, elaboration, format_answers, format_rejection, header,
};

/// One of the answers to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub label: String,
}

impl Choice {
    /// The label says so itself: `(recommended)`, `[recommended]`, and the same in Korean.
    pub fn is_recommended(&self) -> bool {
        let label = self.label.to_lowercase();
        ["(recommended)", "[recommended]", "(추천)", "[추천]"].iter().any(|marker| label.contains(marker))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub options: Vec<Choice>,
    pub prompt: String,
    pub title: String,
    #[serde(default)]
    pub multi_select: bool,
}

/// An answer to one question. Several may belong to the same one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub question_index: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_option: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_options: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_text: Option<String>,
    #[serde(default)]
    pub timestamp: String,
}

impl Answer {
    /// The labels it chooses, whichever field they stand in. A list beside a single label wins: it says more.
    pub fn selected(&self) -> impl Iterator<Item = &str> {
        let listed = self.selected_options.as_deref();
        let single = self.selected_option.as_deref().filter(|_| listed.is_none());
        listed.unwrap_or_default().iter().map(String::as_str).chain(single)
    }
}
