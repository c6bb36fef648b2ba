//! Runs of workflows and the agents that work on their steps, on the wire.

use coven_domain::agent::Agent;
use coven_domain::workflow::{Workflow, WorkflowState};
use coven_workflow::{Definition, StepKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::TaskRecord;

/// One attempt at a step of a task: a session in the task's worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRecord {
    pub id: String,
    pub task_id: String,
    pub workflow_id: Option<String>,
    pub step: Option<String>,
    pub session_id: Option<String>,
    /// `starting`, `running`, `completed`, `failed` or `killed`.
    pub status: String,
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// The folder of its session, where its output lies.
    pub output_file: Option<String>,
    pub error: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub ended_at: Option<String>,
}

impl From<&Agent> for AgentRecord {
    fn from(agent: &Agent) -> Self {
        Self {
            id: agent.id.to_string(),
            task_id: agent.task.to_string(),
            workflow_id: agent.workflow.map(|id| id.to_string()),
            step: agent.step.clone(),
            session_id: agent.session.map(|id| id.to_string()),
            status: agent.state.to_string(),
            pid: agent.pid,
            worktree: agent.worktree.clone(),
            branch: agent.branch.clone(),
            output_file: agent.output_file.clone(),
            error: agent.error.clone(),
            created_at: agent.created_at.to_string(),
            updated_at: agent.updated_at.to_string(),
            ended_at: agent.ended_at.map(|at| at.to_string()),
        }
    }
}

/// A run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowRecord {
    pub id: String,
    pub task_id: String,
    pub agent_id: Option<String>,
    pub name: String,
    /// `running`, `blocked`, `pending_merge`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The step that runs or is next, counted from 0 on the outermost level.
    pub step: usize,
    /// What that step is called.
    pub step_name: Option<String>,
    pub error: Option<String>,
    /// Who agreed to the merge that is under way.
    pub approved_by: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub ended_at: Option<String>,
}

impl From<&Workflow> for WorkflowRecord {
    fn from(workflow: &Workflow) -> Self {
        let progress = &workflow.progress;
        let step_name =
            Definition::of_run(workflow).ok().and_then(|read| read.step(&progress.at).map(|step| step.name.clone()));
        Self {
            id: workflow.id.to_string(),
            task_id: workflow.task.to_string(),
            agent_id: workflow.agent.map(|id| id.to_string()),
            name: workflow.name.clone(),
            status: workflow.state.to_string(),
            step: progress.at.first().copied().unwrap_or(0),
            step_name,
            error: workflow.error.clone(),
            approved_by: progress.approval.as_ref().map(|approval| approval.by.clone()),
            created_at: workflow.created_at.to_string(),
            updated_at: workflow.updated_at.to_string(),
            ended_at: workflow.ended_at.map(|at| at.to_string()),
        }
    }
}

/// A step of a run, in the order of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepRecord {
    pub name: String,
    /// `agent`, `script`, `loop` or `merge`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many loops it stands in.
    pub depth: usize,
    /// `pending`, `running`, `waiting` (for a review), `completed`, `failed` or `skipped`: how it went the last time.
    pub status: String,
    /// For a loop: the iteration it is in or ended with, and how many there may be.
    pub iteration: Option<u32>,
    pub max_iterations: Option<u32>,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    /// The end of what it wrote.
    pub output: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub outputs: Value,
}

/// `GET /api/v1/workflows/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowDetail {
    #[serde(flatten)]
    pub workflow: WorkflowRecord,
    pub steps: Vec<StepRecord>,
    /// Everyone who worked on it, oldest first.
    pub agents: Vec<AgentRecord>,
    /// The file as it was when the run began.
    pub definition: String,
}

impl WorkflowDetail {
    pub fn new(workflow: &Workflow, agents: &[Agent]) -> Self {
        let steps = Definition::of_run(workflow).map(|definition| steps(workflow, &definition)).unwrap_or_default();
        Self {
            workflow: workflow.into(),
            steps,
            agents: agents.iter().map(AgentRecord::from).collect(),
            definition: workflow.definition.clone(),
        }
    }
}

fn steps(workflow: &Workflow, definition: &Definition) -> Vec<StepRecord> {
    let progress = &workflow.progress;
    // The step that it stands at, and the loops around that.
    let here: Vec<&str> = (1..=progress.at.len())
        .filter_map(|depth| definition.step(&progress.at[..depth]))
        .map(|step| step.name.as_str())
        .collect();
    let record = |(depth, step): (usize, &coven_workflow::Step)| {
        let result = progress.results.get(&step.name);
        let stands_here = here.contains(&step.name.as_str());
        let status = match result {
            _ if stands_here && workflow.state == WorkflowState::PendingMerge => "waiting",
            _ if stands_here && workflow.state == WorkflowState::Running => "running",
            Some(result) if result.skipped => "skipped",
            Some(result) if result.success => "completed",
            Some(_) => "failed",
            None if stands_here && workflow.error.is_some() => "failed",
            None if workflow.state == WorkflowState::Completed => "completed",
            None => "pending",
        };
        // What came of the round before is not how it goes now.
        let result = result.filter(|_| status != "running");
        let max_iterations = match &step.kind {
            StepKind::Loop { max_iterations, .. } => Some(*max_iterations),
            StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => None,
        };
        StepRecord {
            name: step.name.clone(),
            kind: step.kind.word().to_owned(),
            depth,
            status: status.to_owned(),
            iteration: progress.iterations.get(&step.name).copied(),
            max_iterations,
            exit_code: result.and_then(|it| it.exit_code),
            error: result.and_then(|it| it.error.clone()),
            output: result.map(|it| it.output.clone()).filter(|output| !output.is_empty()),
            outputs: result.map_or(Value::Null, |it| it.outputs.clone()),
        }
    };
    definition.flat().into_iter().map(record).collect()
}

/// `GET /api/v1/workflows`: newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListWorkflowsQuery {
    /// Comma-separated.
    pub status: Option<String>,
    /// The runs of one task.
    pub task: Option<String>,
    /// 1 to 1000; 100 if left out.
    pub limit: Option<usize>,
    pub offset: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowListResponse {
    pub workflows: Vec<WorkflowRecord>,
}

/// `GET /api/v1/agents`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListAgentsQuery {
    /// Those of one task, however they ended; else those that are at work.
    pub task: Option<String>,
    /// The newest, however they ended.
    pub all: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentListResponse {
    pub agents: Vec<AgentRecord>,
}

/// `POST /api/v1/tasks/{id}/start` and `POST /api/v1/workflows/{id}/retry`: what was written, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartTaskResponse {
    pub task: TaskRecord,
    pub agent: AgentRecord,
    pub workflow: WorkflowRecord,
}

/// One file of a diff; no counts for what is no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileChangeRecord {
    pub path: String,
    pub additions: Option<u64>,
    pub deletions: Option<u64>,
}

/// `GET /api/v1/tasks/{id}/diff`: what a task's branch changed since it left its base; of a merged task, what was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDiffResponse {
    pub task_id: String,
    pub base_branch: Option<String>,
    pub base_commit: String,
    /// The task's branch; once it is merged, the commit that the base got.
    pub branch: String,
    #[serde(default)]
    pub merged: bool,
    pub files: Vec<FileChangeRecord>,
    pub additions: u64,
    pub deletions: u64,
    pub patch: String,
    /// The patch is longer than what is sent.
    pub truncated: bool,
    /// There is more in the worktree that is in no commit yet.
    pub uncommitted: bool,
}
