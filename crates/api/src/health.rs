//! How the daemon is.

use coven_domain::Timestamp;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// The version of the routes under `/api/v1`; a client that needs a newer one says so.
pub const API_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Health"))]
pub struct HealthResponse {
    pub ok: bool,
    pub version: String,
    pub api_version: u32,
    pub pid: u32,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub started_at: Timestamp,
    pub home: String,
    /// The TCP address it listens on beside the Unix socket.
    pub listen: Option<String>,
    pub sessions_live: u64,
    pub sessions_total: u64,
    /// Sessions that wait for their launch, because a limit of the config is reached.
    #[serde(default)]
    pub launches_queued: u64,
    pub last_event: u64,
    /// What needs a person's attention, in words; empty when all is well.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StopRequest {
    /// End all sessions too; without it they keep running and the next daemon adopts them.
    pub kill_sessions: bool,
}
