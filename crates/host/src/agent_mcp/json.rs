//! An entry in a file of JSON, with or without comments, whose other content stays as it is, comments included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use super::Edited;

/// Where opencode keeps its servers: its second version has a place of their own for them.
pub(super) fn opencode_place(text: &str) -> Vec<&'static str> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok();
    let servers = root.and_then(|root| root.object_value()?.object_value("mcp")?.object_value("servers"));
    if servers.is_some() { vec!["mcp", "servers"] } else { vec!["mcp"] }
}

/// Puts the entry under `place`, or takes it out.
pub(super) fn edit(text: &str, place: &[&str], name: &str, entry: Option<&Value>) -> Result<Edited, String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let mut object = root.object_value_or_create().ok_or("it is not an object")?;
    for key in place {
        object = match entry {
            Some(_) => object.object_value_or_create(key).ok_or_else(|| format!("{key} is not an object"))?,
            None => match object.object_value(key) {
                Some(object) => object,
                None => return Ok(Edited { text: text.to_owned(), ..Edited::default() }),
            },
        };
    }
    let there = object.get(name);
    let old = there.as_ref().and_then(|there| there.value()?.to_serde_value());
    let mut edited = Edited::default();
    match (there, entry) {
        (_, Some(entry)) if old.as_ref() == Some(entry) => edited.text = text.to_owned(),
        (Some(there), Some(entry)) => {
            edited.replaced = old.as_ref().map(pretty);
            there.set_value(input(entry));
        }
        (None, Some(entry)) => drop(object.append(name, input(entry))),
        (Some(there), None) => {
            edited.replaced = old.as_ref().map(pretty);
            there.remove();
        }
        (None, None) => {}
    }
    if edited.text.is_empty() {
        edited.text = finished(&root, text);
    }
    edited.entry = entry.map(|entry| shown(place, name, entry));
    Ok(edited)
}

fn finished(root: &CstRootNode, before: &str) -> String {
    let mut text = root.to_string();
    if before.trim().is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The entry with the keys it stands under.
fn shown(place: &[&str], name: &str, entry: &Value) -> String {
    let mut value = serde_json::json!({ name: entry });
    for key in place.iter().rev() {
        value = serde_json::json!({ *key: value });
    }
    pretty(&value)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("keys are text")
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_other_servers_stay() {
        let text = "{\n  // my servers\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // mine\n  },\n  \"theme\": \"dark\"\n}\n";
        let entry = json!({"command": "coven", "args": ["mcp"]});
        let put = edit(text, &["mcpServers"], "coven", Some(&entry)).expect("sound");
        for kept in ["// my servers", "// mine", "\"theme\": \"dark\"", "\"command\": \"x\""] {
            assert!(put.text.contains(kept), "{}", put.text);
        }
        assert!(put.text.contains("\"coven\""));
        let out = edit(&put.text, &["mcpServers"], "coven", None).expect("sound");
        assert!(!out.text.contains("coven") && out.text.contains("// mine"), "{}", out.text);
    }

    #[test]
    fn the_second_opencode_has_a_place_for_servers() {
        assert_eq!(opencode_place("{\"mcp\": {\"servers\": {}}}"), ["mcp", "servers"]);
        assert_eq!(opencode_place("{\"mcp\": {\"x\": {}}}"), ["mcp"]);
        assert_eq!(opencode_place(""), ["mcp"]);
    }
}
