//! The complete requests of an agent to the stub model.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

pub struct Bodies {
    pub folder: PathBuf,
}

impl Bodies {
    /// Returns the form in which an answer reached the model: coven's text, its structured data, or both. `None` if the
    /// answer did not reach it.
    pub fn form_of(&self, text: &str, words: &str) -> Option<&'static str> {
        let files = fs::read_dir(&self.folder).ok()?;
        files.filter_map(|file| form_in(&parsed(&fs::read_to_string(file.ok()?.path()).ok()?)?, text, words)).next()
    }
}

fn parsed(text: &str) -> Option<Value> {
    // A file may be incomplete while it is being written; the next poll reads it again.
    serde_json::from_str(text).ok()
}

fn form_in(body: &Value, text: &str, words: &str) -> Option<&'static str> {
    let data = format!("\"customText\":{}", Value::from(words));
    let mut strings = Vec::new();
    collect(body, &mut strings);
    let has = |wanted: &str| strings.iter().any(|string| string.contains(wanted));
    match (has(text), has(&data)) {
        (true, true) => Some("as text and data"),
        (true, false) => Some("as text"),
        (false, true) => Some("as data"),
        (false, false) => None,
    }
}

fn collect<'a>(value: &'a Value, strings: &mut Vec<&'a str>) {
    match value {
        Value::String(string) => strings.push(string),
        Value::Array(items) => items.iter().for_each(|item| collect(item, strings)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, strings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_found_in_either_form() {
        let text = json!([{ "content": "x\n1. Q?\n→ Other: 'a \"b\"'" }]);
        assert_eq!(form_in(&text, "1. Q?\n→ Other: 'a \"b\"'", "a \"b\""), Some("as text"));
        let data = json!({ "output": json!({ "answers": [{ "customText": "a \"b\"" }] }).to_string() });
        assert_eq!(form_in(&data, "1. Q?\n→ Other: 'a \"b\"'", "a \"b\""), Some("as data"));
        assert_eq!(form_in(&json!({}), "t", "w"), None);
    }
}
