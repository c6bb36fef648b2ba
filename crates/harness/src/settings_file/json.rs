//! An entry in a file of JSON, with or without comments, whose other content stays as it is, comments included.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

use super::{Edited, one_line};

/// The keys of nested objects; the innermost one holds the servers.
type Keys<'a> = &'a [&'static str];

/// The first of these places that the text has, else the last.
fn place_in<'a>(text: &str, places: &[Keys<'a>]) -> Keys<'a> {
    let (last, others) = places.split_last().expect("servers have a place");
    let is_there = |place: &&Keys| {
        let root = parsed(text).ok().and_then(|root| root.object_value());
        place.iter().fold(root, |object, key| object?.object_value(key)).is_some()
    };
    others.iter().find(is_there).unwrap_or(last)
}

/// Puts the entry under the place that the text has for it, or takes it out.
pub(super) fn edit(text: &str, places: &[Keys], name: &str, entry: Option<&Value>) -> Result<Edited, String> {
    match entry {
        Some(entry) => put(text, place_in(text, places), name, entry),
        None => take(text, places, name),
    }
}

fn put(text: &str, place: Keys, name: &str, entry: &Value) -> Result<Edited, String> {
    let root = parsed(text)?;
    let mut object = root.object_value_or_create().ok_or("it is not an object")?;
    for key in place {
        object = object.object_value_or_create(key).ok_or_else(|| format!("{key} is not an object"))?;
    }
    let there = object.get(name);
    let old = there.as_ref().and_then(|there| there.value()?.to_serde_value());
    let mut edited = Edited { entry: Some(shown(place, name, entry)), ..Edited::default() };
    edited.text = match there {
        Some(_) if old.as_ref() == Some(entry) => text.to_owned(),
        Some(there) => {
            edited.replaced = old.as_ref().map(pretty);
            there.set_value(input(entry));
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

fn take(text: &str, places: &[Keys], name: &str) -> Result<Edited, String> {
    let place = place_in(text, places);
    let Some((kept, old)) = without(text, place, name, Emptied::Stay)? else {
        return Ok(Edited { text: text.to_owned(), ..Edited::default() });
    };
    let mut edited = Edited { text: kept, replaced: Some(pretty(&old)), ..Edited::default() };
    // An object that is empty now was made for the entry if putting that in again gives the very same file.
    if let Some((bare, _)) = without(text, place, name, Emptied::Go)?
        && put(&bare, place_in(&bare, places), name, &old).is_ok_and(|again| again.text == text)
    {
        edited.text = bare;
    }
    Ok(edited)
}

/// What becomes of the objects that held nothing but the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Emptied {
    Stay,
    Go,
}

/// The text without the entry, and what the entry was; none where there is no entry.
fn without(text: &str, place: Keys, name: &str, emptied: Emptied) -> Result<Option<(String, Value)>, String> {
    let root = parsed(text)?;
    let mut objects = match (root.object_value(), root.value()) {
        (Some(object), _) => vec![object],
        (None, Some(_)) => return Err("it is not an object".to_owned()),
        // An empty file.
        (None, None) => return Ok(None),
    };
    for key in place {
        match objects.last().and_then(|object| object.object_value(key)) {
            Some(object) => objects.push(object),
            None => return Ok(None),
        }
    }
    let Some(there) = objects.last().and_then(|object| object.get(name)) else { return Ok(None) };
    let old = there.value().and_then(|value| value.to_serde_value()).unwrap_or_default();
    there.remove();
    // From the innermost outwards; each lies under its key in the one around it.
    for (depth, key) in place.iter().enumerate().rev() {
        if emptied == Emptied::Go
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

/// The entry with the keys it stands under.
fn shown(place: Keys, name: &str, entry: &Value) -> String {
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

    const USUAL: &[Keys] = &[&["mcpServers"]];
    const TWO: &[Keys] = &[&["mcp", "servers"], &["mcp"]];

    #[test]
    fn comments_and_other_servers_stay() {
        let text = "{\n  // my servers\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" } // mine\n  },\n  \"theme\": \"dark\"\n}\n";
        let entry = json!({"command": "coven", "args": ["mcp"]});
        let put = edit(text, USUAL, "coven", Some(&entry)).expect("sound");
        for kept in ["// my servers", "// mine", "\"theme\": \"dark\"", "\"command\": \"x\""] {
            assert!(put.text.contains(kept), "{}", put.text);
        }
        assert!(put.text.contains("\"coven\""));
        let out = edit(&put.text, USUAL, "coven", None).expect("sound");
        assert_eq!(out.text, text);
    }

    #[test]
    fn what_is_taken_out_leaves_the_file_as_it_was() {
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
            let put = edit(text, USUAL, "coven", Some(&entry)).expect("sound");
            assert!(put.text.contains("coven"), "{text}");
            let out = edit(&put.text, USUAL, "coven", None).expect("sound");
            assert_eq!(out.text, text, "by way of {}", put.text);
        }
    }

    #[test]
    fn where_there_is_no_entry_nothing_is_taken_out() {
        for text in ["", "\n", "{}", "{\"mcpServers\": {}}\n", "// nothing\n"] {
            assert_eq!(edit(text, USUAL, "coven", None).expect("sound").text, text);
        }
        assert!(edit("[]", USUAL, "coven", None).is_err());
    }

    #[test]
    fn an_object_that_says_where_servers_stand_is_kept() {
        let text = "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n";
        let put = edit(text, TWO, "coven", Some(&json!({"command": "coven"}))).expect("sound");
        let out = edit(&put.text, TWO, "coven", None).expect("sound");
        assert_eq!(place_in(&out.text, TWO), ["mcp", "servers"], "{}", out.text);
    }

    #[test]
    fn the_first_place_that_is_there_is_taken() {
        assert_eq!(place_in("{\"mcp\": {\"servers\": {}}}", TWO), ["mcp", "servers"]);
        assert_eq!(place_in("{\"mcp\": {\"x\": {}}}", TWO), ["mcp"]);
        assert_eq!(place_in("", TWO), ["mcp"]);
    }
}
