//! Questions of the older daemon, one file each.

use crate::legacy::records::{Legacy, LegacyQuestion, SkippedItem, Source};
use coven_domain::question::Choice;
use serde_json::Value;

use super::fields::Fields;

pub(super) fn take(value: &Value, source: &Source, legacy: &mut Legacy, left: &mut Vec<SkippedItem>) {
    let Some(mut fields) = Fields::of(value, "a question", source, left) else { return };
    let Some(id) = fields.text(&["id"]) else { return fields.report("missing id") };
    fields.set_name(format!("question {id}"));
    let Some(task) = fields.text(&["task_id", "taskId"]) else { return fields.report("missing task id") };
    let Some(text) = fields.text(&["text", "prompt"]) else { return fields.report("missing text") };
    let is_marked = match fields.text(&["status"]).as_deref() {
        None | Some("pending") => false,
        Some("answered" | "resolved") => true,
        Some(other) => return fields.report(format!("status: unknown value {other:?}")),
    };
    let answer = fields.text(&["answer", "response"]);
    let answered_at = fields.moment(&["answered_at", "answeredAt", "responded_at", "respondedAt"]);
    let labels = fields.texts(&["options"]);
    legacy.questions.push(LegacyQuestion {
        source: fields.source(),
        id,
        task,
        kind: fields.text(&["type"]),
        text,
        options: labels.into_iter().map(|label| Choice { description: None, label }).collect(),
        is_answered: is_marked || answer.is_some() || answered_at.is_some(),
        answer,
        asked_at: fields.moment(&["detected_at", "detectedAt", "created_at", "createdAt"]),
        answered_at,
    });
}
