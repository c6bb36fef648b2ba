//! What a message says, read from its JSON once. What is not known is kept as a name.

use coven_api::message::MessageRecord;
use serde_json::Value;

use super::tool::ToolCall;

/// Who writes a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    User,
    Agent,
    /// The agent, to itself.
    Thought,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content<'a> {
    Text {
        voice: Voice,
        text: &'a str,
        is_partial: bool,
    },
    Plan(Vec<Step>),
    Tool(Box<ToolCall>),
    Error(String),
    Cancelled(String),
    /// A turn ended otherwise than by having said all.
    Stopped(&'a str),
    Other(&'a str),
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub text: String,
    pub status: String,
}

impl<'a> Content<'a> {
    pub fn of(record: &'a MessageRecord) -> Self {
        let content = &record.content;
        let text = |name: &str| content[name].as_str().unwrap_or_default();
        match text("type") {
            "text" => {
                let voice = if record.role == "user" { Voice::User } else { Voice::Agent };
                Self::Text { voice, text: text("text"), is_partial: is_partial(content) }
            }
            "thought" => Self::Text { voice: Voice::Thought, text: text("text"), is_partial: is_partial(content) },
            "plan" => Self::Plan(steps(&content["steps"])),
            "tool" => Self::Tool(Box::new(ToolCall::of_message(content))),
            "error" => Self::Error(text("message").to_owned()),
            "cancelled" => Self::Cancelled(text("reason").to_owned()),
            "turn" => Self::Stopped(text("stopReason")),
            "update" => Self::Other(content["update"]["sessionUpdate"].as_str().unwrap_or("update")),
            kind => Self::Other(kind),
        }
    }
}

fn is_partial(content: &Value) -> bool {
    content["partial"].as_bool().unwrap_or(false)
}

fn steps(value: &Value) -> Vec<Step> {
    let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let step = |entry: &Value| Step {
        text: entry.as_str().or(entry["content"].as_str()).unwrap_or_default().to_owned(),
        status: entry["status"].as_str().unwrap_or("pending").to_owned(),
    };
    entries.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{agent, system, user};
    use super::*;
    use serde_json::json;

    #[test]
    fn each_type_is_read() {
        let hello = |voice| Content::Text { voice, text: "hello", is_partial: false };
        assert_eq!(Content::of(&user(1, "hello")), hello(Voice::User));
        assert_eq!(Content::of(&agent(1, "a", "hello")), hello(Voice::Agent));
        let plan = system(1, json!({"type": "plan", "steps": [{"content": "a", "status": "completed"}, "b"]}));
        let step = |text: &str, status: &str| Step { text: text.to_owned(), status: status.to_owned() };
        assert_eq!(Content::of(&plan), Content::Plan(vec![step("a", "completed"), step("b", "pending")]));
    }

    #[test]
    fn what_is_not_known_is_kept_by_name() {
        let update = system(1, json!({"type": "update", "update": {"sessionUpdate": "weather", "x": 1}}));
        assert_eq!(Content::of(&update), Content::Other("weather"));
        assert_eq!(Content::of(&system(1, json!({"type": "hologram"}))), Content::Other("hologram"));
        assert_eq!(Content::of(&system(1, json!(null))), Content::Other(""));
    }
}
