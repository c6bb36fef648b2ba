//! The older daemon's `state.json`, in all the shapes it had.

use crate::legacy::records::{Left, Legacy, Source};
use serde_json::Value;

use super::fields::sort;
use super::{WHOLE, agent, question, task, workflow};

type Take<'a> = &'a mut dyn FnMut(&Value, Option<&str>, &mut Legacy, &mut Vec<Left>);

/// Fields that tell nothing which has a place here: who was active, and what is told by the agents anyway.
const EMPTY_OF_NEWS: [&str; 5] = ["workflow", "session", "last_task_sync", "session_started", "version"];

pub(super) fn take(value: &Value, source: &Source, legacy: &mut Legacy, left: &mut Vec<Left>) {
    let Value::Object(map) = value else {
        left.push(source.left(WHOLE, format!("expected an object, not {}", sort(value))));
        legacy.may_lack_tasks = true;
        return;
    };
    let is_known =
        |key: &str| ["tasks", "agents", "workflows", "questions"].contains(&key) || EMPTY_OF_NEWS.contains(&key);
    if !map.is_empty() && !map.keys().any(|key| is_known(key)) {
        let keys: Vec<&str> = map.keys().take(5).map(String::as_str).collect();
        left.push(source.left(WHOLE, format!("its shape is unknown; it has {}", keys.join(", "))));
        legacy.may_lack_tasks = true;
        return;
    }
    let is_list = each(map.get("tasks"), "tasks", source, legacy, left, &mut |value, key, legacy, left| {
        let task = task::read(value, key, source, legacy, left);
        legacy.tasks.extend(task);
    });
    legacy.may_lack_tasks |= !is_list;
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

/// A list, or an object by ids; whether it is one of these, or not there.
fn each(
    values: Option<&Value>,
    what: &str,
    source: &Source,
    legacy: &mut Legacy,
    left: &mut Vec<Left>,
    take: Take<'_>,
) -> bool {
    match values {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => list.iter().for_each(|value| take(value, None, legacy, left)),
        Some(Value::Object(map)) => map.iter().for_each(|(key, value)| take(value, Some(key), legacy, left)),
        Some(other) => {
            left.push(source.left(what, format!("expected a list or an object, not {}", sort(other))));
            return false;
        }
    }
    true
}
