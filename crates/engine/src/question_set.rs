//! Question sets of this user: publishes each change in their folder once and writes answers to it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::query::{ItemPlace, WaitingQuery};
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::{QuestionSetState, QuestionSetSummary, title_of};
use coven_holder::clock;
use coven_host::config::NotificationKind;
use coven_interop::questions::{CleanedUp, FolderWatch, QuestionError, QuestionFolder};
pub use coven_interop::questions::{Listed, QuestionSet};
use coven_store::Change;

use super::Engine;
use super::inbox::InboxEntry;
use super::notification::{InboxNotification, Need};
use crate::blocking::blocking;
use crate::error::EngineError;

/// Number of sets per transaction, so that an answer does not wait until a thousand sets are stored.
const BATCH_SIZE: usize = 100;

/// The folder and its published state. The folder is authoritative; the store has the published state.
pub struct QuestionSets {
    folder: QuestionFolder,
    /// Serializes reading the folder and storing the result, so that an old reading never overwrites a newer one.
    turn: tokio::sync::Mutex<()>,
    /// The rows of the store; `None` until they are loaded.
    published: Mutex<Option<HashMap<QuestionSetId, QuestionSetSummary>>>,
}

/// Which sets to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetScope {
    Every,
    /// Only sets that are not known to be finished: finished sets do not change.
    Unfinished,
}

/// What to do if the folder does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    Create,
    Skip,
}

/// A human's reply, which ends a set.
#[derive(Debug, Clone)]
pub enum HumanReply {
    Answers(Vec<QuestionAnswer>),
    Rejection(Option<String>),
}

impl QuestionSets {
    pub fn of(folder: QuestionFolder) -> Self {
        Self { folder, turn: tokio::sync::Mutex::default(), published: Mutex::default() }
    }

    fn published(&self) -> MutexGuard<'_, Option<HashMap<QuestionSetId, QuestionSetSummary>>> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sets that were published as pending.
    fn pending(&self) -> HashSet<QuestionSetId> {
        self.published_in_state(|state| state == QuestionSetState::Pending)
    }

    /// Returns the sets that were published as finished.
    fn finished(&self) -> HashSet<QuestionSetId> {
        self.published_in_state(|state| state != QuestionSetState::Pending)
    }

    fn published_in_state(&self, matches: impl Fn(QuestionSetState) -> bool) -> HashSet<QuestionSetId> {
        self.published().iter().flat_map(HashMap::values).filter(|set| matches(set.state)).map(|set| set.id).collect()
    }

    /// Runs `work` on a blocking thread, because it may wait for the disk or a lock.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce(&QuestionFolder) -> T + Send + 'static) -> T {
        let folder = self.folder.clone();
        blocking(move || work(&folder)).await
    }
}

impl Engine {
    /// Reads these sets and publishes their changes.
    pub async fn reconcile_question_sets(&self, ids: &[QuestionSetId]) -> Result<(), EngineError> {
        for some in ids.chunks(BATCH_SIZE) {
            let _turn = self.question_sets.turn.lock().await;
            self.load_published().await?;
            let some = some.to_vec();
            let readings = self
                .question_sets
                .run_blocking(move |folder| some.into_iter().map(|id| (id, folder.read_once(&id))).collect::<Vec<_>>());
            self.publish_changes(readings.await).await?;
        }
        Ok(())
    }

    /// Reads the folder and publishes its changes.
    pub async fn reconcile_folder(&self, scope: SetScope) -> Result<(), EngineError> {
        let mut ids: HashSet<QuestionSetId> =
            self.question_sets.run_blocking(QuestionFolder::ids).await?.into_iter().collect();
        self.load_published().await?;
        let finished = self.question_sets.finished();
        if scope == SetScope::Unfinished {
            // A finished set that has left the folder was dismissed.
            let gone: Vec<QuestionSetId> = finished.difference(&ids).copied().collect();
            ids.retain(|id| !finished.contains(id));
            ids.extend(gone);
        } else {
            ids.extend(finished);
        }
        ids.extend(self.question_sets.pending());
        let mut ids: Vec<QuestionSetId> = ids.into_iter().collect();
        ids.sort_unstable();
        self.reconcile_question_sets(&ids).await
    }

