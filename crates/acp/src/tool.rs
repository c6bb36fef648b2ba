//! A tool call: told in pieces, kept as one message.

use coven_domain::MessageId;
use coven_domain::message::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub message: MessageId,
    is_replayed: bool,
    /// Everything the agent has told about it, later words over earlier ones.
    fields: Map<String, Value>,
}

impl Tool {
    pub fn new(message: MessageId, is_replayed: bool) -> Self {
        Self { message, is_replayed, fields: Map::new() }
    }

    /// Takes an update; true if it said anything new.
    pub fn learn(&mut self, update: &Map<String, Value>) -> bool {
        let mut has_news = false;
        for (name, value) in update.iter().filter(|(name, value)| *name != "sessionUpdate" && !value.is_null()) {
            has_news |= self.fields.insert(name.clone(), value.clone()).as_ref() != Some(value);
        }
        has_news
    }

    /// The tool call with everything that is known, as the agent would tell it.
    pub fn whole(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn title(&self) -> Option<&str> {
        self.text("title").or_else(|| self.text("name"))
    }

    pub fn message(&self) -> Message {
        let id = self.text("toolCallId").unwrap_or("tool");
        let status = self.text("status").unwrap_or("pending");
        let (content, raw_output) = (self.fields.get("content"), self.fields.get("rawOutput"));
        let is_over = matches!(status, "completed" | "failed");
        let result = match (content, raw_output) {
            (None, None) if !is_over => Value::Null,
            _ => {
                let mut result =
                    Map::from_iter([("content".to_owned(), content.cloned().unwrap_or_else(|| json!([])))]);
                result.extend(raw_output.map(|output| ("rawOutput".to_owned(), output.clone())));
                Value::Object(result)
            }
        };
        let mut message = json!({
            "type": "tool",
            "tool": self.title().unwrap_or(id),
            "args": self.fields.get("rawInput").cloned().unwrap_or_else(|| json!({})),
            "result": result,
            "status": status,
            "kind": self.text("kind").unwrap_or("other"),
            "toolCallId": id,
        });
        if let Some(locations) = self.fields.get("locations") {
            message["locations"] = locations.clone();
        }
        if self.is_replayed {
            message["replayed"] = Value::Bool(true);
        }
        Message::new(self.message, Role::System, &message)
    }
}
