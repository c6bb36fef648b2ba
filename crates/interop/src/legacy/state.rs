//! The older daemon's `state.json`, in all of its formats.

use crate::legacy::records::{Legacy, SkippedItem, Source};
use serde_json::Value;

use super::fields::json_type;
use super::{WHOLE, agent, question, task, workflow};

type Take<'a> = &'a mut dyn FnMut(&Value, Option<&str>, &mut Legacy, &mut Vec<SkippedItem>);

/// Fields that are not imported: which session or workflow was active, and data that the agents also have.
const IGNORED_FIELDS: [&str; 5] = ["workflow", "session", "last_task_sync", "session_started", "version"];

pub(super) fn take(value: &Value, source: &Source, legacy: &mut Legacy, left: &mut Vec<SkippedItem>) {
    let Value::Object(map) = value else {
        left.push(source.left(WHOLE, format!("expected an object, not {}", json_type(value))));
        legacy.is_task_list_partial = true;
        return;
    };
    let is_known =
        |key: &str| ["tasks", "agents", "workflows", "questions"].contains(&key) || IGNORED_FIELDS.contains(&key);
    if !map.is_empty() && !map.keys().any(|key| is_known(key)) {
        let keys: Vec<&str> = map.keys().take(5).map(String::as_str).collect();
        left.push(source.left(WHOLE, format!("unknown format with the keys {}", keys.join(", "))));
        legacy.is_task_list_partial = true;
        return;
    }
    let is_list = each(map.get("tasks"), "tasks", source, legacy, left, &mut |value, key, legacy, left| {
        let task = task::read(value, key, source, legacy, left);
        legacy.tasks.extend(task);
    });
    legacy.is_task_list_partial |= !is_list;
    each(map.get("agents"), "agents", source, legacy, left, &mut |value, key, legacy, left| {
        agent::take(value, key, source, legacy, left);
    });
    each(map.get("workflows"), "workflows", source, legacy, left, &mut |value, key, legacy, left| {
        workflow::take_keyed(value, key, source, legacy, left);
    });
    each(map.get("questions"), "questions", source, legacy, left, &mut |value, _, legacy, left| {
        question::take(value, source, legacy, left);
    });
}

/// Calls `take` with each item of a list, or of an object whose keys are ids. Returns false for any other value.
fn each(
    values: Option<&Value>,
    what: &str,
    source: &Source,
    legacy: &mut Legacy,
    left: &mut Vec<SkippedItem>,
    take: Take<'_>,
) -> bool {
    match values {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => list.iter().for_each(|value| take(value, None, legacy, left)),
        Some(Value::Object(map)) => map.iter().for_each(|(key, value)| take(value, Some(key), legacy, left)),
        Some(other) => {
            left.push(source.left(what, format!("expected a list or an object, not {}", json_type(other))));
            return false;
        }
    }
    true
}
