//! Output formats of print mode and their names in the config.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::rules::Rules;
use crate::agents;

const TEXT: &str = "text";

/// Format of an agent's standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrintFormat {
    /// Only the answer, as plain text.
    #[default]
    Text,
    /// One JSON object per line, in the agent's own format.
    Lines(&'static Rules),
}

impl PrintFormat {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => TEXT,
            Self::Lines(rules) => rules.format,
        }
    }

    /// Returns the rules of a JSON format; `None` for plain text.
    pub const fn rules(self) -> Option<&'static Rules> {
        match self {
            Self::Text => None,
            Self::Lines(rules) => Some(rules),
        }
    }

    fn of(name: &str) -> Option<Self> {
        match name {
            TEXT => Some(Self::Text),
            _ => all_rules().find(|rules| rules.format == name).map(Self::Lines),
        }
    }
}

fn all_rules() -> impl Iterator<Item = &'static Rules> {
    agents::ALL.iter().filter_map(|agent| Some(agent.print.as_ref().ok()?.rules))
}

/// Returns the names of all JSON formats, sorted.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = all_rules().map(|rules| rules.format).collect();
    names.sort_unstable();
    names
}

impl Serialize for PrintFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PrintFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        Self::of(&name).ok_or_else(|| {
            let known = names().join("`, `");
            de::Error::custom(format!("unknown variant `{name}`, expected one of `{TEXT}`, `{known}`"))
        })
    }
}

impl JsonSchema for PrintFormat {
    fn schema_name() -> Cow<'static, str> {
        "PrintFormat".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Format of the standard output. Each JSON format belongs to one agent: one object per line.",
            "oneOf": [
                { "type": "string", "enum": names() },
                { "description": "Only the answer, as plain text.", "type": "string", "const": TEXT },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_name_round_trips() {
        for name in names().into_iter().chain([TEXT]) {
            let format: PrintFormat = serde_json::from_value(name.into()).expect("a known format");
            assert_eq!(serde_json::to_value(format).expect("a name"), name);
        }
        let problem = serde_json::from_str::<PrintFormat>("\"xml\"").expect_err("unknown").to_string();
        assert!(problem.contains("`xml`") && problem.contains("`text`, `claude-json`"), "{problem}");
    }
}
