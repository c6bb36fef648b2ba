//! Retention on the wire.

use coven_domain::query::SweepReport;
use serde::{Deserialize, Serialize};

/// Maximum number of ids of each kind in a response.
pub const MAX_RETENTION_IDS: usize = 100;

/// `POST /api/v1/retention`: deletes expired records now, or only lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetentionRequest {
    pub dry_run: bool,
}

/// Number of deleted records of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionCounts {
    pub tasks_soft_deleted: usize,
    pub tasks_deleted: usize,
    pub agents_deleted: usize,
    pub sessions_deleted: usize,
    pub workflows_deleted: usize,
    pub questions_deleted: usize,
}

/// The records that were deleted, or would be: exact counts, and at most 100 ids of each kind. The events
/// `retention.swept` list all ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionResponse {
    pub dry_run: bool,
    /// Older versions list all ids and do not have it.
    #[serde(default)]
    pub counts: RetentionCounts,
    /// A list has fewer ids than its count.
    #[serde(default)]
    pub is_truncated: bool,
    /// Closed long enough ago: hidden, and deleted later.
    pub tasks_soft_deleted: Vec<String>,
    pub tasks_deleted: Vec<String>,
    pub agents_deleted: Vec<String>,
    /// With their logs.
    pub sessions_deleted: Vec<String>,
    pub workflows_deleted: Vec<String>,
    pub questions_deleted: Vec<String>,
    pub events_deleted: u64,
    /// Operations that ended before the events that are kept.
    #[serde(default)]
    pub operations_deleted: u64,
}

impl RetentionResponse {
    pub fn new(report: SweepReport, dry_run: bool) -> Self {
        let mut response = Self {
            dry_run,
            counts: RetentionCounts::default(),
            is_truncated: false,
            tasks_soft_deleted: report.tasks_soft_deleted,
            tasks_deleted: report.tasks_deleted,
            agents_deleted: report.agents_deleted,
            sessions_deleted: report.sessions_deleted.iter().map(ToString::to_string).collect(),
            workflows_deleted: report.workflows_deleted,
            questions_deleted: report.questions_deleted,
            events_deleted: report.events_deleted,
            operations_deleted: report.operations_deleted,
        };
        for (count, ids) in response.lists_mut() {
            *count = ids.len();
        }
        response.truncate();
        response
    }

    /// Returns each list of ids with its count, in the order of the fields.
    pub fn lists_mut(&mut self) -> [(&mut usize, &mut Vec<String>); 6] {
        let counts = &mut self.counts;
        [
            (&mut counts.tasks_soft_deleted, &mut self.tasks_soft_deleted),
            (&mut counts.tasks_deleted, &mut self.tasks_deleted),
            (&mut counts.agents_deleted, &mut self.agents_deleted),
            (&mut counts.sessions_deleted, &mut self.sessions_deleted),
            (&mut counts.workflows_deleted, &mut self.workflows_deleted),
            (&mut counts.questions_deleted, &mut self.questions_deleted),
        ]
    }

    /// Limits each list to `MAX_RETENTION_IDS`.
    pub fn truncate(&mut self) {
        let mut is_truncated = false;
        for (count, ids) in self.lists_mut() {
            ids.truncate(MAX_RETENTION_IDS);
            is_truncated |= ids.len() < *count;
        }
        self.is_truncated = is_truncated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_sweep_is_counted_and_its_lists_are_truncated() {
        let report = SweepReport {
            tasks_deleted: (0..101).map(|nth| nth.to_string()).collect(),
            agents_deleted: vec!["a".to_owned()],
            ..SweepReport::default()
        };
        let response = RetentionResponse::new(report, true);
        let counts = RetentionCounts { tasks_deleted: 101, agents_deleted: 1, ..RetentionCounts::default() };
        assert_eq!((response.counts, response.is_truncated), (counts, true));
        assert_eq!((response.tasks_deleted.len(), response.agents_deleted.len()), (100, 1));
    }
}
