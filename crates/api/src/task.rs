//! Tasks on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;

use coven_domain::task::{NotReady, Task, WorkSize};
use coven_domain::workflow::Workflow;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::workflow::WorkflowRecord;

/// How much a task's work changed: files, and lines of those that are text. No files: it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangesRecord {
    pub files: u64,
    pub additions: u64,
    pub deletions: u64,
}

impl From<WorkSize> for ChangesRecord {
    fn from(WorkSize { files, additions, deletions }: WorkSize) -> Self {
        Self { files, additions, deletions }
    }
}

impl std::fmt::Display for ChangesRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        WorkSize { files: self.files, additions: self.additions, deletions: self.deletions }.fmt(f)
    }
}

/// A task as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRecord {
    pub id: String,
    pub title: String,
    pub body: String,
    /// `task`, `bug`, `feature` or `epic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 (first) to 4 (last).
    pub priority: u8,
    pub parent_id: Option<String>,
    pub depends_on: Vec<String>,
    pub tags: Vec<String>,
    /// `open`, `in_progress`, `pending_merge`, `blocked` or `closed`.
    pub status: String,
    /// Why it is blocked or was closed.
    pub reason: Option<String>,
    pub claimed_by: Option<String>,
    pub claimed_until: Option<String>,
    pub base_branch: Option<String>,
    pub base_commit: Option<String>,
    /// How much its last attempt changed, once that is done.
    #[serde(default)]
    pub changes: Option<ChangesRecord>,
    pub harness: Option<String>,
    /// Arguments for the harness.
    #[serde(default)]
    pub args: Vec<String>,
    pub workflow: Option<String>,
    /// The top folder of its Git repository; the home's project if there is none.
    pub repo: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub closed_at: Option<String>,
    pub deleted_at: Option<String>,
}

impl From<&Task> for TaskRecord {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.to_string(),
            title: task.title.clone(),
            body: task.body.clone(),
            kind: task.kind.to_string(),
            priority: task.priority.get(),
            parent_id: task.parent.map(|id| id.to_string()),
            depends_on: task.depends_on.iter().map(ToString::to_string).collect(),
            tags: task.tags.clone(),
            status: task.state.to_string(),
            reason: task.reason.clone(),
            claimed_by: task.claim.as_ref().map(|claim| claim.by.clone()),
            claimed_until: task.claim.as_ref().map(|claim| claim.until.to_string()),
            base_branch: task.base_branch.clone(),
            base_commit: task.base_commit.clone(),
            changes: task.changes.map(ChangesRecord::from),
            harness: task.harness.clone(),
            args: task.args.clone(),
            workflow: task.workflow.clone(),
            repo: task.repo.clone(),
            created_at: task.created_at.to_string(),
            updated_at: task.updated_at.to_string(),
            closed_at: task.closed_at.map(|at| at.to_string()),
            deleted_at: task.deleted_at.map(|at| at.to_string()),
        }
    }
}

/// What a list shows of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskBrief<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub title: Cow<'a, str>,
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    pub priority: u8,
    pub parent_id: Option<String>,
    /// Of what it depends on that which is not closed.
    pub waits_for: Vec<String>,
    pub tags: Vec<String>,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    #[serde(default)]
    pub changes: Option<ChangesRecord>,
    #[serde(borrow)]
    pub created_at: Cow<'a, str>,
}

/// `GET /api/v1/tasks/{id}`: the task, and whether it can be begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDetail {
    #[serde(flatten)]
    pub task: TaskRecord,
    pub ready: bool,
    /// Why not, a sentence each.
    pub not_ready: Vec<String>,
    /// Its newest run.
    pub run: Option<WorkflowRecord>,
    /// Where it is worked on, as long as that is there.
    pub worktree: Option<String>,
}

impl TaskDetail {
    pub fn new(
        task: &Task,
        readiness: Result<(), Vec<NotReady>>,
        run: Option<&Workflow>,
        worktree: Option<String>,
    ) -> Self {
        let why = readiness.err().unwrap_or_default();
        Self {
            task: task.into(),
            ready: why.is_empty(),
            not_ready: why.iter().map(ToString::to_string).collect(),
            run: run.map(WorkflowRecord::from),
            worktree,
        }
    }
}

/// A new task. Other tasks are named by id, unique prefix or, where several are made at once, by the `ref` of one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CreateTaskRequest {
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// Arguments for the harness.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<String>,
    /// A folder in the Git repository that it is about; the home's project if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// A name for it in this request only.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Who makes it; `user` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// `POST /api/v1/tasks/bulk`: all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateTasksRequest {
    pub tasks: Vec<CreateTaskRequest>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateTasksResponse {
    /// In the order that they were given.
    pub tasks: Vec<TaskRecord>,
}

/// `PATCH /api/v1/tasks/{id}`: what is left out stays; `null` empties what can be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EditTaskRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub harness: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Option<String>>,
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Option<String>>,
    /// A folder in the Git repository that it is about; `null` for the home's project. Only before its first start.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub repo: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Tells `null` from a field that is not there.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Why something is done to a task, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TaskMoveRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Starts a task, or repeats the step that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StartTaskRequest {
    /// Accepted for older clients, and not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The environment of the shell that asks, for all steps; without one they get the daemon's. Never stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
}

/// `DELETE /api/v1/tasks/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DeleteTaskQuery {
    /// With everything below it.
    pub recursive: Option<bool>,
    pub by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeleteTaskResponse {
    /// Those below it first.
    pub deleted: Vec<String>,
}

/// `GET /api/v1/tasks`: priority, then age. Lists are comma-separated and mean any of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListTasksQuery {
    pub status: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub priority: Option<String>,
    pub tag: Option<String>,
    /// Those right below this one.
    pub parent: Option<String>,
    /// Only what could be begun now.
    pub ready: Option<bool>,
    pub include_deleted: Option<bool>,
    /// Of each only its id, title, type, priority, parent, what it waits for, tags, status, changes and when it was made: a `BriefTaskListResponse`.
    pub brief: Option<bool>,
    /// 1 to 10000; 100 if left out.
    pub limit: Option<usize>,
    /// The `next` of the page before: however many are made or deleted meanwhile, each is there once.
    pub cursor: Option<String>,
    pub offset: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskListResponse {
    pub tasks: Vec<TaskRecord>,
    pub total: u64,
    /// Give it as `cursor` to get the next page; null on the last one.
    pub next: Option<String>,
}

/// `GET /api/v1/tasks?brief=true`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BriefTaskListResponse<'a> {
    #[serde(borrow)]
    pub tasks: Vec<TaskBrief<'a>>,
    pub total: u64,
    pub next: Option<String>,
}

/// `GET /api/v1/tasks/{id}/history`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TaskHistoryQuery {
    /// The `next` of the page before.
    pub after: Option<u64>,
    /// 1 to 1000; 100 if left out.
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskHistoryRecord {
    pub at: String,
    pub by: String,
    pub field: String,
    /// A text, a number, a list or null, as the field is.
    pub old: Value,
    pub new: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskHistoryResponse {
    pub history: Vec<TaskHistoryRecord>,
    /// Give it as `after` to get what follows.
    pub next: u64,
}
