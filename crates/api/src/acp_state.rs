//! The agent of an ACP session. Agents send these facts in the names of their protocol; facts that they leave out are null.

use coven_domain::message::Activity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message_content::{list, optional, text};
#[cfg(feature = "schema")]
use crate::schema::{JsonObject, StringEnumSchema};

/// `GET /api/v1/sessions/{id}/agent`: the agent of an ACP session, and the state of its turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "AcpState"))]
pub struct AcpStateRecord {
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<Activity>"))]
    pub activity: Activity,
    /// Prompts that wait for the turn to end.
    pub queued: usize,
    /// The agent's own id of the session.
    pub agent_session_id: Option<String>,
    pub agent: Option<AcpInfo>,
    /// The capabilities as the agent sent them.
    #[cfg_attr(feature = "schema", schemars(with = "Option<JsonObject>"))]
    pub capabilities: Option<Value>,
    pub modes: Option<AcpModes>,
    pub config_options: Option<Vec<AcpOption>>,
    pub commands: Option<Vec<AcpCommand>>,
    pub usage: Option<AcpUsage>,
    pub title: Option<String>,
    /// How the last turn ended: `end_turn`, `cancelled`, `max_tokens`, `refusal`, `error`, or another word of the agent.
    pub stop_reason: Option<String>,
}

impl AcpStateRecord {
    /// An agent that has sent nothing yet.
    pub const fn new(activity: Activity) -> Self {
        Self {
            activity,
            queued: 0,
            agent_session_id: None,
            agent: None,
            capabilities: None,
            modes: None,
            config_options: None,
            commands: None,
            usage: None,
            title: None,
            stop_reason: None,
        }
    }
}

/// The agent's program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpInfo {
    pub name: Option<String>,
    pub title: Option<String>,
    pub version: Option<String>,
}

impl AcpInfo {
    pub fn read(sent: &Value) -> Option<Self> {
        let field = |name: &str| optional(&sent[name]);
        sent.is_object().then(|| Self { name: field("name"), title: field("title"), version: field("version") })
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpModes {
    pub current_mode_id: Option<String>,
    pub available_modes: Vec<AcpMode>,
}

impl AcpModes {
    pub fn read(sent: &Value) -> Option<Self> {
        sent.is_object().then(|| Self {
            current_mode_id: optional(&sent["currentModeId"]),
            available_modes: list(&sent["availableModes"], AcpMode::read),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpMode {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
}

impl AcpMode {
    fn read(sent: &Value) -> Self {
        Self { id: text(&sent["id"]), name: text(&sent["name"]), description: optional(&sent["description"]) }
    }
}

/// A setting of the agent, such as its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpOption {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// `mode`, `model`, `thought_level`, or another word of the agent.
    pub category: Option<String>,
    pub current_value: Option<String>,
    /// Empty if the agent does not list them.
    pub values: Vec<AcpOptionValue>,
}

impl AcpOption {
    /// Reads the options as the agent sent them: a list, or an object with it.
    pub fn read_all(sent: &Value) -> Option<Vec<Self>> {
        let sent = sent.get("configOptions").unwrap_or(sent);
        sent.is_array().then(|| list(sent, Self::read))
    }

    fn read(sent: &Value) -> Self {
        let listed = sent["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let values = listed.iter().flat_map(|entry| match entry["options"].as_array() {
            Some(group) => group.iter().map(|value| AcpOptionValue::read(value, optional(&entry["name"]))).collect(),
            None => vec![AcpOptionValue::read(entry, None)],
        });
        Self {
            id: text(&sent["id"]),
            name: text(&sent["name"]),
            description: optional(&sent["description"]),
            category: optional(&sent["category"]),
            current_value: optional(&sent["currentValue"]),
            values: values.collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpOptionValue {
    pub value: String,
    pub name: String,
    pub description: Option<String>,
    /// The name of the group that the agent put the value in.
    pub group: Option<String>,
}

impl AcpOptionValue {
    fn read(sent: &Value, group: Option<String>) -> Self {
        Self {
            value: text(&sent["value"]),
            name: text(&sent["name"]),
            description: optional(&sent["description"]),
            group,
        }
    }
}

/// A command of the agent, for a prompt that starts with a slash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpCommand {
    /// Without the slash.
    pub name: String,
    pub description: String,
    /// What to write after the name.
    pub hint: Option<String>,
}

impl AcpCommand {
    /// Reads the commands as the agent sent them: a list, or an object with it.
    pub fn read_all(sent: &Value) -> Option<Vec<Self>> {
        let sent = sent.get("availableCommands").unwrap_or(sent);
        sent.is_array().then(|| list(sent, Self::read))
    }

    fn read(sent: &Value) -> Self {
        Self {
            name: text(&sent["name"]),
            description: text(&sent["description"]),
            hint: optional(&sent["input"]["hint"]),
        }
    }
}

/// Tokens and cost, as far as the agent reports them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpUsage {
    /// Tokens in the context window.
    pub used: Option<u64>,
    /// The size of the context window.
    pub size: Option<u64>,
    pub cost: Option<AcpCost>,
    pub total_tokens: Option<u64>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub thought_tokens: Option<u64>,
    pub cached_read_tokens: Option<u64>,
    pub cached_write_tokens: Option<u64>,
}

impl AcpUsage {
    pub fn read(sent: &Value) -> Option<Self> {
        let count = |name: &str| sent[name].as_u64();
        sent.is_object().then(|| Self {
            used: count("used"),
            size: count("size"),
            cost: AcpCost::read(&sent["cost"]),
            total_tokens: count("totalTokens"),
            input_tokens: count("inputTokens"),
            output_tokens: count("outputTokens"),
            thought_tokens: count("thoughtTokens"),
            cached_read_tokens: count("cachedReadTokens"),
            cached_write_tokens: count("cachedWriteTokens"),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AcpCost {
    pub amount: f64,
    /// An ISO 4217 code.
    pub currency: String,
}

impl AcpCost {
    fn read(sent: &Value) -> Option<Self> {
        Some(Self { amount: sent["amount"].as_f64()?, currency: optional(&sent["currency"])? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_in_groups_are_one_list() {
        let values = json!([{ "group": "g", "name": "Small", "options": [{ "value": "a", "name": "A" }] }]);
        let sent = json!([
            { "id": "model", "name": "Model", "category": "model", "currentValue": "a", "options": values },
            { "id": "fast", "name": "Fast", "type": "boolean", "currentValue": true },
        ]);
        let options = AcpOption::read_all(&sent).expect("a list");
        let value = AcpOptionValue {
            value: "a".to_owned(),
            name: "A".to_owned(),
            description: None,
            group: Some("Small".to_owned()),
        };
        assert_eq!((options[0].current_value.as_deref(), &options[0].values), (Some("a"), &vec![value]));
        assert_eq!((options[1].current_value.as_deref(), options[1].values.len()), (Some("true"), 0));
    }

    #[test]
    fn values_of_another_shape_are_null() {
        assert_eq!(AcpModes::read(&json!([])), None);
        assert_eq!(AcpOption::read_all(&Value::Null), None);
        assert_eq!(AcpCommand::read_all(&json!("web")), None);
        assert_eq!(AcpUsage::read(&Value::Null), None);
        assert_eq!(AcpInfo::read(&json!({ "version": 2 })).and_then(|it| it.version).as_deref(), Some("2"));
        let usage = AcpUsage::read(&json!({ "used": 5, "cost": { "amount": 0.5 } })).expect("an object");
        assert_eq!((usage.used, usage.size, usage.cost), (Some(5), None, None));
    }
}
