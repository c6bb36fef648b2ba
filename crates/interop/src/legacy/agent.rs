//! Agents of the older daemon, and familiars of the editor extension.

use crate::legacy::records::{Legacy, LegacyAgent, SkippedItem, Source};
use coven_domain::agent::AgentState;
use serde_json::Value;

use super::fields::Fields;

/// Reads an agent. `key` is the id of its task if the agents are stored by task id.
pub(super) fn take(
    value: &Value,
    key: Option<&str>,
    source: &Source,
    legacy: &mut Legacy,
    left: &mut Vec<SkippedItem>,
) {
    let what = key.map_or_else(|| "an agent".to_owned(), |key| format!("agent of {key}"));
    let Some(mut fields) = Fields::of(value, &what, source, left) else { return };
    let Some(task) = fields.text(&["task_id", "taskId"]).or_else(|| key.map(str::to_owned)) else {
        return fields.report("missing task id");
    };
    fields.set_name(format!("agent of {task}"));
    // One format has no status: it was only written while its agents were running.
    let status = fields.text(&["status"]).unwrap_or_else(|| AgentState::Running.to_string());
    let Some(state) = fields.parse_status::<AgentState>(&status) else { return };
    let name = fields.text(&["id"]).unwrap_or_else(|| task.clone());
    legacy.agents.push(LegacyAgent {
        source: fields.source(),
        name,
        task,
        step: fields.text(&["step_task_id", "stepTaskId"]),
        state: starting_as_running(state),
        pid: fields.pid(&["pid"]),
        worktree: fields.text(&["worktree", "worktree_path", "worktreePath"]),
        branch: fields.text(&["branch"]),
        output_file: fields.text(&["output_file", "outputFile"]),
        error: fields.text(&["error"]),
        exit_code: fields.integer(&["exit_code", "exitCode"]),
        started_at: fields.moment(&["started_at", "startedAt"]),
        ended_at: fields.moment(&["ended_at", "endedAt"]),
    });
}

fn starting_as_running(state: AgentState) -> AgentState {
    match state {
        AgentState::Starting => AgentState::Running,
        other => other,
    }
}

pub(super) fn take_familiar(value: &Value, source: &Source, legacy: &mut Legacy, left: &mut Vec<SkippedItem>) {
    let Some(mut fields) = Fields::of(value, "a familiar", source, left) else { return };
    let Some(task) = fields.text(&["taskId", "task_id"]) else { return fields.report("missing task id") };
    fields.set_name(format!("familiar of {task}"));
    let status = fields.text(&["status"]).unwrap_or_else(|| "working".to_owned());
    let state = match status.as_str() {
        "working" | "waiting" | "merging" => AgentState::Running,
        "complete" => AgentState::Completed,
        other => match fields.parse_status::<AgentState>(other) {
            Some(state) => starting_as_running(state),
            None => return,
        },
    };
    let spawned_at = fields.moment(&["spawnedAt", "spawned_at"]);
    let mut agent = LegacyAgent {
        source: fields.source(),
        name: format!("familiar/{task}"),
        task,
        step: None,
        state,
        pid: None,
        worktree: None,
        branch: fields.text(&["branch"]),
        output_file: None,
        error: fields.text(&["error"]),
        exit_code: None,
        started_at: spawned_at,
        ended_at: None,
    };
    if let Some(mut process) = fields.nested(&["processInfo", "process_info"]) {
        agent.pid = process.pid(&["pid"]);
        agent.worktree = process.text(&["worktreePath", "worktree_path"]);
        agent.started_at = spawned_at.or_else(|| process.moment(&["startTime", "start_time"]));
    }
    legacy.agents.push(agent);
}