    async fn load_published(&self) -> Result<(), EngineError> {
        if self.question_sets.published().is_none() {
            let rows = self.store.question_sets().await?;
            self.question_sets.published().get_or_insert_with(|| rows.into_iter().map(|set| (set.id, set)).collect());
        }
        Ok(())
    }

    /// Stores and publishes the differences from the published state.
    async fn publish_changes(
        &self,
        readings: Vec<(QuestionSetId, Result<QuestionSet, QuestionError>)>,
    ) -> Result<(), EngineError> {
        let changes: Vec<Change> = {
            let published = self.question_sets.published();
            let before = |id: &QuestionSetId| published.as_ref()?.get(id).map(|set| (set.state, set.is_whole));
            readings.iter().flat_map(|(id, reading)| changes(*id, reading, before(id))).collect()
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
        let notifications: Vec<InboxNotification> =
            changes.iter().filter_map(|change| self.new_notification(change)).collect();
        {
            let mut published = self.question_sets.published();
            let published = published.get_or_insert_default();
            for change in changes {
                match change {
                    Change::QuestionSetChanged { set, .. } => drop(published.insert(set.id, set.summary())),
                    Change::QuestionSetRemoved(id) => drop(published.remove(&id)),
                    _ => {}
                }
            }
        }
        // After the update: the notifier checks whether the set is still pending.
        notifications.into_iter().for_each(|it| self.notify(it));
        Ok(())
    }

    /// Returns the notification for a new pending set, unless the set is older than this daemon.
    fn new_notification(&self, change: &Change) -> Option<InboxNotification> {
        let Change::QuestionSetChanged { set, .. } = change else { return None };
        (set.state == QuestionSetState::Pending && set.created_at >= self.started_at).then(|| InboxNotification {
            need: Need::QuestionSet(set.id),
            kind: NotificationKind::Question,
            session: set.asking_session(),
            title: title_of(&set.questions),
        })
    }

    /// Returns a page of the sets on disk, oldest first; broken ones with the reason.
    pub(super) async fn question_set_page(&self, query: &WaitingQuery) -> Result<Vec<InboxEntry>, EngineError> {
        let is_behind = |place: &ItemPlace| query.after.as_ref().is_none_or(|after| place > after);
        let is_listed = |listed: &Listed| match listed {
            Listed::Sound(set) => {
                (query.include_settled || set.state == QuestionSetState::Pending)
                    && query.session.is_none_or(|session| set.asking_session() == Some(session))
            }
            // The session of a broken set is unknown.
            Listed::Broken { .. } => query.session.is_none(),
        };
        let ids = self.question_sets.run_blocking(QuestionFolder::ids).await?;
        // The store has the order of the published sets, so only the files of this page are read.
        let (mut known, mut unknown): (Vec<(ItemPlace, QuestionSetId)>, Vec<QuestionSetId>) = Default::default();
        {
            let published = self.question_sets.published();
            for id in ids {
                match published.as_ref().and_then(|published| published.get(&id)) {
                    Some(set) if !query.include_settled && set.state != QuestionSetState::Pending => {}
                    Some(set) => known.push((ItemPlace { at: set.created_at, id: id.to_string() }, id)),
                    None => unknown.push(id),
                }
            }
        }
        known.retain(|(place, _)| is_behind(place));
        known.sort_unstable();
        let mut items = Vec::new();
        let found = self.question_sets.run_blocking(move |folder| folder.read_those(unknown)).await;
        for listed in found.into_iter().filter(is_listed) {
            let item = self.question_item(listed).await;
            items.extend(is_behind(&item.place()).then_some(item));
        }
        let mut read = 0;
        for some in known.chunks(BATCH_SIZE) {
            let some: Vec<QuestionSetId> = some.iter().map(|(_, id)| *id).collect();
            let found = self.question_sets.run_blocking(move |folder| folder.read_those(some)).await;
            for listed in found.into_iter().filter(is_listed) {
                items.push(self.question_item(listed).await);
                read += 1;
            }
            if read >= query.limit {
                break;
            }
        }
        Ok(items)
    }

    /// Returns the sets whose id has this prefix of lower-case hex digits and dashes.
    pub(super) async fn question_sets_with_prefix(&self, prefix: &str) -> Result<Vec<QuestionSetId>, EngineError> {
        let mut ids = self.question_sets.run_blocking(QuestionFolder::ids).await?;
        ids.retain(|id| id.to_string().starts_with(prefix));
        Ok(ids)
    }

    /// Returns the set on disk, or `None` if it is gone.
    pub async fn question_set(&self, id: QuestionSetId) -> Option<Listed> {
        self.question_sets
            .run_blocking(move |folder| match folder.read(&id) {
                Ok(set) => Some(Listed::Sound(set)),
                Err(QuestionError::NotFound { .. }) => None,
                Err(why) => Some(Listed::Broken { id, why }),
            })
            .await
    }

    /// Returns the modification time of a set that cannot be read.
    pub async fn question_set_touched_at(&self, id: QuestionSetId) -> Option<coven_domain::Timestamp> {
        self.question_sets.run_blocking(move |folder| folder.touched_at(&id)).await
    }

    /// Ends a set. The first program to end a set wins; this fails if another one was first. The event is published
    /// when this returns. `by` names the actor if it is not the human.
    pub async fn end_question_set(
        &self,
        id: QuestionSetId,
        ending: HumanReply,
        by: Option<String>,
    ) -> Result<(), EngineError> {
        let ended = self.question_sets.run_blocking(move |folder| match ending {
            HumanReply::Answers(answers) => folder.answer_as(&id, answers, by.as_deref(), clock::now()),
            HumanReply::Rejection(reason) => folder.reject_as(&id, reason.as_deref(), by.as_deref(), clock::now()),
        });
        ended.await?;
        if let Err(error) = self.reconcile_question_sets(&[id]).await {
            // The answer is in the folder; the loop publishes it once the store works again.
            tracing::warn!(set = %id, %error, "cannot publish a finished question set yet");
        }
        Ok(())
    }

    /// Abandons pending sets whose asker has died.
    pub async fn abandon_orphaned_question_sets(&self) {
        let pending = self.question_sets.pending();
        if pending.is_empty() {
            return;
        }
        let abandoned = self.question_sets.run_blocking(move |folder| {
            let is_abandoned = |id: &QuestionSetId| folder.abandon_if_orphaned(id, clock::now()).unwrap_or(false);
            pending.into_iter().filter(is_abandoned).count()
        });
        let abandoned = abandoned.await;
        if abandoned > 0 {
            tracing::info!(abandoned, "abandoned question sets whose askers are gone");
        }
    }

    /// Removes expired sets and abandons sets whose asker is gone.
    pub async fn clean_up_question_sets(&self) {
        let retention = Duration::from_millis(self.config.questions.retention_period);
        let done = self.question_sets.run_blocking(move |folder| folder.clean_up(retention, clock::now()));
        let CleanedUp { removed, abandoned, failed } = done.await;
        if !removed.is_empty() || !abandoned.is_empty() {
            tracing::info!(removed = removed.len(), abandoned = abandoned.len(), "cleaned up question sets");
        }
        for (id, _) in failed {
            // The reason is not logged: it may quote the questions.
            tracing::warn!(set = %id, "cannot clean up a question set; see `coven inbox` for the reason");
        }
    }

    /// Watches the folder for changes. Returns `None` if the kernel cannot, or if the folder does not exist.
    pub async fn watch_question_sets(&self, missing: IfMissing) -> Option<FolderWatch> {
        let watch = self.question_sets.run_blocking(move |folder| {
            let is_there = missing == IfMissing::Create || folder.path().is_dir();
            is_there.then(|| folder.watch()).and_then(Result::ok)
        });
        watch.await
    }

    /// Reports whether a set was last published as pending.
    pub(super) fn is_question_set_pending(&self, id: QuestionSetId) -> bool {
        let published = self.question_sets.published();
        published
            .as_ref()
            .and_then(|published| published.get(&id))
            .is_some_and(|set| set.state == QuestionSetState::Pending)
    }
}

/// Returns the changes between a reading and the published state. The flag of `before` is false for a row without
/// questions and answers, written by an older version.
fn changes(
    id: QuestionSetId,
    reading: &Result<QuestionSet, QuestionError>,
    before: Option<(QuestionSetState, bool)>,
) -> Vec<Change> {
    let changed = |set: QuestionSet| Change::QuestionSetChanged { event: set.state.event(), set };
    match (reading, before) {
        (Ok(set), Some((before, is_whole))) if set.state == before => match is_whole {
            true => Vec::new(),
            false => vec![Change::QuestionSetChanged { event: "updated", set: set.clone() }],
        },
        (Ok(set), Some(_)) => vec![changed(set.clone())],
        // Every set gets an `asked` event, even if it was answered before the daemon saw it.
        (Ok(set), None) => {
            let asked = QuestionSet {
                state: QuestionSetState::Pending,
                answered_by: None,
                rejection_reason: None,
                abandon_reason: None,
                answers: None,
                ..set.clone()
            };
            let ended = (set.state != QuestionSetState::Pending).then(|| changed(set.clone()));
            std::iter::once(changed(asked)).chain(ended).collect()
        }
        (Err(QuestionError::NotFound { .. }), Some(_)) => vec![Change::QuestionSetRemoved(id)],
        // Broken or partly written: the inbox lists it, and its next change is read again.
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

    fn published_events(
        reading: Result<QuestionSet, QuestionError>,
        before: Option<QuestionSetState>,
    ) -> Vec<&'static str> {
        let changes = changes(id(), &reading, before.map(|state| (state, true)));
        let events = changes.iter().map(|change| match change {
            Change::QuestionSetChanged { set, event } => {
                assert_eq!(set.state.event(), *event, "the row has the state of its event");
                *event
            }
            Change::QuestionSetRemoved(_) => "dismissed",
            other => panic!("{other:?}"),
        });
        events.collect()
    }

    #[test]
    fn every_change_is_published_once_after_an_asked_event() {
        for &state in QuestionSetState::ALL {
            assert_eq!(published_events(found(state), Some(state)), [""; 0], "{state}");
            if state != QuestionSetState::Pending {
                assert_eq!(published_events(found(state), Some(QuestionSetState::Pending)), [state.event()]);
                assert_eq!(published_events(found(state), None), ["asked", state.event()]);
            }
        }
        assert_eq!(published_events(found(QuestionSetState::Pending), None), ["asked"]);
    }

    #[test]
    fn a_row_of_an_older_version_is_completed_once() {
        let of_older = |state| changes(id(), &found(state), Some((QuestionSetState::Pending, false)));
        let events = |changes: Vec<Change>| -> Vec<&'static str> {
            let event = |change: &Change| match change {
                Change::QuestionSetChanged { event, .. } => *event,
                other => panic!("{other:?}"),
            };
            changes.iter().map(event).collect()
        };
        assert_eq!(events(of_older(QuestionSetState::Pending)), ["updated"]);
        assert_eq!(events(of_older(QuestionSetState::Completed)), ["completed"]);
    }

    #[test]
    fn a_missing_set_is_dismissed_and_a_broken_set_is_unchanged() {
        let gone = || Err(QuestionError::NotFound { id: id().to_string() });
        let broken = || Err(QuestionError::Missing { id: id(), file: "status.json" });
        assert_eq!(published_events(gone(), Some(QuestionSetState::Completed)), ["dismissed"]);
        assert_eq!(published_events(gone(), None), [""; 0]);
        assert_eq!(published_events(broken(), Some(QuestionSetState::Pending)), [""; 0]);
        assert_eq!(published_events(broken(), None), [""; 0]);
    }
}
