//! Questions to a human, their answers, and the text that the agent receives. Field names match the files.

mod checks;
mod format;

use serde::{Deserialize, Serialize};

pub use checks::{BadAnswers, BadQuestions, check_answers, check_questions, check_stored_answers};
pub use format::{
    ELABORATE_REQUEST, REPHRASE_REQUEST, SESSION_REJECTED, elaboration, format_answers, format_rejection, header,
};

/// A selectable option of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub label: String,
}

impl Choice {
    /// Reports whether the label contains `(recommended)`, `[recommended]` or the Korean equivalent.
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

/// An answer to one question. A question may have several answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAnswer {
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

impl QuestionAnswer {
    /// Returns the selected labels from either field. If both are set, the list wins because it may contain more.
    pub fn selected(&self) -> impl Iterator<Item = &str> {
        let listed = self.selected_options.as_deref();
        let single = self.selected_option.as_deref().filter(|_| listed.is_none());
        listed.unwrap_or_default().iter().map(String::as_str).chain(single)
    }
}
