//! Formats workflow runs for people.

use coven_api::routes::{Endpoint, GetWorkflow, ListAgents, ListSteps};
use coven_api::workflow::{AgentRecord, ListAgentsQuery, StepRecord, StepStatus, StepWaitRecord, WorkflowRecord};
use coven_client::{Client, ClientError};
use coven_domain::workflow::WaitCause;
use coven_domain::{SessionId, Timestamp};

use crate::format::{format_duration, readable, sanitize_line};
use crate::listing::{self, Paging};
use crate::table::Table;

/// Number of output lines shown of a failed step.
const OUTPUT_LINES: usize = 20;

/// A run with everything that its page shows.
#[derive(Debug, Clone, PartialEq)]
pub struct RunView {
    pub run: WorkflowRecord,
    pub steps: Vec<StepRecord>,
    /// All agents of the run, oldest first.
    pub agents: Vec<AgentRecord>,
}

impl RunView {
    /// Reads a run by its id or its task's id.
    pub async fn read(client: &mut Client, id: &str) -> Result<Self, ClientError> {
        let run = client.call(GetWorkflow::of(id)).await?;
        let id = run.id.to_string();
        let steps = listing::items(client, ListSteps::of(&id), Paging::default()).await?;
        let query = ListAgentsQuery { workflow: Some(id), ..ListAgentsQuery::default() };
        let agents = listing::items(client, ListAgents::request().query(&query), Paging::default()).await?;
        Ok(Self { run, steps, agents })
    }
}

pub fn table(workflows: &[WorkflowRecord], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "TASK", "WORKFLOW", "STATUS", "STEP", "AGE", "ERROR"], &[6, 2]);
    for it in workflows {
        table.row([
            it.id.short(),
            it.task_id.short(),
            it.name.clone(),
            it.status.to_string(),
            it.step_name.clone().unwrap_or_default(),
            format_duration(now.since(it.created_at)),
            it.error.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Says why a step makes no progress, and until when: `for a limit, 12m more (until 2026-11-18T20:00:00.000Z): usage limit`.
pub fn wait_text(wait: &StepWaitRecord, now: Timestamp) -> String {
    let cause = match wait.cause {
        WaitCause::Limit => "for a limit to reset",
        WaitCause::Launch => "for its launch",
    };
    let until = match wait.until {
        Some(until) => format!(", {} more (until {until})", format_duration(until.since(now))),
        None => String::new(),
    };
    let detail = wait.detail.as_deref().map_or_else(String::new, |detail| format!(": {detail}"));
    format!("{cause}{until}{detail}")
}

pub fn page(RunView { run, steps, agents }: &RunView, now: Timestamp) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<11} {}\n", sanitize_line(value)));
    row("id", &run.id.to_string());
    row("workflow", &run.name);
    row("task", &run.task_id.to_string());
    row("status", run.status.as_str());
    if let Some(error) = &run.error {
        row("error", error);
    }
    if let Some(by) = &run.approved_by {
        row("approved by", by);
    }
    if let Some(wait) = &run.waiting {
        row("waits", &wait_text(wait, now));
    }
    row("started", &format!("{} ago ({})", format_duration(now.since(run.created_at)), run.created_at));
    text.push('\n');
    let session = |step: &StepRecord| {
        let agent = agents.iter().rev().find(|agent| agent.step.as_deref() == Some(&step.name));
        agent.and_then(|agent| agent.session_id).map_or_else(String::new, |id: SessionId| id.short())
    };
    text.push_str(&step_table(steps, session).text(crate::output::terminal_size().map(|(_, cols)| usize::from(cols))));
    // Prefer the failed step that the run is at: it is why the run stopped.
    let has_failed = |step: &&StepRecord| step.status == StepStatus::Failed && step.output.is_some();
    let here = steps.iter().filter(has_failed).find(|step| run.step_name.as_deref() == Some(&step.name));
    let failed = here.or_else(|| steps.iter().rfind(has_failed));
    if let Some((step, output)) = failed.and_then(|step| Some((step, step.output.as_deref()?))) {
        let lines: Vec<&str> = output.trim_end().lines().collect();
        text.push_str(&format!("\nend of the output of {}:\n", step.name));
        for line in &lines[lines.len().saturating_sub(OUTPUT_LINES)..] {
            text.push_str(&format!("  {}\n", readable(line)));
        }
    }
    text
}

/// Formats steps as a table. `session` returns the short id of a step's last session.
pub fn step_table(steps: &[StepRecord], session: impl Fn(&StepRecord) -> String) -> Table {
    let mut table = Table::new(&["STEP", "TYPE", "STATUS", "SESSION", "ERROR"], &[4]);
    for step in steps {
        table.row([
            format!("{}{}", "  ".repeat(step.depth), step.name),
            step.kind.to_string(),
            status(step),
            session(step),
            step.error.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn status(step: &StepRecord) -> String {
    match (step.iteration, step.max_iterations) {
        (Some(iteration), Some(max)) => format!("{} {iteration}/{max}", step.status),
        _ => step.status.to_string(),
    }
}
