//! Cutoff times of a retention sweep.

use crate::Timestamp;

/// A sweep deletes records older than these times; `None` keeps them forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    /// Tasks closed before this are soft-deleted.
    pub closed_tasks: Option<Timestamp>,
    /// Tasks soft-deleted before this are deleted with their agents, output and questions.
    pub deleted_tasks: Option<Timestamp>,
    pub completed_workflows: Option<Timestamp>,
    pub events: Option<Timestamp>,
}
