//! Question sets of this user: what changes in their folder is told once, and answers go into it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::question::Answer;
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary};
use coven_domain::{QuestionSetId, SessionId};
use coven_holder::clock;
use coven_interop::questions::{CleanedUp, FolderWatch, QuestionError, QuestionFolder};
pub use coven_interop::questions::{Listed, QuestionSet};
use coven_store::Change;

use super::Engine;
use super::arrival::{Arrival, Asker};
use crate::blocking::blocking;
use crate::error::EngineError;

/// Sets that are read and written down together: whoever answers one does not wait for a thousand.
const AT_ONCE: usize = 100;

/// The folder, and what has been told of it. The folder is the truth; what was told is in the store.
pub struct QuestionSets {
    folder: QuestionFolder,
    /// Who looks and then writes down what it saw: one at a time, so that no older look comes after a newer one.
    turn: tokio::sync::Mutex<()>,
    /// The store's rows; none until they were read.
    told: Mutex<Option<HashMap<QuestionSetId, QuestionSetSummary>>>,
}

/// Which sets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Every,
    /// Those that nobody knows the end of: the others do not change any more.
    Unfinished,
}

/// What becomes of a folder that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    IsMade,
    StaysMissing,
}

/// How a human ends a set.
#[derive(Debug, Clone)]
pub enum Ending {
    Answers(Vec<Answer>),
    Rejection(Option<String>),
}

impl QuestionSets {
    pub fn of(folder: QuestionFolder) -> Self {
        Self { folder, turn: tokio::sync::Mutex::default(), told: Mutex::default() }
    }

    fn told(&self) -> MutexGuard<'_, Option<HashMap<QuestionSetId, QuestionSetSummary>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets that were told of as pending.
    fn pending(&self) -> HashSet<QuestionSetId> {
        self.told_as(|state| state == QuestionSetState::Pending)
    }

    /// Sets whose end was told.
    fn finished(&self) -> HashSet<QuestionSetId> {
        self.told_as(|state| state != QuestionSetState::Pending)
    }

    fn told_as(&self, is_it: impl Fn(QuestionSetState) -> bool) -> HashSet<QuestionSetId> {
        self.told().iter().flat_map(HashMap::values).filter(|set| is_it(set.state)).map(|set| set.id).collect()
    }

    /// Does what may wait for the disk or a lock on a thread that is there for waiting.
    async fn aside<T: Send + 'static>(&self, work: impl FnOnce(&QuestionFolder) -> T + Send + 'static) -> T {
        let folder = self.folder.clone();
        blocking(move || work(&folder)).await
    }
}

impl Engine {
    /// Looks at these sets and tells what became of them since they were last looked at.
    pub async fn look_at_question_sets(&self, ids: &[QuestionSetId]) -> Result<(), EngineError> {
        for some in ids.chunks(AT_ONCE) {
            let _turn = self.question_sets.turn.lock().await;
            self.read_told().await?;
            let some = some.to_vec();
            let looks = self
                .question_sets
                .aside(move |folder| some.into_iter().map(|id| (id, folder.read_once(&id))).collect::<Vec<_>>());
            self.tell(looks.await).await?;
        }
        Ok(())
    }

    /// Looks at the whole folder.
    pub async fn look_at_folder(&self, extent: Extent) -> Result<(), EngineError> {
        let mut ids: HashSet<QuestionSetId> =
            self.question_sets.aside(QuestionFolder::ids).await?.into_iter().collect();
        self.read_told().await?;
        let finished = self.question_sets.finished();
        if extent == Extent::Unfinished {
            // What is finished and no longer there has been dismissed.
            let gone: Vec<QuestionSetId> = finished.difference(&ids).copied().collect();
            ids.retain(|id| !finished.contains(id));
            ids.extend(gone);
        } else {
            ids.extend(finished);
        }
        ids.extend(self.question_sets.pending());
        let mut ids: Vec<QuestionSetId> = ids.into_iter().collect();
        ids.sort_unstable();
        self.look_at_question_sets(&ids).await
    }

    async fn read_told(&self) -> Result<(), EngineError> {
        if self.question_sets.told().is_none() {
            let rows = self.store.question_sets().await?;
            self.question_sets.told().get_or_insert_with(|| rows.into_iter().map(|set| (set.id, set)).collect());
        }
        Ok(())
    }

