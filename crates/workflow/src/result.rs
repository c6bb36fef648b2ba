//! The result that an agent reports for its step: an optional JSON block in its answer.

use serde_json::Value;

/// The parsed block.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub success: bool,
    pub summary: Option<String>,
    pub outputs: Value,
    pub error: Option<String>,
}

/// Returns the last JSON object in the text that has a boolean `success`. The object must start on a new line.
pub fn verdict(text: &str) -> Option<Verdict> {
    let starts: Vec<usize> = line_starts(text).filter(|at| text[*at..].trim_start().starts_with('{')).collect();
    starts.into_iter().rev().find_map(|at| {
        let mut objects = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        objects.next()?.ok().and_then(|value| read(&value))
    })
}

fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1))
}

fn read(value: &Value) -> Option<Verdict> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Verdict {
        success: value.get("success")?.as_bool()?,
        summary: text("summary"),
        outputs: value.get("outputs").cloned().unwrap_or(Value::Null),
        error: text("error"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_block_with_a_success_wins() {
        let text = "I tried.\n```json\n{\"success\": false, \"error\": \"no\"}\n```\nAgain:\n```json\n{\n  \"success\": true,\n  \
                    \"summary\": \"it works\",\n  \"outputs\": {\"files\": [\"a\"]}\n}\n```\n{\"other\": 1}\nBye.";
        let found = verdict(text).expect("a block");
        assert_eq!((found.success, found.summary.as_deref(), found.error), (true, Some("it works"), None));
        assert_eq!(found.outputs, json!({ "files": ["a"] }));
    }

    #[test]
    fn other_text_is_not_a_verdict() {
        for text in ["", "all good {\"success\": true}", "{\"success\": \"yes\"}", "{\"success\": tru", "{}\n[1]"] {
            assert_eq!(verdict(text), None, "{text:?}");
        }
    }
}
