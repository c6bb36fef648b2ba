//! Sessions, tasks, agents and runs as subscribers see them in an event's payload.

use coven_domain::agent::Agent;
use coven_domain::session::Session;
use coven_domain::task::{FieldChange, Priority, Task, WorkSize};
use coven_domain::workflow::Workflow;
use coven_domain::{AgentId, RepoId, SessionId, TaskId, Timestamp, WorkflowId};
use serde::Serialize;
use serde_json::{Map, Value};

/// The public fields of a session; how it is launched stays inside.
#[derive(Debug, Serialize)]
pub struct SessionRecord<'a> {
    pub id: SessionId,
    pub harness: &'a str,
    pub channel: &'static str,
    pub title: &'a str,
    pub status: &'static str,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub project_root: &'a str,
    pub cwd: &'a str,
    pub repo_id: Option<RepoId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
    pub metadata: &'a Map<String, Value>,
}

impl<'a> From<&'a Session> for SessionRecord<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            id: session.id,
            harness: &session.harness,
            channel: session.channel.as_str(),
            title: &session.title,
            status: session.state.as_str(),
            exit_code: session.exit_code,
            pid: session.process.as_ref().map(|process| process.pid),
            project_root: &session.project_root,
            cwd: &session.cwd,
            repo_id: session.repo_id,
            created_at: session.created_at,
            updated_at: session.updated_at,
            archived_at: session.archived_at,
            metadata: &session.metadata,
        }
    }
}

/// All of a task, in the order that the API has.
#[derive(Debug, Serialize)]
pub struct TaskRecord<'a> {
    pub id: TaskId,
    pub title: &'a str,
    /// It may be long: an event has it where it is new or changed, and only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<&'a str>,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub priority: Priority,
    pub parent_id: Option<TaskId>,
    pub depends_on: &'a [TaskId],
    pub tags: &'a [String],
    pub status: &'static str,
    pub reason: Option<&'a str>,
    pub claimed_by: Option<&'a str>,
    pub claimed_until: Option<Timestamp>,
    pub base_branch: Option<&'a str>,
    pub base_commit: Option<&'a str>,
    pub changes: Option<WorkSize>,
    pub harness: Option<&'a str>,
    pub args: &'a [String],
    pub workflow: Option<&'a str>,
    pub repo: Option<&'a str>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub closed_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

impl<'a> From<&'a Task> for TaskRecord<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            id: task.id,
            title: &task.title,
            body: Some(&task.body),
            kind: task.kind.as_str(),
            priority: task.priority,
            parent_id: task.parent,
            depends_on: &task.depends_on,
            tags: &task.tags,
            status: task.state.as_str(),
            reason: task.reason.as_deref(),
            claimed_by: task.claim.as_ref().map(|claim| claim.by.as_str()),
            claimed_until: task.claim.as_ref().map(|claim| claim.until),
            base_branch: task.base_branch.as_deref(),
            base_commit: task.base_commit.as_deref(),
            changes: task.changes,
            harness: task.harness.as_deref(),
            args: &task.args,
            workflow: task.workflow.as_deref(),
            repo: task.repo.as_deref(),
            created_at: task.created_at,
            updated_at: task.updated_at,
            closed_at: task.closed_at,
            deleted_at: task.deleted_at,
        }
    }
}

/// What an event about a task says.
#[derive(Debug, Serialize)]
pub(crate) struct TaskPayload<'a> {
    task: TaskRecord<'a>,
    changes: &'a [FieldChange],
    by: &'a str,
}

impl<'a> TaskPayload<'a> {
    pub(crate) fn new(task: &'a Task, changes: &'a [FieldChange], by: &'a str, is_new: bool) -> Self {
        let mut record = TaskRecord::from(task);
        if !is_new && !changes.iter().any(|change| change.field == "body") {
            record.body = None;
        }
        Self { task: record, changes, by }
    }
}

#[derive(Debug, Serialize)]
pub struct AgentRecord<'a> {
    pub id: AgentId,
    pub task_id: TaskId,
    pub workflow_id: Option<WorkflowId>,
    pub step: Option<&'a str>,
    pub session_id: Option<SessionId>,
    pub status: &'static str,
    pub pid: Option<u32>,
    pub worktree: Option<&'a str>,
    pub branch: Option<&'a str>,
    pub output_file: Option<&'a str>,
    pub error: Option<&'a str>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl<'a> From<&'a Agent> for AgentRecord<'a> {
    fn from(agent: &'a Agent) -> Self {
        Self {
            id: agent.id,
            task_id: agent.task,
            workflow_id: agent.workflow,
            step: agent.step.as_deref(),
            session_id: agent.session,
            status: agent.state.as_str(),
            pid: agent.pid,
            worktree: agent.worktree.as_deref(),
            branch: agent.branch.as_deref(),
            output_file: agent.output_file.as_deref(),
            error: agent.error.as_deref(),
            created_at: agent.created_at,
            updated_at: agent.updated_at,
            ended_at: agent.ended_at,
        }
    }
}

/// A run without its definition and outputs, which may be long; whoever wants them asks for the run.
#[derive(Debug, Serialize)]
pub struct WorkflowRecord<'a> {
    pub id: WorkflowId,
    pub task_id: TaskId,
    pub agent_id: Option<AgentId>,
    pub name: &'a str,
    pub status: &'static str,
    /// Counted from 0, on the outermost level.
    pub step: usize,
    pub previous: Option<&'a str>,
    pub error: Option<&'a str>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl<'a> From<&'a Workflow> for WorkflowRecord<'a> {
    fn from(workflow: &'a Workflow) -> Self {
        Self {
            id: workflow.id,
            task_id: workflow.task,
            agent_id: workflow.agent,
            name: &workflow.name,
            status: workflow.state.as_str(),
            step: workflow.progress.at.first().copied().unwrap_or(0),
            previous: workflow.progress.previous.as_deref(),
            error: workflow.error.as_deref(),
            created_at: workflow.created_at,
            updated_at: workflow.updated_at,
            ended_at: workflow.ended_at,
        }
    }
}
