//! A workflow run: its lifecycle and progress.

mod run;

pub use run::{Approval, RunProgress, StepResult, StepWait, Stop, StopKind, WaitCause, WorkflowRun};

use crate::{lifecycle::Lifecycle, string_enum};

string_enum! {
    pub enum WorkflowState {
        Running = "running",
        Blocked = "blocked",
        PendingMerge = "pending_merge",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

string_enum! {
    pub enum WorkflowFact {
        Stepped = "stepped",
        Blocked = "blocked",
        MergeAwaited = "merge_awaited",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Retried = "retried",
    }
}

impl Lifecycle for WorkflowState {
    type Fact = WorkflowFact;

    const NOUN: &'static str = "workflow";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [WorkflowFact] = WorkflowFact::ALL;
    const TRANSITIONS: &'static [(Self, WorkflowFact, Self)] = {
        use WorkflowFact as On;
        use WorkflowState::*;
        &[
            (Running, On::Stepped, Running),
            (Running, On::Blocked, Blocked),
            (Running, On::MergeAwaited, PendingMerge),
            (Running, On::Completed, Completed),
            (Running, On::Failed, Failed),
            (Running, On::Cancelled, Cancelled),
            (PendingMerge, On::Completed, Completed),
            (PendingMerge, On::Blocked, Blocked),
            (PendingMerge, On::Cancelled, Cancelled),
            (Blocked, On::Retried, Running),
            (Blocked, On::Cancelled, Cancelled),
            (Failed, On::Retried, Running),
        ]
    };
}
