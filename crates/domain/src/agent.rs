//! An agent: one attempt at a step of a task, run as a session in the task's worktree.

use crate::lifecycle::{Lifecycle, Refused};
use crate::{AgentId, SessionId, TaskId, Timestamp, WorkflowId, string_enum};

string_enum! {
    pub enum AgentState {
        Starting = "starting",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Killed = "killed",
    }
}

string_enum! {
    pub enum AgentFact {
        Started = "started",
        Reattached = "reattached",
        Succeeded = "succeeded",
        Failed = "failed",
        Killed = "killed",
    }
}

impl Lifecycle for AgentState {
    type Fact = AgentFact;

    const NOUN: &'static str = "agent";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [AgentFact] = AgentFact::ALL;
    const TRANSITIONS: &'static [(Self, AgentFact, Self)] = {
        use AgentFact as On;
        use AgentState::*;
        &[
            (Starting, On::Started, Running),
            (Starting, On::Failed, Failed),
            (Running, On::Reattached, Running),
            (Running, On::Succeeded, Completed),
            (Running, On::Failed, Failed),
            (Running, On::Killed, Killed),
        ]
    };
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    pub id: AgentId,
    pub task: TaskId,
    pub workflow: Option<WorkflowId>,
    /// The step that the agent works on.
    pub step: Option<String>,
    pub session: Option<SessionId>,
    pub state: AgentState,
    pub pid: Option<u32>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub output_file: Option<String>,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Agent {
    pub fn new(id: AgentId, task: TaskId, workflow: WorkflowId, step: Option<&str>, now: Timestamp) -> Self {
        Self {
            id,
            task,
            workflow: Some(workflow),
            step: step.map(str::to_owned),
            session: None,
            state: AgentState::Starting,
            pid: None,
            worktree: None,
            branch: None,
            output_file: None,
            error: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    pub const fn is_over(&self) -> bool {
        matches!(self.state, AgentState::Completed | AgentState::Failed | AgentState::Killed)
    }

    /// Applies a lifecycle fact.
    pub fn apply(&mut self, fact: AgentFact, error: Option<String>, now: Timestamp) -> Result<(), Refused<AgentState>> {
        self.state = self.state.after(fact)?;
        self.error = error;
        self.updated_at = now.not_before(self.updated_at);
        self.ended_at = self.is_over().then_some(now);
        Ok(())
    }
}
