//! What a sweep removes.

use crate::Timestamp;

/// Everything before these moments goes; `None` keeps it for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    /// Closed tasks last touched before this are soft-deleted.
    pub closed_tasks: Option<Timestamp>,
    /// Soft-deleted tasks go with their agents, output, and questions.
    pub deleted_tasks: Option<Timestamp>,
    pub completed_workflows: Option<Timestamp>,
    pub events: Option<Timestamp>,
}
