//! The life of an agent: one attempt at a task.

use crate::{lifecycle::Lifecycle, words};

words! {
    pub enum AgentState {
        Starting = "starting",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Killed = "killed",
    }
}

words! {
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
