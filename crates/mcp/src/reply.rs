//! Results of tool calls: text in its exact format, and the same as structured data.

use coven_domain::QuestionSetId;
use coven_domain::question::{Question, QuestionAnswer, format_answers, format_rejection, header};
use coven_interop::questions::{QuestionSet, Waited};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Status of a question set, as structured data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionSetResult {
    /// The question set's id.
    pub session_id: String,
    /// pending, completed, rejected, timed_out, abandoned or dismissed.
    pub status: String,
    /// The answers, by question.
    pub answers: Vec<GivenAnswer>,
    /// Reason why the user rejected the questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub rejection_reason: Option<String>,
    /// Reason why the set was abandoned, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub abandon_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenAnswer {
    /// Index of the question, starting at 0.
    pub question_index: usize,
    /// Labels of the chosen options.
    pub selected: Vec<String>,
    /// The user's free-text answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub custom_text: Option<String>,
}

impl From<&QuestionAnswer> for GivenAnswer {
    fn from(answer: &QuestionAnswer) -> Self {
        Self {
            question_index: answer.question_index,
            selected: answer.selected().map(str::to_owned).collect(),
            custom_text: answer.custom_text.clone(),
        }
    }
}

impl QuestionSetResult {
    fn new(id: &QuestionSetId, status: &str) -> Self {
        let (session_id, status) = (id.to_string(), status.to_owned());
        Self { session_id, status, answers: Vec::new(), rejection_reason: None, abandon_reason: None }
    }
}

/// Result of a call that waited for the answers.
pub fn ended(id: &QuestionSetId, questions: &[Question], waited: &Waited) -> CallToolResult {
    let head = header(id, Some(questions.len()), None);
    match waited {
        Waited::Answered(answers) => {
            let data = QuestionSetResult {
                answers: answers.iter().map(GivenAnswer::from).collect(),
                ..QuestionSetResult::new(id, "completed")
            };
            text_result(format!("{head}\n\n{}", format_answers(questions, answers)), data)
        }
        Waited::Rejected(reason) => {
            let data = QuestionSetResult { rejection_reason: reason.clone(), ..QuestionSetResult::new(id, "rejected") };
            text_result(format!("{head}\n\n{}", format_rejection(reason.as_deref())), data)
        }
        Waited::TimedOut => failed(id, "timed_out", "The user did not answer in time."),
        Waited::Abandoned(reason) => {
            let text = abandoned_text(reason.as_deref());
            let data = QuestionSetResult { abandon_reason: reason.clone(), ..QuestionSetResult::new(id, "abandoned") };
            failure(format!("{}\n\n{text}", header(id, None, Some("abandoned"))), data)
        }
        Waited::Gone => failed(id, "dismissed", "The question set was dismissed."),
    }
}

/// Result of a call that does not wait for the answers.
pub fn submitted(id: &QuestionSetId, questions: usize) -> CallToolResult {
    let short = short(id);
    let text = format!(
        "{}\n\nQuestions submitted successfully.\nUse get_answered_questions(session_id=\"{short}\") or \
         `coven questions answers {short}` to retrieve answers.",
        header(id, Some(questions), Some("pending"))
    );
    text_result(text, QuestionSetResult::new(id, "pending"))
}

/// Status of a question set, with its answers if there are any.
pub fn status_result(set: &QuestionSet) -> CallToolResult {
    let (id, status) = (&set.id, set.state.to_string());
    let head = header(id, None, Some(&status));
    let data = QuestionSetResult {
        rejection_reason: set.rejection_reason.clone(),
        abandon_reason: set.abandon_reason.clone(),
        ..QuestionSetResult::new(id, &status)
    };
    match (status.as_str(), &set.answers) {
        (_, Some(given)) => ended(id, &set.questions, &Waited::Answered(given.answers.clone())),
        ("pending", None) => text_result(format!("{head}\n\nNo answers yet."), data),
        ("rejected", None) => {
            let reason = set.rejection_reason.as_ref().map(|reason| format!(" Reason: \"{reason}\""));
            text_result(format!("{head}\n\nUser rejected this question set.{}", reason.unwrap_or_default()), data)
        }
        ("abandoned", None) => text_result(
            format!("{head}\n\nSession is no longer active. {}", abandoned_text(set.abandon_reason.as_deref())),
            data,
        ),
        (_, None) => text_result(format!("{head}\n\nSession is no longer active."), data),
    }
}

/// An error result.
pub fn error(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// A result with text and structured data.
pub fn text_result(text: String, data: impl Serialize) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(serde_json::to_value(data).unwrap_or(Value::Null));
    result
}

fn failed(id: &QuestionSetId, status: &str, text: &str) -> CallToolResult {
    failure(format!("{}\n\n{text}", header(id, None, Some(status))), QuestionSetResult::new(id, status))
}

fn failure(text: String, data: QuestionSetResult) -> CallToolResult {
    let mut result = text_result(text, data);
    result.is_error = Some(true);
    result
}

fn abandoned_text(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("The question set was abandoned. Reason: {reason}"),
        None => "The question set was abandoned.".to_owned(),
    }
}

fn short(id: &QuestionSetId) -> String {
    id.to_string().chars().take(8).collect()
}