    /// Writes down what differs from what was told; then it counts as told.
    async fn tell(&self, looks: Vec<(QuestionSetId, Result<QuestionSet, QuestionError>)>) -> Result<(), EngineError> {
        let changes: Vec<Change> = {
            let told = self.question_sets.told();
            let state_of = |id: &QuestionSetId| told.as_ref()?.get(id).map(|set| set.state);
            looks.iter().flat_map(|(id, look)| changes(*id, look, state_of(id))).collect()
        };
        if changes.is_empty() {
            return Ok(());
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        for change in &changes {
            tx.record(change.clone(), now).await?;
        }
        self.commit(tx).await?;
        let arrived: Vec<Arrival> = changes.iter().filter_map(|change| self.arrival(change)).collect();
        {
            let mut told = self.question_sets.told();
            let told = told.get_or_insert_default();
            for change in changes {
                match change {
                    Change::QuestionSetChanged { set, .. } => drop(told.insert(set.id, set)),
                    Change::QuestionSetRemoved(id) => drop(told.remove(&id)),
                    _ => {}
                }
            }
        }
        // Whoever tells a human asks whether it still waits: what was told must be known by then.
        arrived.into_iter().for_each(|arrival| self.arrived(arrival));
        Ok(())
    }

    /// What waits since just now. What was asked before this daemon started has been waiting already.
    fn arrival(&self, change: &Change) -> Option<Arrival> {
        let Change::QuestionSetChanged { set, .. } = change else { return None };
        (set.state == QuestionSetState::Pending && set.created_at >= self.started_at).then(|| Arrival {
            asker: Asker::QuestionSet(set.id),
            session: set.session,
            title: set.title.clone(),
        })
    }

    /// As they are on disk at this moment, broken ones with the reason.
    pub async fn question_sets(
        &self,
        session: Option<SessionId>,
        include_finished: bool,
    ) -> Result<Vec<Listed>, EngineError> {
        // Those that are known to be finished need not be read to be left out.
        let left_out = if include_finished { HashSet::new() } else { self.question_sets.finished() };
        let listed = self.question_sets.aside(move |folder| folder.list_those(|id| !left_out.contains(id)));
        let mut listed = listed.await?;
        listed.retain(|listed| match listed {
            Listed::Sound(set) => {
                (include_finished || set.state == QuestionSetState::Pending)
                    && session.is_none_or(|session| set.asking_session() == Some(session))
            }
            // Whose it is cannot be told.
            Listed::Broken { .. } => session.is_none(),
        });
        Ok(listed)
    }

    /// Sets whose id begins so, which is hex digits and dashes in lower case.
    pub(super) async fn question_sets_with_prefix(&self, prefix: &str) -> Result<Vec<QuestionSetId>, EngineError> {
        let mut ids = self.question_sets.aside(QuestionFolder::ids).await?;
        ids.retain(|id| id.to_string().starts_with(prefix));
        Ok(ids)
    }

    /// The set on disk; none if it is gone.
    pub async fn question_set(&self, id: QuestionSetId) -> Option<Listed> {
        self.question_sets
            .aside(move |folder| match folder.read(&id) {
                Ok(set) => Some(Listed::Sound(set)),
                Err(QuestionError::NotFound { .. }) => None,
                Err(why) => Some(Listed::Broken { id, why }),
            })
            .await
    }

    /// When somebody last touched a set that cannot be read.
    pub async fn question_set_touched_at(&self, id: QuestionSetId) -> Option<coven_domain::Timestamp> {
        self.question_sets.aside(move |folder| folder.touched_at(&id)).await
    }

    /// The first one to end a set wins, here or in any other program. Its event is out when this returns.
    /// `by` names who ended it, where that is not the human.
    pub async fn end_question_set(
        &self,
        id: QuestionSetId,
        ending: Ending,
        by: Option<String>,
    ) -> Result<(), EngineError> {
        let ended = self.question_sets.aside(move |folder| match ending {
            Ending::Answers(answers) => folder.answer_as(&id, answers, by.as_deref(), clock::now()),
            Ending::Rejection(reason) => folder.reject_as(&id, reason.as_deref(), by.as_deref(), clock::now()),
        });
        ended.await?;
        if let Err(error) = self.look_at_question_sets(&[id]).await {
            // The answer is given all the same; the loop tells of it when the store takes it.
            tracing::warn!(set = %id, %error, "a finished question set could not be told of yet");
        }
        Ok(())
    }

    /// Abandons pending sets whose asker has died.
    pub async fn abandon_orphaned_question_sets(&self) {
        let pending = self.question_sets.pending();
        if pending.is_empty() {
            return;
        }
        let abandoned = self.question_sets.aside(move |folder| {
            let is_abandoned = |id: &QuestionSetId| folder.abandon_if_orphaned(id, clock::now()).unwrap_or(false);
            pending.into_iter().filter(is_abandoned).count()
        });
        let abandoned = abandoned.await;
        if abandoned > 0 {
            tracing::info!(abandoned, "question sets were abandoned: their askers are gone");
        }
    }

    /// Removes what ended long enough ago and abandons what nobody waits for.
    pub async fn clean_up_question_sets(&self) {
        let retention = Duration::from_millis(self.config.questions.retention_period);
        let done = self.question_sets.aside(move |folder| folder.clean_up(retention, clock::now()));
        let CleanedUp { removed, abandoned, failed } = done.await;
        if !removed.is_empty() || !abandoned.is_empty() {
            tracing::info!(removed = removed.len(), abandoned = abandoned.len(), "question sets were cleaned up");
        }
        for (id, _) in failed {
            // Why may quote what was asked; the inbox says it.
            tracing::warn!(set = %id, "a question set could not be cleaned up; `coven inbox` tells why");
        }
    }

    /// Has the kernel tell of changes; none where it cannot, or where there is no folder.
    pub async fn watch_question_sets(&self, missing: Missing) -> Option<FolderWatch> {
        let watch = self.question_sets.aside(move |folder| {
            let is_there = missing == Missing::IsMade || folder.path().is_dir();
            is_there.then(|| folder.watch()).and_then(Result::ok)
        });
        watch.await
    }

    /// Whether a set still waits, as far as it was told.
    pub(super) fn is_question_set_pending(&self, id: QuestionSetId) -> bool {
        let told = self.question_sets.told();
        told.as_ref().and_then(|told| told.get(&id)).is_some_and(|set| set.state == QuestionSetState::Pending)
    }
}

/// What to tell of a set that was last told of in `before`.
fn changes(
    id: QuestionSetId,
    look: &Result<QuestionSet, QuestionError>,
    before: Option<QuestionSetState>,
) -> Vec<Change> {
    let changed = |set: QuestionSetSummary| Change::QuestionSetChanged { event: set.state.event(), set };
    match (look, before) {
        (Ok(set), Some(before)) if set.state == before => Vec::new(),
        (Ok(set), Some(_)) => vec![changed(set.summary())],
        // Every set is asked once, also one that was answered before anybody looked.
        (Ok(set), None) => {
            let asked = QuestionSetSummary { state: QuestionSetState::Pending, ..set.summary() };
            let ended = (set.state != QuestionSetState::Pending).then(|| changed(set.summary()));
            std::iter::once(changed(asked)).chain(ended).collect()
        }
        (Err(QuestionError::NotFound { .. }), Some(_)) => vec![Change::QuestionSetRemoved(id)],
        // Broken, or half written by a tool that is not done: the inbox names it, and it changes again when it is whole.
        (Err(_), _) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use coven_domain::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1);

    fn id() -> QuestionSetId {
        QuestionSetId::from_random_bytes([7; 16])
    }

    fn found(state: QuestionSetState) -> Result<QuestionSet, QuestionError> {
        Ok(QuestionSet {
            id: id(),
            questions: Vec::new(),
            state,
            created_at: AT,
            modified_at: AT,
            call_id: None,
            working_directory: None,
            session: None,
            answered_by: None,
            rejection_reason: None,
            abandon_reason: None,
            answers: None,
        })
    }

    fn told(look: Result<QuestionSet, QuestionError>, before: Option<QuestionSetState>) -> Vec<&'static str> {
        let changes = changes(id(), &look, before);
        let told = changes.iter().map(|change| match change {
            Change::QuestionSetChanged { set, event } => {
                assert_eq!(set.state.event(), *event, "the row is what the event tells");
                *event
            }
            Change::QuestionSetRemoved(_) => "dismissed",
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn every_difference_is_told_once_and_every_set_is_asked_first() {
        for &state in QuestionSetState::ALL {
            assert_eq!(told(found(state), Some(state)), [""; 0], "{state}");
            if state != QuestionSetState::Pending {
                assert_eq!(told(found(state), Some(QuestionSetState::Pending)), [state.event()]);
                assert_eq!(told(found(state), None), ["asked", state.event()]);
            }
        }
        assert_eq!(told(found(QuestionSetState::Pending), None), ["asked"]);
    }

    #[test]
    fn what_is_gone_is_dismissed_and_what_is_broken_is_left_as_it_was() {
        let gone = || Err(QuestionError::NotFound { id: id().to_string() });
        let broken = || Err(QuestionError::Missing { id: id(), file: "status.json" });
        assert_eq!(told(gone(), Some(QuestionSetState::Completed)), ["dismissed"]);
        assert_eq!(told(gone(), None), [""; 0]);
        assert_eq!(told(broken(), Some(QuestionSetState::Pending)), [""; 0]);
        assert_eq!(told(broken(), None), [""; 0]);
    }
}
