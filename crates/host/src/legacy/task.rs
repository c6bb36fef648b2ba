//! A task as the older coven kept it.

use coven_domain::legacy::{Left, Legacy, LegacyTask, Source};
use coven_domain::task::{Priority, TaskState};
use serde_json::Value;

use super::fields::Fields;

pub(super) fn take(value: &Value, key: Option<&str>, source: &Source, legacy: &mut Legacy, left: &mut Vec<Left>) {
    let what = key.map_or_else(|| "a task".to_owned(), |key| format!("task {key}"));
    let Some(mut fields) = Fields::of(value, &what, source, left) else {
        legacy.unclear_tasks.extend(key.map(str::to_owned));
        return;
    };
    let Some(id) = fields.text(&["id"]).or_else(|| key.map(str::to_owned)) else {
        return fields.leave("it has no id");
    };
    fields.call(format!("task {id}"));
    let word = fields.text(&["status"]).unwrap_or_else(|| TaskState::Open.to_string());
    let Some(state) = fields.word(&word) else {
        legacy.unclear_tasks.insert(id);
        return;
    };
    let mut task = LegacyTask::new(fields.source(), &id, state);
    task.title = fields.text(&["title"]);
    task.body = fields.text(&["description", "body"]);
    task.kind = fields.text(&["type", "issue_type", "issueType"]);
    task.priority = fields.whole(&["priority"]).and_then(|number| match Priority::try_from(number) {
        Ok(_) => Some(number),
        Err(bad) => {
            fields.leave(format!("priority: {bad}"));
            None
        }
    });
    task.labels = fields.texts(&["labels", "tags"]);
    task.labels.extend(fields.text(&["grimoire_hint", "grimoireHint"]).map(|name| format!("grimoire:{name}")));
    task.depends_on = fields.texts(&["depends_on", "dependsOn"]);
    task.blocks = fields.texts(&["blocks"]);
    task.parents.extend(fields.text(&["parent_id", "parentId"]));
    task.reason = fields.text(&["close_reason", "blocked_reason", "reason"]);
    task.created_at = fields.moment(&["created_at", "createdAt"]);
    task.updated_at = fields.moment(&["updated_at", "updatedAt"]);
    task.closed_at = fields.moment(&["closed_at", "closedAt"]);
    task.deleted_at = fields.moment(&["deleted_at", "deletedAt"]);
    legacy.tasks.push(task);
}
