//! Sessions and tasks as subscribers see them in an event's payload.

use coven_domain::session::Session;
use coven_domain::task::{Priority, Task};
use coven_domain::{RepoId, SessionId, TaskId, Timestamp};
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

/// A task without its body, which may be long; whoever wants it asks for the task.
#[derive(Debug, Serialize)]
pub struct TaskRecord<'a> {
    pub id: TaskId,
    pub title: &'a str,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub priority: Priority,
    pub parent_id: Option<TaskId>,
    pub depends_on: &'a [TaskId],
    pub tags: &'a [String],
    pub status: &'static str,
    pub reason: Option<&'a str>,
    pub claimed_by: Option<&'a str>,
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
            kind: task.kind.as_str(),
            priority: task.priority,
            parent_id: task.parent,
            depends_on: &task.depends_on,
            tags: &task.tags,
            status: task.state.as_str(),
            reason: task.reason.as_deref(),
            claimed_by: task.claim.as_ref().map(|claim| claim.by.as_str()),
            created_at: task.created_at,
            updated_at: task.updated_at,
            closed_at: task.closed_at,
            deleted_at: task.deleted_at,
        }
    }
}
