//! A task: a unit of work that agents attempt. Its lifecycle, fields and readiness.

pub mod links;
mod ready;
mod record;
mod work_size;

pub use ready::NotReady;
pub use record::{BadTask, Claim, FieldChange, Priority, Task, TaskEdit, TaskKind};
pub use record::{MAX_TAGS, is_valid_tag};
pub use work_size::WorkSize;

use crate::{lifecycle::Lifecycle, string_enum};

/// The reason stored in an open task whose run was cancelled. The scheduler skips such tasks; a user must start them.
/// The store selects by this text, so it must not change.
pub const CANCELLED: &str = "its workflow was cancelled";

string_enum! {
    pub enum TaskState {
        Open = "open",
        InProgress = "in_progress",
        PendingMerge = "pending_merge",
        Blocked = "blocked",
        Closed = "closed",
    }
}

string_enum! {
    pub enum TaskFact {
        Claimed = "claimed",
        WorkDone = "work_done",
        Blocked = "blocked",
        Closed = "closed",
        Released = "released",
        LeaseLost = "lease_lost",
        Approved = "approved",
        Rejected = "rejected",
        Unblocked = "unblocked",
    }
}

impl TaskState {
    /// Reports whether an agent is working on the task or its work is awaiting a merge.
    pub fn is_at_work(self) -> bool {
        matches!(self, Self::InProgress | Self::PendingMerge)
    }
}

impl Lifecycle for TaskState {
    type Fact = TaskFact;

    const NOUN: &'static str = "task";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [TaskFact] = TaskFact::ALL;
    const TRANSITIONS: &'static [(Self, TaskFact, Self)] = {
        use TaskFact as On;
        use TaskState::*;
        &[
            (Open, On::Claimed, InProgress),
            (Open, On::Closed, Closed),
            (InProgress, On::WorkDone, PendingMerge),
            (InProgress, On::Blocked, Blocked),
            (InProgress, On::Closed, Closed),
            (InProgress, On::Released, Open),
            (InProgress, On::LeaseLost, Open),
            (PendingMerge, On::Approved, Closed),
            (PendingMerge, On::Rejected, Blocked),
            (Blocked, On::Unblocked, Open),
            (Blocked, On::Closed, Closed),
        ]
    };
}
