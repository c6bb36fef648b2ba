//! Runs of workflows as people read them.

use coven_api::workflow::{StepRecord, WorkflowDetail, WorkflowRecord};
use coven_domain::Timestamp;

use crate::table::Table;
use crate::wording::{age, plain, readable, short_id};

/// Of what a step wrote, so many lines are shown.
const LINES: usize = 20;

pub fn table(workflows: &[WorkflowRecord], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "TASK", "WORKFLOW", "STATUS", "STEP", "AGE", "ERROR"], &[6, 2]);
    for it in workflows {
        table.row([
            short_id(&it.id).to_owned(),
            short_id(&it.task_id).to_owned(),
            it.name.clone(),
            it.status.clone(),
            it.step_name.clone().unwrap_or_default(),
            age(&it.created_at, now),
            it.error.clone().unwrap_or_default(),
        ]);
    }
    table
}

pub fn page(detail: &WorkflowDetail, now: Timestamp) -> String {
    let run = &detail.workflow;
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<11} {}\n", plain(value)));
    row("id", &run.id);
    row("workflow", &run.name);
    row("task", &run.task_id);
    row("status", &run.status);
    if let Some(error) = &run.error {
        row("error", error);
    }
    if let Some(by) = &run.approved_by {
        row("approved by", by);
    }
    row("begun", &format!("{} ago ({})", age(&run.created_at, now), run.created_at));
    text.push('\n');
    let mut table = Table::new(&["STEP", "TYPE", "STATUS", "SESSION", "ERROR"], &[4]);
    for step in &detail.steps {
        let session = detail.agents.iter().rev().find(|agent| agent.step.as_deref() == Some(&step.name));
        let session = session.and_then(|agent| agent.session_id.as_deref()).map_or("", short_id);
        table.row([
            format!("{}{}", "  ".repeat(step.depth), step.name),
            step.kind.clone(),
            status(step),
            session.to_owned(),
            step.error.clone().unwrap_or_default(),
        ]);
    }
    text.push_str(&table.text(crate::output::terminal_size().map(|(_, cols)| usize::from(cols))));
    // The one that it stands at is why it does not go on.
    let has_failed = |step: &&StepRecord| step.status == "failed" && step.output.is_some();
    let here = detail.steps.iter().filter(has_failed).find(|step| run.step_name.as_deref() == Some(&step.name));
    let failed = here.or_else(|| detail.steps.iter().rfind(has_failed));
    if let Some((step, output)) = failed.and_then(|step| Some((step, step.output.as_deref()?))) {
        let lines: Vec<&str> = output.trim_end().lines().collect();
        text.push_str(&format!("\nthe end of what {} wrote:\n", step.name));
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            text.push_str(&format!("  {}\n", readable(line)));
        }
    }
    text
}

fn status(step: &StepRecord) -> String {
    match (step.iteration, step.max_iterations) {
        (Some(iteration), Some(max)) => format!("{} {iteration}/{max}", step.status),
        _ => step.status.clone(),
    }
}
