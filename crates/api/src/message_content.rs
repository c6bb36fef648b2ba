//! The content of a message in `/api/v1`, and how it is read from the rows of the store.

use std::str::FromStr;

use coven_domain::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::schema::{JsonValue, StringEnumSchema};

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageContent {
    Text(MessageText),
    /// The agent's reasoning.
    Thought(MessageText),
    /// An image, a sound or a link, as the agent sent it.
    Content {
        #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
        content: Value,
    },
    Plan {
        steps: Vec<PlanStep>,
        replayed: bool,
    },
    Tool(Box<ToolCall>),
    Error {
        message: String,
        /// The agent's JSON-RPC error code.
        code: Option<i64>,
        /// Of an agent that ended.
        exit_code: Option<i32>,
        /// The end of the agent's standard error.
        stderr: Option<String>,
    },
    /// Prompts were dropped, or the session was ended.
    Cancelled {
        reason: String,
    },
    /// A turn ended for another reason than `end_turn`: `cancelled`, `max_tokens`, `refusal`, or another word of the agent.
    Turn {
        stop_reason: String,
    },
    /// The session ended: `idle_timeout`.
    Ended {
        reason: String,
    },
    /// An update that this version does not know, as the agent sent it.
    Update {
        #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
        update: Value,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct MessageText {
    pub text: String,
    /// More of the text follows, in messages with the same `message_id`.
    pub partial: bool,
    /// The agent repeated an earlier conversation.
    pub replayed: bool,
    /// The session ended before the text was complete.
    pub interrupted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanStep {
    pub content: String,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<PlanStatus>"))]
    pub status: PlanStatus,
    #[cfg_attr(feature = "schema", schemars(with = "Option<StringEnumSchema<PlanPriority>>"))]
    pub priority: Option<PlanPriority>,
}

string_enum! {
    pub enum PlanStatus { Pending = "pending", InProgress = "in_progress", Completed = "completed" }
}

string_enum! {
    pub enum PlanPriority { High = "high", Medium = "medium", Low = "low" }
}

/// A tool call of the agent. A later version of the message replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct ToolCall {
    /// The agent's id of the call.
    pub tool_call_id: String,
    /// The title that the agent gave the call.
    pub tool: String,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<ToolKind>"))]
    pub kind: ToolKind,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<ToolStatus>"))]
    pub status: ToolStatus,
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub args: Value,
    /// Null before the first output.
    pub result: Option<ToolResult>,
    /// The files that the call is about.
    pub locations: Vec<ToolLocation>,
    pub replayed: bool,
}

string_enum! {
    pub enum ToolKind {
        Read = "read",
        Edit = "edit",
        Delete = "delete",
        Move = "move",
        Search = "search",
        Execute = "execute",
        Think = "think",
        Fetch = "fetch",
        SwitchMode = "switch_mode",
        Other = "other",
    }
}

string_enum! {
    pub enum ToolStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl ToolStatus {
    /// The status that the agent reported; a word that the protocol does not have counts as `pending`.
    pub fn read(reported: &Value) -> Self {
        word(reported).unwrap_or(Self::Pending)
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResult {
    pub content: Vec<ToolContent>,
    /// The output of the tool as the agent sent it.
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub raw_output: Value,
    /// The output of the terminals that `content` names.
    pub terminals: Vec<ToolTerminal>,
}

/// A part of a tool call's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolContent {
    /// Text, an image or a link, as the agent sent it.
    Content {
        #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
        content: Value,
    },
    Diff {
        path: String,
        /// Null for a new file.
        old_text: Option<String>,
        new_text: String,
    },
    Terminal {
        terminal_id: String,
    },
    /// A part that this version does not know, as the agent sent it.
    Other {
        #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
        value: Value,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolTerminal {
    pub terminal_id: String,
    pub output: String,
    /// The start of the output is missing.
    pub truncated: bool,
    /// Null while the command runs.
    pub exit_status: Option<ToolExit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolExit {
    pub exit_code: Option<i64>,
    pub signal: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolLocation {
    pub path: String,
    /// Counts from 1.
    pub line: Option<u64>,
}

impl MessageContent {
    /// Reads the content of a stored row. Rows have the names of the compatibility API and leave out what was not known. They are
    /// also written by other versions, so a type that this version does not know becomes an update.
    pub fn read(stored: &str) -> Self {
        let mut stored: Value = serde_json::from_str(stored).unwrap_or_default();
        let replayed = stored["replayed"] == true;
        match stored["type"].as_str().unwrap_or_default() {
            "text" => Self::Text(MessageText::read(&mut stored)),
            "thought" => Self::Thought(MessageText::read(&mut stored)),
            "content" => Self::Content { content: stored["content"].take() },
            "plan" => Self::Plan { steps: list(&stored["steps"], PlanStep::read), replayed },
            "tool" => Self::Tool(Box::new(ToolCall::read(&mut stored))),
            "error" => Self::Error {
                message: text(&stored["message"]),
                code: stored["code"].as_i64(),
                exit_code: stored["exitCode"].as_i64().and_then(|code| code.try_into().ok()),
                stderr: optional(&stored["stderr"]),
            },
            "cancelled" => Self::Cancelled { reason: text(&stored["reason"]) },
            "turn" => Self::Turn { stop_reason: text(&stored["stopReason"]) },
            "ended" => Self::Ended { reason: text(&stored["reason"]) },
            "update" => Self::Update { update: stored["update"].take() },
            _ => Self::Update { update: stored },
        }
    }

    /// The text of a text or a thought.
    pub const fn text(&self) -> Option<&MessageText> {
        match self {
            Self::Text(text) | Self::Thought(text) => Some(text),
            _ => None,
        }
    }

    pub const fn tool(&self) -> Option<&ToolCall> {
        match self {
            Self::Tool(call) => Some(call),
            _ => None,
        }
    }

    /// The agent repeated an earlier conversation.
    pub fn is_replayed(&self) -> bool {
        match self {
            Self::Text(text) | Self::Thought(text) => text.replayed,
            Self::Plan { replayed, .. } => *replayed,
            Self::Tool(call) => call.replayed,
            _ => false,
        }
    }
}

impl MessageText {
    /// A text that is complete.
    pub fn whole(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    fn read(stored: &mut Value) -> Self {
        Self {
            // Moved and not copied: a text may have megabytes.
            text: match stored["text"].take() {
                Value::String(text) => text,
                other => text(&other),
            },
            partial: stored["partial"] == true,
            replayed: stored["replayed"] == true,
            interrupted: stored["interrupted"] == true,
        }
    }
}

impl PlanStep {
    fn read(stored: &Value) -> Self {
        Self {
            content: stored.as_str().map_or_else(|| text(&stored["content"]), str::to_owned),
            status: word(&stored["status"]).unwrap_or(PlanStatus::Pending),
            priority: word(&stored["priority"]),
        }
    }
}

impl ToolCall {
    fn read(stored: &mut Value) -> Self {
        let mut result = stored["result"].take();
        Self {
            tool_call_id: text(&stored["toolCallId"]),
            tool: text(&stored["tool"]),
            kind: word(&stored["kind"]).unwrap_or(ToolKind::Other),
            status: ToolStatus::read(&stored["status"]),
            args: stored["args"].take(),
            result: result.is_object().then(|| ToolResult {
                content: list(&result["content"], ToolContent::read),
                terminals: list(&result["terminals"], ToolTerminal::read),
                raw_output: result["rawOutput"].take(),
            }),
            locations: list(&stored["locations"], ToolLocation::read),
            replayed: stored["replayed"] == true,
        }
    }
}

impl ToolContent {
    /// Reads a part as the protocol of agents has it.
    pub fn read(sent: &Value) -> Self {
        match sent["type"].as_str().unwrap_or_default() {
            "content" => Self::Content { content: sent["content"].clone() },
            "diff" if sent["newText"].is_string() => Self::Diff {
                path: text(&sent["path"]),
                old_text: optional(&sent["oldText"]),
                new_text: text(&sent["newText"]),
            },
            "terminal" => Self::Terminal { terminal_id: text(&sent["terminalId"]) },
            _ => Self::Other { value: sent.clone() },
        }
    }
}

impl ToolTerminal {
    fn read(stored: &Value) -> Self {
        let exit = &stored["exitStatus"];
        Self {
            terminal_id: text(&stored["terminalId"]),
            output: text(&stored["output"]),
            truncated: stored["truncated"] == true,
            exit_status: exit
                .is_object()
                .then(|| ToolExit { exit_code: exit["exitCode"].as_i64(), signal: optional(&exit["signal"]) }),
        }
    }
}

impl ToolLocation {
    fn read(stored: &Value) -> Self {
        Self { path: text(&stored["path"]), line: stored["line"].as_u64() }
    }
}

pub(crate) fn list<T>(value: &Value, read: fn(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(read).collect()
}

pub(crate) fn text(value: &Value) -> String {
    optional(value).unwrap_or_default()
}

/// A text, also where an agent sent a number or a boolean instead.
pub(crate) fn optional(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn word<W: FromStr>(value: &Value) -> Option<W> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn is_read_as(stored: Value, expected: Value) {
        let content = MessageContent::read(&stored.to_string());
        assert_eq!(serde_json::to_value(&content).expect("plain data"), expected);
        assert_eq!(serde_json::from_value::<MessageContent>(expected).expect("the same content"), content);
    }

    #[test]
    fn texts_of_stored_rows_have_all_keys() {
        is_read_as(
            json!({ "type": "text", "text": "hello" }),
            json!({ "type": "text", "text": "hello", "partial": false, "replayed": false, "interrupted": false }),
        );
        is_read_as(
            json!({ "type": "thought", "text": "hm", "partial": true, "replayed": true }),
            json!({ "type": "thought", "text": "hm", "partial": true, "replayed": true, "interrupted": false }),
        );
        is_read_as(
            json!({ "type": "error", "message": "gone", "exitCode": 3, "stderr": "no\n" }),
            json!({ "type": "error", "message": "gone", "code": null, "exit_code": 3, "stderr": "no\n" }),
        );
        is_read_as(
            json!({ "type": "turn", "stopReason": "refusal" }),
            json!({ "type": "turn", "stop_reason": "refusal" }),
        );
    }

    #[test]
    fn a_stored_tool_call_gets_the_names_of_the_wire() {
        let diff = json!({ "type": "diff", "path": "/a", "oldText": "x", "newText": "y" });
        let content = json!([diff, { "type": "terminal", "terminalId": "t1" }, { "type": "later", "newName": 1 }]);
        let terminals = json!([{ "terminalId": "t1", "output": "ok", "truncated": true,
            "exitStatus": { "exitCode": 0, "signal": null } }]);
        is_read_as(
            json!({
                "type": "tool", "tool": "edit a", "toolCallId": "c1", "kind": "teleport", "status": "completed",
                "args": { "filePath": "/a" }, "locations": [{ "path": "/a", "line": 3 }, { "path": "/b" }],
                "result": { "content": content, "rawOutput": { "exitCode": 0 }, "terminals": terminals },
            }),
            json!({
                "type": "tool", "tool": "edit a", "tool_call_id": "c1", "kind": "other", "status": "completed",
                "args": { "filePath": "/a" }, "replayed": false,
                "locations": [{ "path": "/a", "line": 3 }, { "path": "/b", "line": null }],
                "result": {
                    "content": [
                        { "type": "diff", "path": "/a", "old_text": "x", "new_text": "y" },
                        { "type": "terminal", "terminal_id": "t1" },
                        { "type": "other", "value": { "type": "later", "newName": 1 } },
                    ],
                    "raw_output": { "exitCode": 0 },
                    "terminals": [{ "terminal_id": "t1", "output": "ok", "truncated": true,
                        "exit_status": { "exit_code": 0, "signal": null } }],
                },
            }),
        );
        let MessageContent::Tool(bare) = MessageContent::read(r#"{"type":"tool","tool":"ls","result":null}"#) else {
            panic!("a tool call")
        };
        assert_eq!((bare.result, bare.status, bare.args), (None, ToolStatus::Pending, Value::Null));
    }

    #[test]
    fn a_plan_may_have_steps_that_are_texts() {
        is_read_as(
            json!({ "type": "plan", "steps": [{ "content": "a", "status": "completed", "priority": "high" }, "b"] }),
            json!({ "type": "plan", "replayed": false, "steps": [
                { "content": "a", "status": "completed", "priority": "high" },
                { "content": "b", "status": "pending", "priority": null },
            ] }),
        );
    }

    #[test]
    fn a_row_of_another_version_becomes_an_update() {
        let hologram = json!({ "type": "hologram", "depth": 3 });
        is_read_as(hologram.clone(), json!({ "type": "update", "update": hologram }));
        assert_eq!(MessageContent::read("{torn"), MessageContent::Update { update: Value::Null });
    }
}
