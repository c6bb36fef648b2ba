//! Operations that requests start.

use coven_api::List;
use coven_api::operation::Operation;
use serde_json::Value;

use crate::TestHome;

impl TestHome {
    /// Sends a request that starts an operation; returns the operation.
    #[track_caller]
    pub fn start_operation(&self, path: &str, body: &Value) -> Operation {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        let operation: Operation = answer.json();
        assert_eq!(answer.header("location"), format!("/api/v1/operations/{}", operation.id));
        operation
    }

    /// The operation once it has ended.
    #[track_caller]
    pub fn ended_operation(&self, operation: &Operation) -> Operation {
        self.read(&format!("/api/v1/operations/{}?wait=true", operation.id))
    }

    /// Newest first.
    #[track_caller]
    pub fn operations(&self, query: &str) -> Vec<Operation> {
        self.read::<List<Operation>>(&format!("/api/v1/operations{query}")).items
    }
}
