//! A run of a workflow as it is kept: after every step the store has all that is needed to go on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{WorkflowFact, WorkflowState};
use crate::lifecycle::{Lifecycle, Refused};
use crate::{AgentId, TaskId, Timestamp, WorkflowId};

#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub id: WorkflowId,
    pub task: TaskId,
    /// Who works on the step that runs, or did last.
    pub agent: Option<AgentId>,
    pub name: String,
    pub state: WorkflowState,
    /// The file as it was when the run began: what is edited since is for the next run.
    pub definition: String,
    pub progress: Progress,
    /// Why it is blocked or failed.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Where the step is that is next or runs: its place on each level.
    pub at: Vec<usize>,
    /// The iteration that each loop is in, or was in last, from 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iterations: BTreeMap<String, u32>,
    /// When each loop was entered last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entered: BTreeMap<String, Timestamp>,
    /// What came of each step when it ran last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, StepResult>,
    /// The step that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Since when it runs: a retry begins anew.
    pub since: Timestamp,
    /// Who said that it may be merged, and when: the place in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Why a human sent it back: for whoever tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// What was left of the time for the whole when it began to wait for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub by: String,
    pub at: Timestamp,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepResult {
    pub success: bool,
    #[serde(default)]
    pub skipped: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The end of what it wrote.
    #[serde(default)]
    pub output: String,
    /// What it said for later steps.
    #[serde(default)]
    pub outputs: Value,
    #[serde(default)]
    pub error: Option<String>,
}

impl Progress {
    pub fn new(now: Timestamp) -> Self {
        Self {
            at: vec![0],
            iterations: BTreeMap::new(),
            entered: BTreeMap::new(),
            results: BTreeMap::new(),
            previous: None,
            since: now,
            approval: None,
            rejected: None,
            left: None,
        }
    }
}

impl Workflow {
    pub fn new(id: WorkflowId, task: TaskId, name: &str, definition: &str, now: Timestamp) -> Self {
        Self {
            id,
            task,
            agent: None,
            name: name.to_owned(),
            state: WorkflowState::Running,
            definition: definition.to_owned(),
            progress: Progress::new(now),
            error: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    /// Moves it along its lifecycle.
    pub fn apply(
        &mut self,
        fact: WorkflowFact,
        error: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refused<WorkflowState>> {
        self.state = self.state.after(fact)?;
        self.error = error;
        self.updated_at = now.not_before(self.updated_at);
        let is_over = matches!(self.state, WorkflowState::Completed | WorkflowState::Failed | WorkflowState::Cancelled);
        self.ended_at = is_over.then_some(now);
        if fact == WorkflowFact::Retried {
            self.progress.since = now;
            self.progress.entered.values_mut().for_each(|entered| *entered = now);
            self.progress.approval = None;
        }
        Ok(())
    }
}
