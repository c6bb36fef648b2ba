//! An operation: work that a request starts and that continues after the response.

use serde_json::Value;

use crate::lifecycle::{Lifecycle, Refused};
use crate::{OperationId, Timestamp, string_enum};

string_enum! {
    pub enum OperationState {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

string_enum! {
    pub enum OperationFact {
        Progressed = "progressed",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

string_enum! {
    /// The request that started an operation.
    pub enum OperationKind {
        TaskApprove = "task.approve",
        TaskAdd = "task.add",
        MigrateRun = "migrate.run",
        RetentionRun = "retention.run",
    }
}

impl Lifecycle for OperationState {
    type Fact = OperationFact;

    const NOUN: &'static str = "operation";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [OperationFact] = OperationFact::ALL;
    const TRANSITIONS: &'static [(Self, OperationFact, Self)] = {
        use OperationFact as On;
        use OperationState::*;
        &[
            (Running, On::Progressed, Running),
            (Running, On::Completed, Completed),
            (Running, On::Failed, Failed),
            (Running, On::Cancelled, Cancelled),
        ]
    };
}

#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub id: OperationId,
    pub kind: OperationKind,
    pub state: OperationState,
    /// The id of the record that the operation is about.
    pub subject: Option<String>,
    pub progress: OperationProgress,
    /// The result as JSON text, once the operation has completed.
    pub result: Option<String>,
    pub error: Option<OperationError>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationProgress {
    pub done: u64,
    /// `None` while the number of steps is not known.
    pub total: Option<u64>,
    pub message: String,
}

/// Why an operation failed or was cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationError {
    pub code: String,
    pub message: String,
    pub details: Option<Value>,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationEnd {
    /// With the result as JSON text.
    Completed(String),
    Failed(OperationError),
    Cancelled(OperationError),
}

impl Operation {
    pub fn new(id: OperationId, kind: OperationKind, subject: Option<String>, now: Timestamp) -> Self {
        Self {
            id,
            kind,
            state: OperationState::Running,
            subject,
            progress: OperationProgress { message: "starting".to_owned(), ..OperationProgress::default() },
            result: None,
            error: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    pub const fn has_ended(&self) -> bool {
        !matches!(self.state, OperationState::Running)
    }

    pub fn progressed(&mut self, progress: OperationProgress, now: Timestamp) -> Result<(), Refused<OperationState>> {
        self.state = self.state.after(OperationFact::Progressed)?;
        self.progress = progress;
        self.touch(now);
        Ok(())
    }

    pub fn end(&mut self, end: OperationEnd, now: Timestamp) -> Result<(), Refused<OperationState>> {
        let fact = match end {
            OperationEnd::Completed(_) => OperationFact::Completed,
            OperationEnd::Failed(_) => OperationFact::Failed,
            OperationEnd::Cancelled(_) => OperationFact::Cancelled,
        };
        self.state = self.state.after(fact)?;
        match end {
            OperationEnd::Completed(result) => {
                self.progress.done = self.progress.total.unwrap_or(self.progress.done);
                self.result = Some(result);
            }
            OperationEnd::Failed(error) | OperationEnd::Cancelled(error) => self.error = Some(error),
        }
        self.touch(now);
        self.ended_at = Some(self.updated_at);
        Ok(())
    }

    /// Gives every change a later time than the previous one: clients poll for records newer than the one they have.
    fn touch(&mut self, now: Timestamp) {
        self.updated_at = now.not_before(Timestamp::from_millis(self.updated_at.as_millis() + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation() -> Operation {
        let id = "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id");
        Operation::new(id, OperationKind::MigrateRun, None, Timestamp::from_millis(10))
    }

    #[test]
    fn every_change_is_later_than_the_previous_one() {
        let mut operation = operation();
        let progress = OperationProgress { done: 1, total: Some(3), message: "reading".to_owned() };
        operation.progressed(progress, Timestamp::from_millis(5)).expect("the operation is running");
        assert_eq!(operation.updated_at, Timestamp::from_millis(11));
        operation
            .end(OperationEnd::Completed("{}".to_owned()), Timestamp::from_millis(5))
            .expect("the operation is running");
        assert_eq!(
            (operation.updated_at, operation.ended_at.expect("the operation ended").as_millis()),
            (Timestamp::from_millis(12), 12)
        );
        assert_eq!(operation.progress.done, 3, "a completed operation has done all steps");
    }

    #[test]
    fn an_ended_operation_does_not_change() {
        let error = OperationError { code: "not_merged".to_owned(), message: "why".to_owned(), details: None };
        let mut operation = operation();
        operation.end(OperationEnd::Failed(error), Timestamp::from_millis(20)).expect("the operation is running");
        let before = operation.clone();
        assert!(operation.end(OperationEnd::Completed("{}".to_owned()), Timestamp::from_millis(30)).is_err());
        assert!(operation.progressed(OperationProgress::default(), Timestamp::from_millis(30)).is_err());
        assert_eq!(operation, before);
    }
}
