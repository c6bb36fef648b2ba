//! Tasks on the wire.

use std::collections::BTreeMap;

use coven_domain::query::TaskHistoryEntry;
use coven_domain::task::{FieldChange, Priority, Task, TaskKind, TaskState, WorkSize};
use coven_domain::{TaskId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, JsonValue, StringEnumSchema};

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
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: TaskId,
    pub title: String,
    pub body: String,
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<TaskKind>"))]
    pub kind: TaskKind,
    /// 0 (first) to 4 (last).
    #[cfg_attr(feature = "schema", schemars(with = "u8"))]
    pub priority: Priority,
    #[cfg_attr(feature = "schema", schemars(with = "Option<Id>"))]
    pub parent_id: Option<TaskId>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Id>"))]
    pub depends_on: Vec<TaskId>,
    pub tags: Vec<String>,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<TaskState>"))]
    pub status: TaskState,
    /// Why it is blocked or was closed.
    pub reason: Option<String>,
    pub claimed_by: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub claimed_until: Option<Timestamp>,
    pub base_branch: Option<String>,
    pub base_commit: Option<String>,
    /// How much its last attempt changed, once that is done.
    pub changes: Option<ChangesRecord>,
    pub harness: Option<String>,
    /// Arguments for the harness.
    pub args: Vec<String>,
    pub workflow: Option<String>,
    /// The top folder of its Git repository; the home's project if there is none.
    pub repo: Option<String>,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub updated_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub closed_at: Option<Timestamp>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub deleted_at: Option<Timestamp>,
}

impl From<&Task> for TaskRecord {
    fn from(task: &Task) -> Self {
        task.clone().into()
    }
}

impl From<Task> for TaskRecord {
    fn from(task: Task) -> Self {
        let (claimed_by, claimed_until) = task.claim.map(|claim| (claim.by, claim.until)).unzip();
        Self {
            id: task.id,
            title: task.title,
            body: task.body,
            kind: task.kind,
            priority: task.priority,
            parent_id: task.parent,
            depends_on: task.depends_on,
            tags: task.tags,
            status: task.state,
            reason: task.reason,
            claimed_by,
            claimed_until,
            base_branch: task.base_branch,
            base_commit: task.base_commit,
            changes: task.changes.map(ChangesRecord::from),
            harness: task.harness,
            args: task.args,
            workflow: task.workflow,
            repo: task.repo,
            created_at: task.created_at,
            updated_at: task.updated_at,
            closed_at: task.closed_at,
            deleted_at: task.deleted_at,
        }
    }
}

/// `GET /api/v1/tasks/{id}/readiness`: whether a task can be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskReadiness {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub task_id: TaskId,
    pub ready: bool,
    /// Why not, a sentence each.
    pub not_ready: Vec<String>,
    /// Of the tasks that it depends on those that are not closed.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Id>"))]
    #[serde(alias = "waits_for")]
    pub open_dependencies: Vec<TaskId>,
    /// The folder that its work is in, as long as that exists.
    pub worktree: Option<String>,
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
    #[cfg_attr(feature = "schema", schemars(with = "Option<StringEnumSchema<TaskKind>>"))]
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

/// `PATCH /api/v1/tasks/{id}`: fields that are left out stay; `null` empties a field that can be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EditTaskRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<StringEnumSchema<TaskKind>>"))]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    pub harness: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Option<String>>,
    #[serde(deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    pub base_branch: Option<Option<String>>,
    /// A folder in the Git repository that it is about; `null` for the home's project. Only before its first start.
    #[serde(deserialize_with = "double_option", skip_serializing_if = "Option::is_none")]
    pub repo: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Tells `null` from a field that is not there.
fn double_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Why something is done to a task, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TaskTransitionRequest {
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
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Id>"))]
    pub deleted: Vec<TaskId>,
}

/// `GET /api/v1/tasks`: by priority, then age. Lists are comma-separated and mean any of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListTasksQuery {
    /// Whole ids.
    pub id: Option<String>,
    pub status: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub priority: Option<String>,
    pub tag: Option<String>,
    /// Those right below this one.
    pub parent: Option<String>,
    /// Those that the operation with this id added, in the order of its request.
    pub operation: Option<String>,
    /// Only tasks that can be started now.
    pub ready: Option<bool>,
    pub include_deleted: Option<bool>,
    /// 1 to 1000; 100 if left out. A page of long tasks may have fewer.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page. Every task is on one page, also if others are made or deleted meanwhile.
    pub cursor: Option<String>,
}

/// One change of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskHistoryRecord {
    pub number: u64,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub at: Timestamp,
    pub by: String,
    pub field: String,
    /// A text, a number, a list or null, as the field is.
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub old: Value,
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub new: Value,
}

impl From<TaskHistoryEntry> for TaskHistoryRecord {
    fn from(entry: TaskHistoryEntry) -> Self {
        let FieldChange { field, old, new } = entry.change;
        Self { number: entry.number, at: entry.at, by: entry.by, field, old, new }
    }
}
