//! An entry in JSON that stands on one line, as programs write it: it stays one line, and everything in it where it was.

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Value, json};

/// The text with the entry under `place`; none where it has several lines, or no object.
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
        // Right behind its brace.
        None => (object.range.start + 1, field),
    };
    Some(format!("{}{field}{}", &text[..at], &text[at..]))
}

/// The last object on the way to `place` that is there, and the keys behind it.
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
    fn the_entry_goes_behind_what_is_there() {
        let put = |text| put(text, &["servers"], "x", &json!({"a": 1}));
        assert_eq!(put("{}").as_deref(), Some(r#"{"servers":{"x":{"a":1}}}"#));
        assert_eq!(put(r#"{ "b": 2 }"#).as_deref(), Some(r#"{ "b": 2,"servers":{"x":{"a":1}} }"#));
        assert_eq!(put(r#"{"servers":{},"b":2}"#).as_deref(), Some(r#"{"servers":{"x":{"a":1}},"b":2}"#));
        assert_eq!(put("{\n}"), None);
        assert_eq!(put(""), None);
    }
}
