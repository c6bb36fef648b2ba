//! Whether a task can be started.

use super::{Task, TaskState};
use crate::TaskId;

/// A reason why a task cannot be started; several may apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    #[error("it is {0}")]
    State(TaskState),
    #[error("it is claimed by {0}")]
    Claimed(String),
    #[error("it was deleted")]
    Deleted,
    #[error("it depends on {id}, which is {state}")]
    DependsOn { id: TaskId, state: TaskState },
}

impl Task {
    /// Checks whether the task can be started. `dependencies` gives the current state of each task it depends on.
    pub fn readiness(&self, dependencies: &[(TaskId, TaskState)]) -> Result<(), Vec<NotReady>> {
        let mut why = Vec::new();
        if self.deleted_at.is_some() {
            why.push(NotReady::Deleted);
        }
        if self.state != TaskState::Open {
            why.push(NotReady::State(self.state));
        }
        if let Some(claim) = &self.claim {
            why.push(NotReady::Claimed(claim.by.clone()));
        }
        let unfinished = dependencies.iter().filter(|(_, state)| *state != TaskState::Closed);
        why.extend(unfinished.map(|(id, state)| NotReady::DependsOn { id: *id, state: *state }));
        if why.is_empty() { Ok(()) } else { Err(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::task::Claim;
    use uuid::Uuid;

    fn id(nth: u128) -> TaskId {
        TaskId::from_uuid(Uuid::from_u128(nth))
    }

    #[test]
    fn a_task_is_ready_when_open_unclaimed_and_all_dependencies_are_closed() {
        let task = Task::new(id(1), "x", Timestamp::default()).expect("a title");
        assert_eq!(task.readiness(&[]), Ok(()));
        assert_eq!(task.readiness(&[(id(2), TaskState::Closed)]), Ok(()));
        for state in TaskState::ALL.iter().copied().filter(|state| *state != TaskState::Closed) {
            let why = NotReady::DependsOn { id: id(2), state };
            assert_eq!(task.readiness(&[(id(2), state), (id(3), TaskState::Closed)]), Err(vec![why]));
        }
        let claim = Some(Claim { by: "a".into(), until: Timestamp::default() });
        let claimed = Task { state: TaskState::InProgress, claim, ..task.clone() };
        let why = vec![NotReady::State(TaskState::InProgress), NotReady::Claimed("a".into())];
        assert_eq!(claimed.readiness(&[]), Err(why));
        let deleted = Task { deleted_at: Some(Timestamp::default()), ..task };
        assert_eq!(deleted.readiness(&[]), Err(vec![NotReady::Deleted]));
    }
}
