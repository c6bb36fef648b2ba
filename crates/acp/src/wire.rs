//! JSON-RPC lines: classifies the agent's lines and writes the client's.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A line from the agent, parsed only as far as needed to classify it.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Value>,
}

impl Envelope<'_> {
    /// Returns the error of a response; accepts nonstandard forms.
    pub fn error(&self) -> Option<RpcError> {
        let error = self.error.as_ref().filter(|error| !error.is_null())?;
        let message = match error {
            Value::String(text) => text.clone(),
            other => other["message"].as_str().map_or_else(|| other.to_string(), str::to_owned),
        };
        let code = error["code"].as_i64().or_else(|| error["code"].as_str()?.parse().ok()).unwrap_or(-32603);
        Some(RpcError { code, message, data: error.get("data").cloned() })
    }

    pub fn params_value(&self) -> Value {
        self.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or(Value::Null)
    }
}

/// Fields found at the start of a message.
#[derive(Debug, PartialEq)]
pub struct Head {
    pub id: Option<Value>,
    /// The message has a method.
    pub is_request: bool,
}

/// Parses the first fields of a truncated message. Agents write `id` and `method` before long fields.
pub fn head(text: &[u8]) -> Head {
    let mut head = Head { id: None, is_request: false };
    let mut rest = text.trim_ascii_start().strip_prefix(b"{").unwrap_or_default();
    loop {
        rest = rest.trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or(rest).trim_ascii_start();
        let Some((name, after)) = value_of(rest) else { return head };
        let Some(after) = after.trim_ascii_start().strip_prefix(b":") else { return head };
        let Some((value, after)) = value_of(after) else { return head };
        match name.as_str() {
            Some("id") => head.id = Some(value).filter(|id| !id.is_null()),
            Some("method") => head.is_request = true,
            _ => {}
        }
        rest = after;
    }
}

/// Returns the first JSON value of a text and the rest.
fn value_of(text: &[u8]) -> Option<(Value, &[u8])> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// A JSON-RPC error. Agents use arbitrary codes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    #[serde(default)]
    pub code: i64,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    pub const AUTH_REQUIRED: i64 = -32000;

    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("coven does not support the method {method}"))
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(-32603, message)
    }

    pub fn not_found(path: &str) -> Self {
        // Agents search for these words to distinguish a missing file from other errors.
        Self::new(-32002, format!("Resource not found: {path} does not exist (ENOENT)"))
    }

    /// Returns the message with the agent's details, if any.
    pub fn sentence(&self) -> String {
        match self.data.as_ref().and_then(detail) {
            Some(detail) if !self.message.contains(&detail) => format!("{} ({detail})", self.message),
            _ => self.message.clone(),
        }
    }
}

fn detail(data: &Value) -> Option<String> {
    let text = match data {
        Value::String(text) => text.clone(),
        Value::Object(map) => {
            ["details", "message", "error"].iter().find_map(|key| map.get(*key)?.as_str())?.to_owned()
        }
        _ => return None,
    };
    Some(text.chars().take(2000).collect())
}

pub fn request(id: u64, method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

pub fn notification(method: &str, params: &impl Serialize) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// Returns the response to a request of the agent.
pub fn answer(id: &Value, outcome: Result<Value, RpcError>) -> String {
    match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    }
    .to_string()
}
