//! Everything at one moment.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SessionRecord;

/// `GET /state`: read in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StateResponse {
    /// The last event whose change is in here; follow `/events?since=` this.
    pub event_number: u64,
    pub sessions: Vec<SessionRecord>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::openapi::Object>"))]
    pub tasks: Vec<Value>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::openapi::Object>"))]
    pub agents: Vec<Value>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::openapi::Object>"))]
    pub workflows: Vec<Value>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::openapi::Object>"))]
    pub questions: Vec<Value>,
}
