//! Everything at one moment.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::SessionRecord;

/// `GET /state`: read in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StateResponse {
    /// The last event whose change is in here; follow `/events?since=` this.
    pub event_number: u64,
    pub sessions: Vec<SessionRecord>,
    #[schema(value_type = Vec<Object>)]
    pub tasks: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    pub agents: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    pub workflows: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    pub questions: Vec<Value>,
}
