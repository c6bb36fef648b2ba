//! One state change of anything, numbered, for subscribers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// An event that is about to be written beside the change it tells of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewEvent {
    /// `session.created`, `session.killed`, `retention.swept`, …
    pub kind: String,
    /// The id of what changed; empty for the daemon itself.
    pub subject: String,
    pub at: Timestamp,
    pub payload: Value,
}

/// A written event: the number is global, grows by one and never comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub number: u64,
    #[serde(flatten)]
    pub event: NewEvent,
}
