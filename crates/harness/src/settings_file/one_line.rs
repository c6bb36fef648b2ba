//! Adds an entry to JSON that is written on one line, without reformatting it.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Value, json};

/// Returns the text with the entry added under `place`; `None` if the text has several lines or is not an object.
pub(super) fn put(text: &str, place: &[&str], name: &str, entry: &Value) -> Option<String> {
    if text.trim_end().is_empty() || text.trim_end().contains('\n') {
        return None;
    }
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default()).ok()?;
    let Some(Node::Object(root)) = &parsed.value else { return None };
    let (object, missing) = innermost(root, place);
    let (first, rest) = match missing {
        [] => (name, Vec::new()),
        [first, rest @ ..] => (*first, rest.iter().copied().chain([name]).collect()),
    };
    let value = rest.iter().rev().fold(entry.clone(), |value, key| json!({ *key: value }));
    let field = format!("{}:{value}", json!(first));
    let (at, field) = match object.properties.last() {
        Some(last) => (last.range.end, format!(",{field}")),
        // Right after the opening brace.
        None => (object.range.start + 1, field),
    };
    Some(format!("{}{field}{}", &text[..at], &text[at..]))
}

/// Returns the innermost existing object on the path `place`, and the remaining keys.
fn innermost<'a, 'b>(root: &'a Object<'a>, place: &'b [&'b str]) -> (&'a Object<'a>, &'b [&'b str]) {
    let mut object = root;
    for (depth, key) in place.iter().enumerate() {
        match object.get_object(key) {
            Some(inner) => object = inner,
            None => return (object, &place[depth..]),
        }
    }
    (object, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_added_after_existing_properties() {
        let put = |text| put(text, &["servers"], "x", &json!({"a": 1}));
        assert_eq!(put("{}").as_deref(), Some(r#"{"servers":{"x":{"a":1}}}"#));
        assert_eq!(put(r#"{ "b": 2 }"#).as_deref(), Some(r#"{ "b": 2,"servers":{"x":{"a":1}} }"#));
        assert_eq!(put(r#"{"servers":{},"b":2}"#).as_deref(), Some(r#"{"servers":{"x":{"a":1}},"b":2}"#));
        assert_eq!(put("{\n}"), None);
        assert_eq!(put(""), None);
    }
}
