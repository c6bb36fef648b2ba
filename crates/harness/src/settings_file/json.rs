//! Adds or removes an entry in a JSON file, preserving all other content, including comments.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use super::{Edited, one_line};

/// Keys of nested objects; the innermost object contains the servers.
type Keys<'a> = &'a [&'static str];

/// Returns the first of these places that exists in the text, or else the last place.
fn place_in<'a>(text: &str, places: &[Keys<'a>]) -> Keys<'a> {
    let (last, others) = places.split_last().expect("at least one place");
    let exists = |place: &&Keys| {
        let root = parsed(text).ok().and_then(|root| root.object_value());
        place.iter().fold(root, |object, key| object?.object_value(key)).is_some()
    };
    others.iter().find(exists).unwrap_or(last)
}

/// Adds or replaces the entry, or removes it if `entry` is `None`.
pub(super) fn edit(text: &str, places: &[Keys], name: &str, entry: Option<&Value>) -> Result<Edited, String> {
    match entry {
        Some(entry) => put(text, place_in(text, places), name, entry),
        None => remove(text, places, name),
    }
}

fn put(text: &str, place: Keys, name: &str, entry: &Value) -> Result<Edited, String> {
    let root = parsed(text)?;
    let mut object = root.object_value_or_create().ok_or("the top level is not an object")?;
    for key in place {
        object = object.object_value_or_create(key).ok_or_else(|| format!("{key} is not an object"))?;
    }
    let existing = object.get(name);
    let old = existing.as_ref().and_then(|existing| existing.value()?.to_serde_value());
    let mut edited = Edited { entry: Some(shown(place, name, entry)), ..Edited::default() };
    edited.text = match existing {
        Some(_) if old.as_ref() == Some(entry) => text.to_owned(),
        Some(existing) => {
            edited.replaced = old.as_ref().map(pretty);
            existing.set_value(input(entry));
            finished(&root, text)
        }
        None => match one_line::put(text, place, name, entry) {
            Some(text) => text,
            None => {
                object.append(name, input(entry));
                finished(&root, text)
            }
        },
    };
    Ok(edited)
}

fn remove(text: &str, places: &[Keys], name: &str) -> Result<Edited, String> {
    let place = place_in(text, places);
    let Some((kept, old)) = without(text, place, name, EmptyObjects::Keep)? else {
        return Ok(Edited { text: text.to_owned(), ..Edited::default() });
    };
    let mut edited = Edited { text: kept, replaced: Some(pretty(&old)), ..Edited::default() };
    // Remove the objects that are now empty only if coven created them: adding the entry again then restores the file.
    if let Some((bare, _)) = without(text, place, name, EmptyObjects::Remove)?
        && put(&bare, place_in(&bare, places), name, &old).is_ok_and(|restored| restored.text == text)
    {
        edited.text = bare;
    }
    Ok(edited)
}

/// Whether to keep objects that contained only the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptyObjects {
    Keep,
    Remove,
}

/// Returns the text without the entry, and the entry; `None` if the text has no such entry.
fn without(
    text: &str,
    place: Keys,
    name: &str,
    empty_objects: EmptyObjects,
) -> Result<Option<(String, Value)>, String> {
    let root = parsed(text)?;
    let mut objects = match (root.object_value(), root.value()) {
        (Some(object), _) => vec![object],
        (None, Some(_)) => return Err("the top level is not an object".to_owned()),
        // The file is empty.
        (None, None) => return Ok(None),
    };
    for key in place {
        match objects.last().and_then(|object| object.object_value(key)) {
            Some(object) => objects.push(object),
            None => return Ok(None),
        }
    }
    let Some(entry) = objects.last().and_then(|object| object.get(name)) else { return Ok(None) };
    let old = entry.value().and_then(|value| value.to_serde_value()).unwrap_or_default();
    entry.remove();
    // Innermost first: removing an object may empty the one around it.
    for (depth, key) in place.iter().enumerate().rev() {
        if empty_objects == EmptyObjects::Remove
            && objects[depth + 1].properties().is_empty()
            && let Some(empty) = objects[depth].get(key)
        {
            empty.remove();
        }
    }
    Ok(Some((root.to_string(), old)))
}

fn parsed(text: &str) -> Result<CstRootNode, String> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())
}

fn finished(root: &CstRootNode, before: &str) -> String {
    let mut text = root.to_string();
    if before.trim().is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Formats the entry together with its enclosing keys.
fn shown(place: Keys, name: &str, entry: &Value) -> String {
    let mut value = serde_json::json!({ name: entry });
    for key in place.iter().rev() {
        value = serde_json::json!({ *key: value });
    }
    pretty(&value)
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("keys are strings")
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

    const USUAL: &[Keys] = &[&["mcpServers"]];
    const TWO: &[Keys] = &[&["mcp", "servers"], &["mcp"]];

    #[test]
    fn comments_and_other_servers_are_preserved() {
        let text = "{\n  // my servers\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // mine\n  },\n  \"theme\": \"dark\"\n}\n";
        let entry = json!({"command": "coven", "args": ["mcp"]});
        let put = edit(text, USUAL, "coven", Some(&entry)).expect("valid JSON");
        for kept in ["// my servers", "// mine", "\"theme\": \"dark\"", "\"command\": \"x\""] {
            assert!(put.text.contains(kept), "{}", put.text);
        }
        assert!(put.text.contains("\"coven\""));
        let out = edit(&put.text, USUAL, "coven", None).expect("valid JSON");
        assert_eq!(out.text, text);
    }

    #[test]
    fn removing_the_entry_restores_the_file() {
        let entry = json!({"command": "coven", "args": ["mcp"]});
        for text in [
            "{}",
            "{}\n",
            "{\"a\":1}",
            "{ \"a\": {\"b\": [1, 2]} }\n",
            "{\"mcpServers\":{\"x\":{}},\"a\":1}",
            "{\"mcpServers\":{},\"a\":1}",
            "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n",
            "{\n\t\"a\": 1\n}",
            "{\n  \"mcpServers\": {},\n  \"a\": 1, // last\n}\n",
        ] {
            let put = edit(text, USUAL, "coven", Some(&entry)).expect("valid JSON");
            assert!(put.text.contains("coven"), "{text}");
            let out = edit(&put.text, USUAL, "coven", None).expect("valid JSON");
            assert_eq!(out.text, text, "with the entry: {}", put.text);
        }
    }

    #[test]
    fn removing_an_absent_entry_changes_nothing() {
        for text in ["", "\n", "{}", "{\"mcpServers\": {}}\n", "// nothing\n"] {
            assert_eq!(edit(text, USUAL, "coven", None).expect("valid JSON").text, text);
        }
        assert!(edit("[]", USUAL, "coven", None).is_err());
    }

    #[test]
    fn an_empty_object_that_marks_the_place_of_servers_is_kept() {
        let text = "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n";
        let put = edit(text, TWO, "coven", Some(&json!({"command": "coven"}))).expect("valid JSON");
        let out = edit(&put.text, TWO, "coven", None).expect("valid JSON");
        assert_eq!(place_in(&out.text, TWO), ["mcp", "servers"], "{}", out.text);
    }

    #[test]
    fn the_first_existing_place_is_used() {
        assert_eq!(place_in("{\"mcp\": {\"servers\": {}}}", TWO), ["mcp", "servers"]);
        assert_eq!(place_in("{\"mcp\": {\"x\": {}}}", TWO), ["mcp"]);
        assert_eq!(place_in("", TWO), ["mcp"]);
    }
}
