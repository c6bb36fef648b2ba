//! Questions to a human: what is asked, what is answered, and the text an agent gets. Field names are those of the files.

use serde::{Deserialize, Serialize};

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
