//! The stored record of a workflow run: after each step it contains everything needed to resume.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{WorkflowFact, WorkflowState};
use crate::lifecycle::{Lifecycle, Refused};
use crate::string_enum;
use crate::{AgentId, TaskId, Timestamp, WorkflowId};

#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowRun {
    pub id: WorkflowId,
    pub task: TaskId,
    /// The agent of the current step, or of the last one.
    pub agent: Option<AgentId>,
    pub name: String,
    pub state: WorkflowState,
    /// The workflow file as it was when the run started; later edits apply to the next run.
    pub definition: String,
    pub progress: RunProgress,
    /// Why the run is blocked or failed.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// The progress of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// Position of the current or next step: its index on each nesting level.
    #[serde(rename = "at")]
    pub position: Vec<usize>,
    /// The name of that step; `None` in a run written by an older coven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The current or last iteration of each loop, from 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iterations: BTreeMap<String, u32>,
    /// When each loop was last entered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub entered: BTreeMap<String, Timestamp>,
    /// The result of the last execution of each step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, StepResult>,
    /// The step that ended most recently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Start of the run, or of its last retry; the timeout counts from here.
    #[serde(rename = "since")]
    pub started_at: Timestamp,
    /// Who approved the merge and when; the time determines the position in the merge queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Why a human rejected the work; the next attempt reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Time left until the timeout of the run when it started to wait for a human.
    #[serde(rename = "left", default, skip_serializing_if = "Option::is_none")]
    pub remaining_timeout: Option<Duration>,
    /// A request to end it, until its process is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Why the current step makes no progress; its timeouts do not run meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<StepWait>,
    /// How long the current step has waited so far, without the wait that is not over.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub waited: Duration,
    /// How often agents of the current step exited because of a limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limited_exits: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Why a step makes no progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWait {
    #[serde(rename = "for")]
    pub cause: WaitCause,
    pub since: Timestamp,
    /// When the wait ends, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

string_enum! {
    pub enum WaitCause {
        /// A quota or rate limit of the agent must reset.
        Limit = "limit",
        /// The launch of the session waits for the limits of the config.
        Launch = "launch",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub by: String,
    pub at: Timestamp,
}

/// A request to end a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub kind: StopKind,
    pub by: String,
}

/// The effect on the task, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The run is over; the task can be started again by hand.
    Cancel,
    /// The task is open again.
    Release,
    /// The task waits for a human.
    Block(Option<String>),
    /// The task needs no more work.
    Close(Option<String>),
}

impl StopKind {
    /// The state of the run afterwards.
    pub const fn leads_to(&self) -> WorkflowState {
        match self {
            Self::Block(_) => WorkflowState::Blocked,
            Self::Cancel | Self::Release | Self::Close(_) => WorkflowState::Cancelled,
        }
    }
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepResult {
    pub success: bool,
    #[serde(default)]
    pub skipped: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The end of its output.
    #[serde(default)]
    pub output: String,
    /// Values that later steps can read.
    #[serde(default)]
    pub outputs: Value,
    #[serde(default)]
    pub error: Option<String>,
}

impl RunProgress {
    pub fn new(now: Timestamp) -> Self {
        Self {
            position: vec![0],
            step: None,
            iterations: BTreeMap::new(),
            entered: BTreeMap::new(),
            results: BTreeMap::new(),
            previous: None,
            started_at: now,
            approval: None,
            rejected: None,
            remaining_timeout: None,
            stop: None,
            waiting: None,
            waited: Duration::ZERO,
            limited_exits: 0,
        }
    }

    /// Ends the wait of the current step. The time spent waiting does not count for any timeout.
    pub fn wait_ended(&mut self, now: Timestamp) {
        let Some(wait) = self.waiting.take() else { return };
        let time = now.since(wait.since);
        self.waited = self.waited.saturating_add(time);
        self.started_at = self.started_at.after(time);
        self.entered.values_mut().for_each(|entered| *entered = entered.after(time));
    }

    /// Forgets the waits of a step that has ended.
    pub fn step_ended(&mut self) {
        (self.waiting, self.waited, self.limited_exits) = (None, Duration::ZERO, 0);
    }
}

impl WorkflowRun {
    pub fn new(id: WorkflowId, task: TaskId, name: &str, definition: &str, now: Timestamp) -> Self {
        Self {
            id,
            task,
            agent: None,
            name: name.to_owned(),
            state: WorkflowState::Running,
            definition: definition.to_owned(),
            progress: RunProgress::new(now),
            error: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    /// Applies a lifecycle fact.
    pub fn apply(
        &mut self,
        fact: WorkflowFact,
        error: Option<String>,
        now: Timestamp,
    ) -> Result<(), Refused<WorkflowState>> {
        self.state = self.state.after(fact)?;
        if self.state != WorkflowState::Running {
            self.progress.stop = None;
            self.progress.step_ended();
        }
        self.error = error;
        self.updated_at = now.not_before(self.updated_at);
        let is_over = matches!(self.state, WorkflowState::Completed | WorkflowState::Failed | WorkflowState::Cancelled);
        self.ended_at = is_over.then_some(now);
        if fact == WorkflowFact::Retried {
            self.progress.started_at = now;
            self.progress.entered.values_mut().for_each(|entered| *entered = now);
            self.progress.approval = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn a_wait_of_a_step_moves_every_timeout() {
        let mut progress = RunProgress::new(at(0));
        progress.entered.insert("loop".to_owned(), at(10));
        let wait = |since| StepWait { cause: WaitCause::Limit, since: at(since), until: None, detail: None };
        progress.wait_ended(at(5));
        assert_eq!(progress.started_at, at(0), "it did not wait");
        progress.waiting = Some(wait(20));
        progress.wait_ended(at(50));
        assert_eq!((progress.started_at, progress.entered["loop"]), (at(30), at(40)));
        assert_eq!((progress.waited, &progress.waiting), (Duration::from_secs(30), &None));
        progress.waiting = Some(wait(60));
        progress.limited_exits = 2;
        progress.step_ended();
        assert_eq!((progress.waiting, progress.waited, progress.limited_exits), (None, Duration::ZERO, 0));
        assert_eq!(progress.started_at, at(30));
    }

    #[test]
    fn progress_of_an_older_coven_has_no_wait() {
        let text = serde_json::to_string(&RunProgress::new(at(1))).expect("plain data");
        assert!(!text.contains("wait") && !text.contains("limited"), "{text}");
        let mut read: RunProgress = serde_json::from_str(&text).expect("its own output");
        assert_eq!(read, RunProgress::new(at(1)));
        read.waiting = Some(StepWait { cause: WaitCause::Launch, since: at(2), until: None, detail: Some("x".into()) });
        let text = serde_json::to_string(&read).expect("plain data");
        assert!(text.contains(r#""waiting":{"for":"launch","#), "{text}");
        assert_eq!(serde_json::from_str::<RunProgress>(&text).expect("its own output"), read);
    }
}
