//! Events on the wire.

use coven_domain::event::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventRecord {
    pub number: u64,
    /// `session.created`, `session.running`, `retention.swept`, …
    pub kind: String,
    pub subject: String,
    pub at: String,
    #[cfg_attr(feature = "schema", schemars(with = "crate::openapi::Object"))]
    pub payload: Value,
}

impl From<&Event> for EventRecord {
    fn from(event: &Event) -> Self {
        Self {
            number: event.number,
            kind: event.event.kind.clone(),
            subject: event.event.subject.clone(),
            at: event.event.at.to_string(),
            payload: event.event.payload.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventsResponse {
    pub events: Vec<EventRecord>,
    /// True when events after the cursor have expired: read `/state` and go on from its `event_number`.
    pub gap: bool,
    pub next: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EventsQuery {
    /// An event number, or an ISO 8601 time.
    pub since: Option<String>,
    /// For JSON: at most so many; 1000 if left out.
    pub limit: Option<usize>,
}
