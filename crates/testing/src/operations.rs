//! Operations that requests start.

use coven_api::List;
use coven_api::operation::Operation;
use coven_api::routes::{Endpoint, GetOperation, ListOperations};
use serde_json::Value;

use crate::TestHome;

impl TestHome {
    /// Sends a request that starts an operation; returns the operation.
    #[track_caller]
    pub fn start_operation(&self, path: &str, body: &Value) -> Operation {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        let operation: Operation = answer.json();
        assert_eq!(answer.header("location"), GetOperation::of(&operation.id.to_string()).target());
        operation
    }

    /// The operation once it has ended.
    #[track_caller]
    pub fn ended_operation(&self, operation: &Operation) -> Operation {
        self.read(&format!("{}?wait=true", GetOperation::of(&operation.id.to_string()).target()))
    }

    /// Newest first.
    #[track_caller]
    pub fn operations(&self, query: &str) -> Vec<Operation> {
        self.read::<List<Operation>>(&format!("{}{query}", ListOperations::ROUTE.path)).items
    }
}
