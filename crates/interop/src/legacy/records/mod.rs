//! Records of the older coven as found in its files, and their new ids.

mod import;
mod task;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use import::{Counts, Import, Known, import};
use uuid::{Uuid, uuid};

use coven_domain::agent::AgentState;
use coven_domain::question::Choice;
use coven_domain::task::TaskState;
use coven_domain::workflow::{StepResult, WorkflowState};
use coven_domain::{AgentId, RequestId, TaskId, Timestamp, WorkflowId};

/// Namespace of the ids, which are derived from names so that a record gets the same id in every import.
const NAMESPACE: Uuid = uuid!("6b0c5a86-4f0f-4c52-9d5a-0f6f3ad1c0e7");

/// An item that was not imported, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedItem {
    /// Relative to the home.
    pub file: String,
    pub what: String,
    pub why: String,
}

/// Origin of a record. A record without a time gets the modification time of its file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    pub file: String,
    /// Set if each line of the file is a record.
    pub line: Option<usize>,
    pub modified_at: Timestamp,
}

impl Source {
    pub fn left(&self, what: impl Into<String>, why: impl Into<String>) -> SkippedItem {
        let what = match self.line {
            Some(line) => format!("line {line}: {}", what.into()),
            None => what.into(),
        };
        SkippedItem { file: self.file.clone(), what, why: why.into() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LegacyTask {
    pub source: Source,
    pub id: String,
    pub title: Option<String>,
    pub body: Option<String>,
    /// Notes that were added later.
    pub notes: Option<String>,
    pub author: Option<String>,
    pub kind: Option<String>,
    pub state: TaskState,
    pub reason: Option<String>,
    pub priority: Option<i64>,
    pub labels: Vec<String>,
    pub depends_on: Vec<String>,
    /// Tasks that depend on this one.
    pub blocks: Vec<String>,
    /// A task can have only one parent; the others are reported.
    pub parents: Vec<String>,
    /// Links of other kinds, each with its kind. They do not block the task.
    pub mentions: Vec<String>,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

impl LegacyTask {
    pub fn new(source: Source, id: &str, state: TaskState) -> Self {
        Self {
            source,
            id: id.to_owned(),
            title: None,
            body: None,
            notes: None,
            author: None,
            kind: None,
            state,
            reason: None,
            priority: None,
            labels: Vec::new(),
            depends_on: Vec::new(),
            blocks: Vec::new(),
            parents: Vec::new(),
            mentions: Vec::new(),
            created_at: None,
            updated_at: None,
            closed_at: None,
            deleted_at: None,
        }
    }
}

/// An attempt, recorded by the daemon or by the editor extension.
#[derive(Debug, Clone, PartialEq)]
pub struct LegacyAgent {
    pub source: Source,
    /// Distinguishes attempts that started at the same time.
    pub name: String,
    pub task: String,
    pub step: Option<String>,
    /// `Running` for every state before the end.
    pub state: AgentState,
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub output_file: Option<String>,
    pub error: Option<String>,
    pub exit_code: Option<i64>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LegacyWorkflow {
    pub source: Source,
    pub id: String,
    pub task: String,
    pub name: Option<String>,
    pub state: WorkflowState,
    pub worktree: Option<String>,
    pub error: Option<String>,
    /// Number of completed top-level steps.
    pub steps_done: usize,
    pub results: BTreeMap<String, StepResult>,
    pub started_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LegacyQuestion {
    pub source: Source,
    pub id: String,
    pub task: String,
    /// Kind of question.
    pub kind: Option<String>,
    pub text: String,
    pub options: Vec<Choice>,
    pub is_answered: bool,
    pub answer: Option<String>,
    pub asked_at: Option<Timestamp>,
    pub answered_at: Option<Timestamp>,
}

/// All records that could be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Legacy {
    /// Tasks of the older daemon: copies of the tracker's issues, without links.
    pub tasks: Vec<LegacyTask>,
    /// Issues of the tracker.
    pub issues: Vec<LegacyTask>,
    pub agents: Vec<LegacyAgent>,
    pub workflows: Vec<LegacyWorkflow>,
    pub questions: Vec<LegacyQuestion>,
    /// Ids of tasks that exist but could not be parsed.
    pub unparsed_tasks: BTreeSet<String>,
    /// Whether a file with tasks could not be read completely, so that any task may be missing.
    pub is_task_list_partial: bool,
}

impl Legacy {
    /// Returns the ids of all tasks that any record refers to.
    pub fn task_ids(&self) -> BTreeSet<TaskId> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for task in self.tasks.iter().chain(&self.issues) {
            names.extend(task.depends_on.iter().chain(&task.blocks).chain(&task.parents).map(String::as_str));
            names.insert(&task.id);
        }
        names.extend(self.agents.iter().map(|agent| agent.task.as_str()));
        names.extend(self.workflows.iter().map(|workflow| workflow.task.as_str()));
        names.extend(self.questions.iter().map(|question| question.task.as_str()));
        names.into_iter().map(task_id).collect()
    }
}

/// Derives an id from a name. A name that is already a UUID stays unchanged.
fn uuid_of(kind: &str, name: &str) -> Uuid {
    match Uuid::parse_str(name) {
        Ok(uuid) => uuid,
        Err(_) => Uuid::new_v5(&NAMESPACE, format!("{kind}/{name}").as_bytes()),
    }
}

pub fn task_id(name: &str) -> TaskId {
    TaskId::from_uuid(uuid_of("task", name))
}

impl LegacyAgent {
    /// Includes the start time: only the newest attempt of a task is recorded, so a later import may find another one.
    pub fn id(&self) -> AgentId {
        let started = self.started_at.map(|at| at.as_millis().to_string()).unwrap_or_default();
        AgentId::from_uuid(uuid_of("agent", &format!("{}/{started}", self.name)))
    }
}

impl LegacyWorkflow {
    pub fn id(&self) -> WorkflowId {
        WorkflowId::from_uuid(uuid_of("workflow", &self.id))
    }
}

impl LegacyQuestion {
    pub fn id(&self) -> RequestId {
        RequestId::from_uuid(uuid_of("question", &self.id))
    }
}
