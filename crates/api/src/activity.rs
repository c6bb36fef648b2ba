//! The activity of a session, its evidence, and calls of hooks.

use coven_domain::activity::{Activity, ActivityFact, ActivitySource, JudgedObservation, Verdict};
use coven_domain::{RequestId, SessionId, Timestamp, string_enum};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "schema")]
use crate::schema::{DateTime, Id, JsonValue, StringEnumSchema};

string_enum! {
    /// `off`: the agent has no hooks; `unavailable`: its settings do not allow them; `silent`: they have not reported yet;
    /// `reporting`: they report.
    pub enum HookStatus { Off = "off", Unavailable = "unavailable", Silent = "silent", Reporting = "reporting" }
}

/// `GET /api/v1/sessions/{id}/activity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ActivityResponse {
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub session_id: SessionId,
    /// Null if the session is not live.
    #[cfg_attr(feature = "schema", schemars(with = "Option<StringEnumSchema<Activity>>"))]
    pub activity: Option<Activity>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub since: Option<Timestamp>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<StringEnumSchema<ActivitySource>>"))]
    pub source: Option<ActivitySource>,
    pub detail: Option<String>,
    pub unseen: bool,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<HookStatus>"))]
    pub hooks: HookStatus,
    /// Why the agent's hooks are not used.
    pub hooks_reason: Option<String>,
    /// Subagents and background tasks that are running.
    pub background: u32,
    /// The newest observations, oldest first; at most 100.
    pub observations: Vec<ObservationRecord>,
}

/// One report of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Observation"))]
pub struct ObservationRecord {
    pub number: u64,
    #[cfg_attr(feature = "schema", schemars(with = "DateTime"))]
    pub at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<ActivitySource>"))]
    pub source: ActivitySource,
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<ActivityFact>"))]
    pub fact: ActivityFact,
    pub detail: Option<String>,
    /// `held`: a stronger source says something else; the observation counts if that source stays silent.
    #[cfg_attr(feature = "schema", schemars(with = "StringEnumSchema<Verdict>"))]
    pub verdict: Verdict,
}

impl From<JudgedObservation> for ObservationRecord {
    fn from(it: JudgedObservation) -> Self {
        let JudgedObservation { number, observation, verdict } = it;
        Self {
            number,
            at: observation.at,
            source: observation.source,
            fact: observation.fact,
            detail: observation.detail,
            verdict,
        }
    }
}

/// `POST /api/v1/sessions/{id}/hook`: a call of one of the agent's hooks. Accepted only from a process of the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HookCallRequest {
    /// Identifies the call, so that a repeated delivery counts once.
    #[cfg_attr(feature = "schema", schemars(with = "Id"))]
    pub id: RequestId,
    /// The agent's name of the event.
    pub event: String,
    /// What the agent passed to its hook; null if it was too large.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "JsonValue"))]
    pub payload: Value,
    /// When the hook was called, if the daemon did not answer then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DateTime>"))]
    pub called_at: Option<Timestamp>,
}

/// The answer to a hook. A permission hook gets it when the request is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookCallResponse {
    /// What the hook prints for the agent; null for no decision.
    pub output: Option<String>,
}

/// `POST /api/v1/sessions/{id}/look`: a client shows the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LookRequest {
    /// How long the client keeps showing it, at most 60; no notification is sent meanwhile. With 0 it stops showing it now.
    /// Without a value the client looked once.
    #[cfg_attr(feature = "schema", schemars(range(max = 60)))]
    pub seconds: Option<u64>,
}
