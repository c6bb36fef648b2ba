//! Runs of workflows and the agents that work on their steps, on the wire.

use coven_domain::agent::{Agent, AgentState};
use coven_domain::workflow::{StepWait, WaitCause, WorkflowRun, WorkflowState};
use coven_domain::{AgentId, SessionId, TaskId, Timestamp, WorkflowId, string_enum};
use coven_workflow::{StepKind, WorkflowDefinition};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, JsonValue, StringEnumSchema};
use crate::task::TaskRecord;

/// One attempt at a step of a task: a session in the task's worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentRecord {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: AgentId,
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub task_id: TaskId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub workflow_id: Option<WorkflowId>,
    pub step: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub session_id: Option<SessionId>,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<AgentState>"))]
    pub status: AgentState,
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// The folder of its session, which has its output.
    pub output_file: Option<String>,
    pub error: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub ended_at: Option<Timestamp>,
}

impl From<&Agent> for AgentRecord {
    fn from(agent: &Agent) -> Self {
        agent.clone().into()
    }
}

impl From<Agent> for AgentRecord {
    fn from(agent: Agent) -> Self {
        Self {
            id: agent.id,
            task_id: agent.task,
            workflow_id: agent.workflow,
            step: agent.step,
            session_id: agent.session,
            status: agent.state,
            pid: agent.pid,
            worktree: agent.worktree,
            branch: agent.branch,
            output_file: agent.output_file,
            error: agent.error,
            created_at: agent.created_at,
            updated_at: agent.updated_at,
            ended_at: agent.ended_at,
        }
    }
}

/// A run of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowRecord {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: WorkflowId,
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub task_id: TaskId,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub agent_id: Option<AgentId>,
    pub name: String,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<WorkflowState>"))]
    pub status: WorkflowState,
    /// The step that runs or is next, counted from 0 on the outermost level.
    pub step: usize,
    /// The name of that step.
    pub step_name: Option<String>,
    pub error: Option<String>,
    /// Who approved the merge that is under way.
    pub approved_by: Option<String>,
    /// Why the current step makes no progress; its timeouts do not run meanwhile.
    #[serde(default)]
    pub waiting: Option<StepWaitRecord>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub ended_at: Option<Timestamp>,
}

/// Why a step makes no progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StepWait"))]
pub struct StepWaitRecord {
    /// `limit`: a quota or rate limit of the agent must reset; `launch`: the launch waits for the limits of the config.
    #[serde(rename = "for")]
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<WaitCause>"))]
    pub cause: WaitCause,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub since: Timestamp,
    /// When the wait ends, if that is known.
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub until: Option<Timestamp>,
    pub detail: Option<String>,
}

impl From<&StepWait> for StepWaitRecord {
    fn from(wait: &StepWait) -> Self {
        Self { cause: wait.cause, since: wait.since, until: wait.until, detail: wait.detail.clone() }
    }
}

impl From<&WorkflowRun> for WorkflowRecord {
    fn from(workflow: &WorkflowRun) -> Self {
        let progress = &workflow.progress;
        // A run that an older coven wrote has no name of its step.
        let from_file =
            || WorkflowDefinition::of_run(workflow).ok()?.step(&progress.position).map(|step| step.name.clone());
        let step_name = match workflow.state {
            WorkflowState::Completed => None,
            _ => progress.step.clone().or_else(from_file),
        };
        Self {
            id: workflow.id,
            task_id: workflow.task,
            agent_id: workflow.agent,
            name: workflow.name.clone(),
            status: workflow.state,
            step: progress.position.first().copied().unwrap_or(0),
            step_name,
            error: workflow.error.clone(),
            approved_by: progress.approval.as_ref().map(|approval| approval.by.clone()),
            waiting: progress.waiting.as_ref().map(StepWaitRecord::from),
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            ended_at: workflow.ended_at,
        }
    }
}

string_enum! {
    pub enum StepType { Agent = "agent", Script = "script", Loop = "loop", Merge = "merge" }
}

