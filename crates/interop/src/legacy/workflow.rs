//! Workflow runs of the older daemon, one file per task.

use std::collections::BTreeMap;

use crate::legacy::records::{Legacy, LegacyWorkflow, SkippedItem, Source};
use coven_domain::workflow::{StepResult, WorkflowState};
use serde_json::Value;

use super::fields::Fields;

pub(super) fn take(value: &Value, source: &Source, legacy: &mut Legacy, left: &mut Vec<SkippedItem>) {
    take_keyed(value, None, source, legacy, left);
}

/// Reads a run. `key` is the id of its task if the runs are stored by task id.
pub(super) fn take_keyed(
    value: &Value,
    key: Option<&str>,
    source: &Source,
    legacy: &mut Legacy,
    left: &mut Vec<SkippedItem>,
) {
    let Some(mut fields) = Fields::of(value, "a workflow", source, left) else { return };
    let Some(task) = fields.text(&["task_id", "taskId"]).or_else(|| key.map(str::to_owned)) else {
        return fields.report("missing task id");
    };
    let id = fields.text(&["workflow_id", "workflowId", "id"]).unwrap_or_else(|| task.clone());
    fields.set_name(format!("workflow {id}"));
    let status = fields.text(&["status"]).unwrap_or_else(|| WorkflowState::Running.to_string());
    let Some(state) = fields.parse_status(&status) else { return };
    let steps_done = fields.integer(&["current_step", "currentStep"]).map_or(0, |last| last.saturating_add(1));
    let run = LegacyWorkflow {
        source: fields.source(),
        id,
        task,
        name: fields.text(&["grimoire_name", "grimoireName"]),
        state,
        worktree: fields.text(&["worktree_path", "worktreePath"]),
        error: fields.text(&["error"]).or_else(|| fields.text(&["blocked_reason", "blockedReason"])),
        steps_done: usize::try_from(steps_done).unwrap_or(0),
        started_at: fields.moment(&["started_at", "startedAt"]),
        updated_at: fields.moment(&["updated_at", "updatedAt"]),
        ended_at: fields.moment(&["completed_at", "completedAt"]),
        results: results(&mut fields),
    };
    legacy.workflows.push(run);
}

fn results(fields: &mut Fields<'_>) -> BTreeMap<String, StepResult> {
    let mut results = BTreeMap::new();
    let Some(mut steps) = fields.nested(&["completed_steps", "completedSteps"]) else { return results };
    for name in steps.names() {
        if let Some(result) = steps.member(&name).map(|mut step| result(&mut step)) {
            results.insert(name, result);
        }
    }
    results
}

/// Reads a step result. The daemon wrote the Go field names as keys.
fn result(step: &mut Fields<'_>) -> StepResult {
    let output = step.text(&["Output", "output"]).unwrap_or_default();
    StepResult {
        success: step.is_true(&["Success", "success"]),
        skipped: step.is_true(&["Skipped", "skipped"]),
        exit_code: step.integer(&["ExitCode", "exit_code", "exitCode"]).and_then(|code| i32::try_from(code).ok()),
        output,
        outputs: Value::Null,
        error: step.text(&["Error", "error"]),
    }
}
