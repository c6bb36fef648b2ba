//! Retention on the wire.

use coven_domain::query::SweepReport;
use serde::{Deserialize, Serialize};

/// `POST /api/v1/retention`: deletes now what has been kept long enough, or only says what that would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetentionRequest {
    pub dry_run: bool,
}

/// What went, or would go; ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetentionResponse {
    pub dry_run: bool,
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
        Self {
            dry_run,
            tasks_soft_deleted: report.tasks_soft_deleted,
            tasks_deleted: report.tasks_deleted,
            agents_deleted: report.agents_deleted,
            sessions_deleted: report.sessions_deleted.iter().map(ToString::to_string).collect(),
            workflows_deleted: report.workflows_deleted,
            questions_deleted: report.questions_deleted,
            events_deleted: report.events_deleted,
            operations_deleted: report.operations_deleted,
        }
    }
}
