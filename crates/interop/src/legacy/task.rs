//! Tasks of the older coven and of the tracker.

use crate::legacy::records::{Legacy, LegacyTask, SkippedItem, Source};
use coven_domain::task::{Priority, TaskState};
use serde_json::Value;

use super::fields::Fields;

/// Reads a task. Reports one that cannot be parsed and adds its id to `unparsed_tasks`.
pub(super) fn read(
    value: &Value,
    key: Option<&str>,
    source: &Source,
    legacy: &mut Legacy,
    left: &mut Vec<SkippedItem>,
) -> Option<LegacyTask> {
    let what = key.map_or_else(|| "a task".to_owned(), |key| format!("task {key}"));
    let Some(mut fields) = Fields::of(value, &what, source, left) else {
        legacy.unparsed_tasks.extend(key.map(str::to_owned));
        return None;
    };
    let Some(id) = fields.text(&["id"]).or_else(|| key.map(str::to_owned)) else {
        fields.report("missing id");
        return None;
    };
    fields.set_name(format!("task {id}"));
    let status = fields.text(&["status"]).unwrap_or_else(|| TaskState::Open.to_string());
    let Some(state) = fields.parse_status(&status) else {
        legacy.unparsed_tasks.insert(id);
        return None;
    };
    let mut task = LegacyTask::new(fields.source(), &id, state);
    task.title = fields.text(&["title"]);
    task.body = fields.text(&["description", "body"]);
    task.notes = fields.text(&["notes"]);
    task.author = fields.text(&["created_by", "createdBy"]);
    task.kind = fields.text(&["type", "issue_type", "issueType"]);
    task.priority = fields.integer(&["priority"]).and_then(|number| match Priority::try_from(number) {
        Ok(_) => Some(number),
        Err(bad) => {
            fields.report(format!("priority: {bad}"));
            None
        }
    });
    task.labels = fields.texts(&["labels", "tags"]);
    task.labels.extend(fields.text(&["grimoire_hint", "grimoireHint"]).map(|name| format!("grimoire:{name}")));
    task.depends_on = fields.texts(&["depends_on", "dependsOn"]);
    task.blocks = fields.texts(&["blocks"]);
    task.parents.extend(fields.text(&["parent_id", "parentId"]));
    fields.each(&["dependencies"], |link| take_link(link, &mut task));
    task.reason = fields.text(&["close_reason", "blocked_reason", "reason"]);
    task.created_at = fields.moment(&["created_at", "createdAt"]);
    task.updated_at = fields.moment(&["updated_at", "updatedAt"]);
    task.closed_at = fields.moment(&["closed_at", "closedAt"]);
    task.deleted_at = fields.moment(&["deleted_at", "deletedAt"]);
    Some(task)
}

/// Reads a link. The tracker records both ends of it.
fn take_link(link: &mut Fields<'_>, task: &mut LegacyTask) {
    if let Some(id) = link.text(&["issue_id", "issueId"]).filter(|id| *id != task.id) {
        return link.report(format!("link of another task: {id}"));
    }
    let Some(other) = link.text(&["depends_on_id", "dependsOnId"]) else { return link.report("missing depends_on_id") };
    match link.text(&["type"]).as_deref() {
        None | Some("blocks") => task.depends_on.push(other),
        Some("parent-child") => task.parents.push(other),
        Some(kind) => task.mentions.push(format!("{kind} {other}")),
    }
}