string_enum! {
    /// How a step went the last time; `waiting` is for a review, for a limit to reset or for its launch.
    pub enum StepStatus {
        Pending = "pending",
        Running = "running",
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
        Skipped = "skipped",
    }
}

/// A step of a run, in the order of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepRecord {
    pub name: String,
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<StepType>"))]
    pub kind: StepType,
    /// The number of loops around it.
    pub depth: usize,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<StepStatus>"))]
    pub status: StepStatus,
    /// For a loop: the iteration it is in or ended with, and how many there may be.
    pub iteration: Option<u32>,
    pub max_iterations: Option<u32>,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    /// The end of its output.
    pub output: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub outputs: Value,
}

/// The steps of a run; none if its file cannot be read.
pub fn steps_of(workflow: &WorkflowRun) -> Vec<StepRecord> {
    WorkflowDefinition::of_run(workflow).map(|definition| steps(workflow, &definition)).unwrap_or_default()
}

/// `GET /api/v1/workflows/{id}/definition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DefinitionResponse {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub workflow_id: WorkflowId,
    /// The file as it was when the run started.
    pub definition: String,
}

fn steps(workflow: &WorkflowRun, definition: &WorkflowDefinition) -> Vec<StepRecord> {
    let progress = &workflow.progress;
    // The current step and the loops around it.
    let current: Vec<&str> = (1..=progress.position.len())
        .filter_map(|depth| definition.step(&progress.position[..depth]))
        .map(|step| step.name.as_str())
        .collect();
    let record = |(depth, step): (usize, &coven_workflow::Step)| {
        let result = progress.results.get(&step.name);
        let is_current = current.contains(&step.name.as_str());
        let status = match result {
            _ if is_current && workflow.state == WorkflowState::PendingMerge => StepStatus::Waiting,
            _ if is_current && workflow.state == WorkflowState::Running => match progress.waiting {
                Some(_) => StepStatus::Waiting,
                None => StepStatus::Running,
            },
            Some(result) if result.skipped => StepStatus::Skipped,
            Some(result) if result.success => StepStatus::Completed,
            Some(_) => StepStatus::Failed,
            None if is_current && workflow.error.is_some() => StepStatus::Failed,
            None if workflow.state == WorkflowState::Completed => StepStatus::Completed,
            None => StepStatus::Pending,
        };
        // A running step has only the result of its previous iteration.
        let is_under_way = is_current && workflow.state == WorkflowState::Running;
        let result = result.filter(|_| !is_under_way);
        let (kind, max_iterations) = match &step.kind {
            StepKind::Agent { .. } => (StepType::Agent, None),
            StepKind::Script { .. } => (StepType::Script, None),
            StepKind::Loop { max_iterations, .. } => (StepType::Loop, Some(*max_iterations)),
            StepKind::Merge { .. } => (StepType::Merge, None),
        };
        StepRecord {
            name: step.name.clone(),
            kind,
            depth,
            status,
            iteration: progress.iterations.get(&step.name).copied(),
            max_iterations,
            exit_code: result.and_then(|it| it.exit_code),
            error: result.and_then(|it| it.error.clone()),
            output: result.map(|it| it.output.clone()).filter(|output| !output.is_empty()),
            outputs: result.map_or(Value::Null, |it| it.outputs.clone()),
        }
    };
    definition.flatten().into_iter().map(record).collect()
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
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `GET /api/v1/agents`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListAgentsQuery {
    /// Those of one task, however they ended.
    pub task: Option<String>,
    /// Those of one run, however they ended.
    pub workflow: Option<String>,
    /// However they ended; without a filter only those that are starting or running.
    pub all: Option<bool>,
    /// 1 to 1000; 100 if left out.
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `POST /api/v1/tasks/{id}/start` and `POST /api/v1/workflows/{id}/retry`: the records that were written, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartTaskResponse {
    pub task: TaskRecord,
    pub agent: AgentRecord,
    pub workflow: WorkflowRecord,
}

/// One file of a diff; a binary file has no counts.
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
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub task_id: TaskId,
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
    /// The patch is longer than the part that is sent.
    pub truncated: bool,
    /// There is more in the worktree that is in no commit yet.
    pub uncommitted: bool,
}
