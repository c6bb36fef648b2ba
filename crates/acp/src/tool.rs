//! A tool call: reported in several updates, stored as one message.

use std::collections::BTreeMap;

use coven_domain::MessageId;
use coven_domain::message::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum terminal output in the message of its tool call; the end is kept, because it is the most informative part.
const MAX_OUTPUT_BYTES: usize = 256 << 10;

/// Output and exit status of a terminal.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TerminalOutput {
    pub output: String,
    pub is_truncated: bool,
    pub exit_status: Option<Value>,
}

impl TerminalOutput {
    pub fn push(&mut self, text: &str) {
        self.output.push_str(text);
        if self.output.len() > MAX_OUTPUT_BYTES {
            let from = self.output.ceil_char_boundary(self.output.len() - MAX_OUTPUT_BYTES);
            self.output.drain(..from);
            self.is_truncated = true;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub message: MessageId,
    is_replayed: bool,
    /// All fields the agent has reported; later values replace earlier ones. The message contains them, so they are not
    /// stored again here.
    #[serde(skip)]
    fields: Map<String, Value>,
}

impl Tool {
    pub fn new(message: MessageId, is_replayed: bool) -> Self {
        Self { message, is_replayed, fields: Map::new() }
    }

    /// Applies an update; returns whether it changed anything.
    pub fn learn(&mut self, update: &Map<String, Value>) -> bool {
        let mut is_changed = false;
        let is_kept = |name: &str| !matches!(name, "sessionUpdate" | "_meta");
        for (name, value) in update.iter().filter(|(name, value)| is_kept(name) && !value.is_null()) {
            is_changed |= self.fields.insert(name.clone(), value.clone()).as_ref() != Some(value);
        }
        is_changed
    }

    /// Restores the fields and terminal output from the content of the stored message.
    pub fn recall(&mut self, content: &Value, terminals: &mut BTreeMap<String, TerminalOutput>) {
        let result = &content["result"];
        for (name, value) in [
            ("toolCallId", &content["toolCallId"]),
            ("title", &content["tool"]),
            ("kind", &content["kind"]),
            ("status", &content["status"]),
            ("rawInput", &content["args"]),
            ("locations", &content["locations"]),
            ("content", &result["content"]),
            ("rawOutput", &result["rawOutput"]),
        ] {
            if !value.is_null() {
                self.fields.insert(name.to_owned(), value.clone());
            }
        }
        for shown in result["terminals"].as_array().into_iter().flatten() {
            let Some(id) = shown["terminalId"].as_str() else { continue };
            let exit_status = Some(shown["exitStatus"].clone()).filter(|status| !status.is_null());
            let output = shown["output"].as_str().unwrap_or_default().to_owned();
            terminals.insert(
                id.to_owned(),
                TerminalOutput { output, is_truncated: shown["truncated"] == true, exit_status },
            );
        }
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.text("status"), Some("completed" | "failed" | "cancelled"))
    }

    /// Marks an open call as cancelled, for a turn that ended without its result. Returns whether it was open.
    pub fn give_up(&mut self) -> bool {
        let is_open = self.is_open();
        if is_open {
            self.fields.insert("status".to_owned(), json!("cancelled"));
        }
        is_open
    }

    /// Returns the ids of the terminals that the content refers to.
    pub fn terminals(&self) -> impl Iterator<Item = &str> {
        let content = self.fields.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        content.iter().filter(|item| item["type"] == "terminal").filter_map(|item| item["terminalId"].as_str())
    }

    /// Returns the tool call with all known fields, in the agent's format.
    pub fn whole(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn title(&self) -> Option<&str> {
        self.text("title").or_else(|| self.text("name"))
    }

    /// Describes the call in one line: the title, and the command if the title does not contain it.
    pub fn question(&self) -> String {
        const MAX_CHARS: usize = 200;
        let title = self.title().unwrap_or("a tool call");
        let command = self.fields.get("rawInput").and_then(|input| input["command"].as_str());
        let whole = match command {
            Some(command) if !title.contains(command) => format!("{title}: {command}"),
            _ => title.to_owned(),
        };
        let line: String = whole.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect();
        if whole.chars().count() > MAX_CHARS { format!("{line}…") } else { line }
    }

    pub fn message(&self, shown: &BTreeMap<String, TerminalOutput>) -> Message {
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
                let terminals: Vec<Value> = self
                    .terminals()
                    .filter_map(|id| Some((id, shown.get(id)?)))
                    .map(|(id, shown)| {
                        json!({ "terminalId": id, "output": shown.output, "truncated": shown.is_truncated,
                            "exitStatus": shown.exit_status })
                    })
                    .collect();
                if !terminals.is_empty() {
                    result.insert("terminals".to_owned(), Value::Array(terminals));
                }
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
