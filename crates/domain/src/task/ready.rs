//! Whether a task can be begun, and which links between tasks make no sense.

use std::collections::{BTreeSet, VecDeque};

use super::{Task, TaskState};
use crate::TaskId;

/// Why a task cannot be begun; several may hold.
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
    /// `dependencies` are the tasks it depends on, as they are.
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

/// How one gets from any of `starts` to `goal`, the shortest way; `next` gives where a task leads.
pub fn path<E>(
    starts: &[TaskId],
    goal: TaskId,
    mut next: impl FnMut(TaskId) -> Result<Vec<TaskId>, E>,
) -> Result<Option<Vec<TaskId>>, E> {
    let mut seen: BTreeSet<TaskId> = starts.iter().copied().collect();
    let mut ways: VecDeque<Vec<TaskId>> = starts.iter().map(|start| vec![*start]).collect();
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        if last == goal {
            return Ok(Some(way));
        }
        for step in next(last)? {
            if seen.insert(step) {
                ways.push_back(way.iter().copied().chain([step]).collect());
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::task::Claim;
    use std::convert::Infallible;
    use uuid::Uuid;

    fn id(nth: u128) -> TaskId {
        TaskId::from_uuid(Uuid::from_u128(nth))
    }

    #[test]
    fn a_task_is_ready_when_open_unclaimed_and_all_it_depends_on_is_closed() {
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

    #[test]
    fn a_way_is_found_if_there_is_one_and_circles_do_not_catch_the_search() {
        let links = |from: TaskId| -> Result<Vec<TaskId>, Infallible> {
            Ok(match from {
                it if it == id(1) => vec![id(2), id(3)],
                it if it == id(2) => vec![id(1)],
                it if it == id(3) => vec![id(4)],
                _ => vec![],
            })
        };
        assert_eq!(path(&[id(1)], id(4), links), Ok(Some(vec![id(1), id(3), id(4)])));
        assert_eq!(path(&[id(4), id(2)], id(3), links), Ok(Some(vec![id(2), id(1), id(3)])));
        assert_eq!(path(&[id(4)], id(1), links), Ok(None));
        assert_eq!(path(&[id(4)], id(4), links), Ok(Some(vec![id(4)])));
    }
}
