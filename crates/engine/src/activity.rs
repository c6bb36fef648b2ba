//! The activity of live sessions: collects observations and stores the changes of all sessions in shared transactions.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::activity::{
    Activity, ActivityCheckpoint, ActivityFact, ActivitySource, ActivityStatus, ActivityTracker, JudgedObservation,
    MAX_OBSERVATIONS, Observation, Verdict,
};
use coven_domain::query::RequestQuery;
use coven_domain::request::{Request, RequestSource, SettledFrom};
use coven_domain::session::Session;
use coven_domain::{RequestId, SessionId, Timestamp};
use coven_harness::limit_text;
use coven_holder::clock;
use coven_store::Change;
use serde_json::json;
use tokio::sync::Notify;

use super::Engine;
use super::evidence::Finding;
use super::live::LiveSession;
use super::notification::busy_after;
use crate::error::EngineError;

/// Minimum time between two transactions with changes of activity.
pub(crate) const STORE_INTERVAL: Duration = Duration::from_millis(50);
/// How long a new detail of the same activity waits for others. A daemon that dies loses the details of this time; the next
/// title, screen or hook brings a newer one.
const DETAIL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of hook calls in a checkpoint. `coven hook` stores a call that takes longer than a second, so few can be repeated.
const CHECKPOINT_CALLS: usize = 64;

/// Whether an agent's hooks report to coven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HookState {
    /// coven passes no hooks to this agent, for this reason if one is known.
    #[default]
    Off,
    Unavailable(String),
    /// Passed at launch, and not heard from yet.
    Silent,
    Reporting,
}

/// The activity of one live session.
#[derive(Debug, Default)]
pub(crate) struct SessionActivity {
    tracker: ActivityTracker,
    /// The last number given to an observation.
    numbered: u64,
    unstored: Vec<JudgedObservation>,
    /// A transaction with earlier observations has not been committed yet.
    is_being_stored: bool,
    /// The record must be stored, because the status changed.
    is_changed: bool,
    /// One of the observations must be stored soon.
    has_urgent: bool,
    /// When the rest is stored at the latest: a new detail, and the ids of hook calls.
    store_by: Option<Timestamp>,
    /// What the last title or progress said. It counts again after a request is settled: a title that says "not working"
    /// is not repeated when a dialog closes.
    pub last_level: Option<Finding>,
    pub hooks: HookState,
    /// Ids of the newest hook calls, so that a repeated delivery is recognised.
    pub hook_calls: Vec<RequestId>,
    /// Those that were handled, for the checkpoint.
    handled_calls: Vec<RequestId>,
    /// The checkpoint must be stored.
    is_checkpoint_changed: bool,
    /// The last time at which the agent was known to work.
    worked_at: Option<Timestamp>,
    /// Requests whose hook waits for the answer, with the agent's own id of the request.
    pub waiting_hooks: HashMap<RequestId, Option<String>>,
    /// A client shows the session until then.
    watched_until: Option<Timestamp>,
    /// Connections that show the session.
    watchers: usize,
    /// When the agent left `idle`, for the length of its work.
    pub busy_since: Option<Timestamp>,
}

impl SessionActivity {
    pub fn new(status: ActivityStatus, observations: &[JudgedObservation], checkpoint: ActivityCheckpoint) -> Self {
        let numbered = observations.last().map_or(0, |last| last.number);
        let has_hooks = observations.iter().any(|it| it.observation.source == ActivitySource::Hook);
        let hooks = if has_hooks { HookState::Reporting } else { HookState::Off };
        let busy_since = busy_after(&status, None);
        let worked = observations.iter().filter(|it| it.observation.fact == ActivityFact::Worked);
        let worked_at = worked.map(|it| it.observation.at).max();
        let tracker = ActivityTracker::restored(status, observations, &checkpoint);
        let (hook_calls, handled_calls) = (checkpoint.hook_calls.clone(), checkpoint.hook_calls);
        Self { tracker, numbered, hooks, busy_since, worked_at, hook_calls, handled_calls, ..Self::default() }
    }

    fn checkpoint(&self) -> ActivityCheckpoint {
        ActivityCheckpoint {
            background: self.tracker.background(),
            is_turn_over: self.tracker.is_turn_over(),
            hook_calls: self.handled_calls.clone(),
        }
    }

    /// Reports whether a source of the same or a higher rank said something after this time.
    pub fn is_outdated(&self, source: ActivitySource, at: Timestamp) -> bool {
        self.tracker.is_outdated(source, at)
    }

    /// Applies what `change` does to the tracker, and keeps the observation that was judged. Returns its fact and verdict.
    fn judge(
        &mut self,
        change: impl FnOnce(&mut ActivityTracker) -> Option<(Observation, Verdict)>,
    ) -> Option<(ActivityFact, Verdict)> {
        let (detail, background) = (self.tracker.status().detail.clone(), self.background());
        let judged = change(&mut self.tracker);
        self.is_checkpoint_changed |= self.background() != background;
        let (mut observation, verdict) = judged?;
        let has_new_detail = self.tracker.status().detail != detail;
        if has_new_detail && observation.detail.is_none() {
            // The number of background tasks.
            observation.detail.clone_from(&self.tracker.status().detail);
        }
        let fact = observation.fact;
        self.note_work(observation.at);
        self.keep(observation, verdict, has_new_detail);
        Some((fact, verdict))
    }

    /// The number of background tasks, and whether the turn is over without them.
    fn background(&self) -> (u32, bool) {
        let count = self.tracker.background();
        (count, count > 0 && self.tracker.is_turn_over())
    }

    /// Numbers and keeps an observation. One that only confirms the current value is not kept, unless its detail is new.
    fn keep(&mut self, observation: Observation, verdict: Verdict, has_new_detail: bool) {
        if verdict == Verdict::Changed {
            self.is_changed = true;
        } else if has_new_detail {
            self.store_later();
        }
        // The client shows the change immediately.
        if verdict == Verdict::Changed && self.is_watched(clock::now()) {
            self.tracker.seen();
        }
        let last = self
            .unstored
            .last_mut()
            .filter(|last| last.observation.source == observation.source && last.observation.fact == observation.fact);
        match (verdict, last) {
            (Verdict::Changed, _) => {}
            (Verdict::Confirmed, _) if !has_new_detail => return,
            // A title can change many times a second and would replace all other evidence.
            (Verdict::Confirmed, Some(last))
                if last.verdict == Verdict::Confirmed && observation.source > ActivitySource::Hook =>
            {
                last.observation = observation;
                return;
            }
            (Verdict::Confirmed, _) | (_, None) => {}
            (Verdict::Held | Verdict::Ignored, Some(_)) => return,
        }
        self.push(observation, verdict);
    }

    fn store_later(&mut self) {
        self.store_by.get_or_insert_with(|| clock::now().after(DETAIL_INTERVAL));
    }

    fn push(&mut self, observation: Observation, verdict: Verdict) {
        self.has_urgent |= verdict != Verdict::Confirmed;
        self.numbered += 1;
        self.unstored.push(JudgedObservation { number: self.numbered, observation, verdict });
        // The store keeps no more than this either.
        let excess = self.unstored.len().saturating_sub(MAX_OBSERVATIONS);
        self.unstored.drain(..excess);
    }

    pub const fn status(&self) -> &ActivityStatus {
        self.tracker.status()
    }

    /// Forgets a dialog on the screen if a hook or the protocol reported the pending request: the end of that dialog says
    /// nothing about the request. Returns whether that is so.
    pub fn forget_screen(&mut self) -> bool {
        let status = self.tracker.status();
        let is_stronger = status.source.is_some_and(|source| source < ActivitySource::Signal);
        let is_other = is_stronger && status.activity.needs_a_human();
        if is_other {
            self.tracker.forget_held(ActivitySource::Screen);
        }
        is_other
    }

    /// Reports whether the store lacks observations that must not be lost.
    pub const fn has_unstored(&self) -> bool {
        self.is_being_stored || self.is_urgent()
    }

    const fn is_urgent(&self) -> bool {
        self.is_changed || self.is_checkpoint_changed || self.has_urgent
    }

    const fn has_anything_unstored(&self) -> bool {
        self.is_urgent() || self.store_by.is_some()
    }

    fn needs_storing(&self, now: Timestamp) -> bool {
        self.is_urgent() || self.store_by.is_some_and(|by| by <= now)
    }

    /// Returns when the activity must be looked at again, without a new observation.
    fn due_at(&self) -> Option<Timestamp> {
        self.tracker.due_at().into_iter().chain(self.store_by).min()
    }

    /// Takes what the store lacks.
    fn take_unstored(&mut self, live: Arc<LiveSession>) -> UnstoredActivity {
        let (is_changed, has_later) = (std::mem::take(&mut self.is_changed), self.store_by.take().is_some());
        let has_calls = has_later && !self.handled_calls.is_empty();
        let is_checkpoint_changed = std::mem::take(&mut self.is_checkpoint_changed);
        self.has_urgent = false;
        self.is_being_stored = true;
        UnstoredActivity {
            live,
            status: (is_changed || has_later).then(|| self.tracker.status().clone()),
            checkpoint: (is_checkpoint_changed || has_calls).then(|| self.checkpoint()),
            unstored: std::mem::take(&mut self.unstored),
        }
    }

    /// Observes the last title or progress again. One that asks is not repeated: its request was just settled.
    fn repeat_level(&mut self, now: Timestamp) {
        let Some((fact, detail)) = self.last_level.clone() else { return };
        if !fact.asks() {
            let again = Observation::new(ActivitySource::Signal, fact, detail.as_deref(), now);
            self.judge(|tracker| Some((again.clone(), tracker.observe(again))));
        }
    }

    /// Remembers that the agent works. Called before and after each change, so that the end of the work counts too.
    fn note_work(&mut self, at: Timestamp) {
        if self.tracker.status().activity == Activity::Working {
            self.worked_at = self.worked_at.max(Some(at));
        }
    }

    /// Reports whether a call of a hook says something about another tool or subagent than the one that waits for an
    /// answer: agents run several at a time, and the dialog stays on the screen.
    pub fn is_beside_a_request(&self, fact: ActivityFact) -> bool {
        let is_background = self.tracker.background() > 0;
        !self.waiting_hooks.is_empty()
            && (fact == ActivityFact::Worked || (fact == ActivityFact::TurnEnded && is_background))
    }

    fn is_watched(&self, now: Timestamp) -> bool {
        self.watchers > 0 || self.watched_until.is_some_and(|until| until > now)
    }
}

/// Changes of one session that the store lacks.
struct UnstoredActivity {
    live: Arc<LiveSession>,
    status: Option<ActivityStatus>,
    checkpoint: Option<ActivityCheckpoint>,
    unstored: Vec<JudgedObservation>,
}

/// The sessions whose activity must be stored, and those with an observation that waits.
#[derive(Debug, Default)]
pub(crate) struct ActivityQueue {
    changed: Mutex<HashSet<SessionId>>,
    waiting: Mutex<HashSet<SessionId>>,
    /// Held while changes are stored, so that an older status never overwrites a newer one.
    storing: tokio::sync::Mutex<()>,
    pub notify: Notify,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Applies an observation of a live session. The loop stores it.
    pub(crate) fn observe(&self, live: &LiveSession, mut observation: Observation) -> Verdict {
        if observation.fact == ActivityFact::LimitReached && observation.until.is_none() {
            let said = observation.detail.as_deref();
            observation.until = said.and_then(|said| limit_text::reset_time(said, observation.at));
        }
        let mut activity = lock(&live.activity);
        activity.note_work(observation.at);
        let judged = activity.judge(|tracker| Some((observation.clone(), tracker.observe(observation))));
        self.queue_activity(live.id, &activity);
        judged.map_or(Verdict::Ignored, |(_, verdict)| verdict)
    }

    /// Applies an observation that was delivered late. The evidence keeps it even if it is outdated.
    pub(crate) fn observe_late(&self, live: &LiveSession, observation: Observation) {
        let mut activity = lock(&live.activity);
        if activity.is_outdated(observation.source, observation.at) {
            activity.push(observation, Verdict::Ignored);
            self.queue_activity(live.id, &activity);
            return;
        }
        drop(activity);
        self.observe(live, observation);
    }

    /// Records that a hook call had its effects: the next daemon ignores it.
    pub(crate) fn note_handled_call(&self, live: &LiveSession, id: RequestId) {
        let mut activity = lock(&live.activity);
        if activity.handled_calls.len() == CHECKPOINT_CALLS {
            activity.handled_calls.remove(0);
        }
        activity.handled_calls.push(id);
        activity.store_later();
        self.queue_activity(live.id, &activity);
    }

    /// Records that a request was settled, and lets the last title count again.
    pub(crate) fn observe_settled(&self, live: &LiveSession, source: ActivitySource) {
        let now = clock::now();
        let verdict = self.observe(live, Observation::new(source, ActivityFact::Settled, None, now));
        if verdict == Verdict::Changed {
            let mut activity = lock(&live.activity);
            activity.repeat_level(now);
            self.queue_activity(live.id, &activity);
        }
    }

    /// Sets the number of subagents and background tasks.
    pub(crate) fn set_background(&self, live: &LiveSession, change: impl FnOnce(u32) -> u32) {
        let (mut activity, now) = (lock(&live.activity), clock::now());
        let count = change(activity.tracker.background());
        activity.note_work(now);
        activity.judge(|tracker| tracker.set_background(count, now));
        self.queue_activity(live.id, &activity);
    }

    /// Records that a client looks at the session. With `watched` it keeps showing it for that long, and no longer if that
    /// is zero.
    pub async fn look_at(&self, id: SessionId, watched: Option<Duration>) -> Result<(), EngineError> {
        match self.live_session(id) {
            Some(live) => {
                let mut activity = lock(&live.activity);
                activity.watched_until = match watched {
                    None => activity.watched_until,
                    Some(Duration::ZERO) => None,
                    Some(watched) => Some(clock::now().after(watched)).max(activity.watched_until),
                };
                if activity.tracker.seen() {
                    activity.is_changed = true;
                }
                self.queue_activity(id, &activity);
                Ok(())
            }
            None => self.session(id).await.map(drop),
        }
    }

    /// Records that a connection shows the session until the value is dropped.
    pub fn watch(self: &Arc<Self>, id: SessionId) -> Option<Watching> {
        let live = self.live_session(id)?;
        let mut activity = lock(&live.activity);
        activity.watchers += 1;
        if activity.tracker.seen() {
            activity.is_changed = true;
        }
        self.queue_activity(id, &activity);
        drop(activity);
        Some(Watching(live))
    }

    /// Returns what the agent is doing, and the last time at which it was known to work.
    pub(crate) fn current_activity(&self, live: &LiveSession) -> (ActivityStatus, Option<Timestamp>) {
        let activity = lock(&live.activity);
        (activity.tracker.status().clone(), activity.worked_at)
    }

    /// Reports whether a client shows the session now.
    pub(crate) fn is_watched(&self, id: SessionId) -> bool {
        self.live_session(id).is_some_and(|live| lock(&live.activity).is_watched(clock::now()))
    }

    fn queue_activity(&self, id: SessionId, activity: &SessionActivity) {
        if activity.due_at().is_some() {
            lock(&self.activity.waiting).insert(id);
        }
        if activity.is_urgent() {
            lock(&self.activity.changed).insert(id);
        }
        self.activity.notify.notify_one();
    }

    /// Applies the observations that are due. Returns the time of the next one.
    pub(crate) fn apply_due_activity(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting: Vec<SessionId> = lock(&self.activity.waiting).drain().collect();
        let mut next = None;
        for id in waiting {
            let Some(live) = self.live_session(id) else { continue };
            let mut activity = lock(&live.activity);
            activity.note_work(now);
            while let Some(judged) = activity.judge(|tracker| tracker.apply_due(now)) {
                if judged == (ActivityFact::Settled, Verdict::Changed) {
                    activity.repeat_level(now);
                }
            }
            let needs_storing = activity.needs_storing(now);
            if needs_storing {
                lock(&self.activity.changed).insert(id);
            }
            // The transaction stores everything, so only a held observation is left to wait for.
            let due = if needs_storing { activity.tracker.due_at() } else { activity.due_at() };
            if let Some(due) = due {
                lock(&self.activity.waiting).insert(id);
                next = Some(next.map_or(due, |next: Timestamp| next.min(due)));
            }
        }
        next
    }

    /// Stores the activity of a session with the details that wait for others.
    pub(crate) async fn flush_activity(self: &Arc<Self>, live: &LiveSession) -> Result<(), EngineError> {
        if lock(&live.activity).has_anything_unstored() {
            lock(&self.activity.changed).insert(live.id);
        }
        self.store_activity().await
    }

    /// Stores all changes of activity in one transaction and announces them.
    pub(crate) async fn store_activity(self: &Arc<Self>) -> Result<(), EngineError> {
        let _storing = self.activity.storing.lock().await;
        let ids: Vec<SessionId> = lock(&self.activity.changed).drain().collect();
        let mut changes = Vec::new();
        for id in ids {
            let Some(live) = self.live_session(id) else { continue };
            let mut activity = lock(&live.activity);
            let taken = activity.take_unstored(live.clone());
            drop(activity);
            changes.push(taken);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let written = self.write_activity(&changes).await;
        for it in &changes {
            lock(&it.live.activity).is_being_stored = false;
        }
        match written {
            Ok(changed) => {
                for (live, before, session) in changed {
                    self.activity_changed(&live, before, &session).await;
                }
                Ok(())
            }
            Err(error) => {
                // Put everything back; the loop retries.
                for UnstoredActivity { live, status, checkpoint, mut unstored } in changes {
                    let mut activity = lock(&live.activity);
                    activity.is_changed |= status.is_some();
                    activity.is_checkpoint_changed |= checkpoint.is_some();
                    activity.has_urgent |= !unstored.is_empty();
                    unstored.append(&mut activity.unstored);
                    activity.unstored = unstored;
                    lock(&self.activity.changed).insert(live.id);
                }
                Err(error)
            }
        }
    }

    async fn write_activity(
        &self,
        changes: &[UnstoredActivity],
    ) -> Result<Vec<(Arc<LiveSession>, Activity, Session)>, EngineError> {
        let now = clock::now();
        // Unsynced: after a power failure the agents are gone, and their activity with them.
        let mut tx = self.store.begin_unsynced().await?;
        let mut changed = Vec::new();
        for UnstoredActivity { live, status, checkpoint, unstored } in changes {
            let Some(mut session) = tx.session(live.id).await? else { continue };
            tx.append_observations(live.id, unstored).await?;
            if let Some(checkpoint) = checkpoint {
                tx.put_activity_checkpoint(live.id, checkpoint).await?;
            }
            if let Some(status) = status.clone().filter(|status| *status != session.activity) {
                let before = session.activity.activity;
                session.activity = status;
                tx.record(Change::SessionChanged { session: session.clone(), event: "activity" }, now).await?;
                changed.push((live.clone(), before, session));
            }
        }
        self.commit(tx).await?;
        Ok(changed)
    }

    /// Runs the effects of a stored change: the ledger note, requests that are no longer needed, the notification.
    async fn activity_changed(self: &Arc<Self>, live: &Arc<LiveSession>, before: Activity, session: &Session) {
        let status = &session.activity;
        if before == status.activity {
            return;
        }
        live.note(json!({
            "note": "activity",
            "activity": status.activity,
            "source": status.source,
            "detail": status.detail,
        }));
        if before.needs_a_human() && !status.activity.needs_a_human() {
            self.cancel_hook_requests(live.id, status.since).await;
        }
        self.notify_of_activity(live, session);
    }

    /// Completes the activity of an adopted session. The earlier daemon may have died after it stored a request or a turn
    /// and before it stored the activity that follows from it.
    pub(crate) async fn recover_activity(&self, live: &Arc<LiveSession>) -> Result<(), EngineError> {
        let stored = lock(&live.activity).status().activity;
        let Some(acp) = &live.acp else {
            return match self.pending_hook_requests(live.id).await?.first() {
                Some(asked) if !stored.needs_a_human() => {
                    self.observe_hook_request(live, asked, asked.created_at);
                    Ok(())
                }
                _ => Ok(()),
            };
        };
        if let Some((fact, detail)) = self.unstored_acp_activity(acp, stored).await? {
            self.observe(live, Observation::new(ActivitySource::Protocol, fact, detail.as_deref(), clock::now()));
        }
        Ok(())
    }

    /// Returns the pending requests of a session that hooks reported.
    pub(crate) async fn pending_hook_requests(&self, id: SessionId) -> Result<Vec<Request>, EngineError> {
        let query = RequestQuery { session: Some(id), ..RequestQuery::default() };
        let mut pending = self.store.requests(&query).await?;
        pending.retain(|request| request.source == RequestSource::Hook);
        Ok(pending)
    }

    /// Cancels requests whose dialog was closed in the terminal at this time. The agent may have made a newer one since.
    async fn cancel_hook_requests(&self, id: SessionId, closed_at: Option<Timestamp>) {
        let cancelled = async {
            for request in self.pending_hook_requests(id).await? {
                if Some(request.created_at) < closed_at {
                    self.withdraw_request(request.id, SettledFrom::Terminal).await?;
                }
            }
            Ok::<(), EngineError>(())
        };
        if let Err(error) = cancelled.await {
            tracing::warn!(session = %id, %error, "cannot cancel requests that were answered in the terminal");
        }
    }

    /// Returns the evidence for a session's activity.
    pub async fn why(&self, id: SessionId) -> Result<ActivityEvidence, EngineError> {
        // While a transaction is open, its observations are neither in the store nor in the session.
        let _storing = self.activity.storing.lock().await;
        let session = self.session(id).await?;
        let mut observations = self.store.observations(id).await?;
        let (mut hooks, mut background, mut status) = (HookState::Off, 0, session.activity.clone());
        if let Some(live) = self.live_session(id) {
            let activity = lock(&live.activity);
            let last = observations.last().map_or(0, |last| last.number);
            observations.extend(activity.unstored.iter().filter(|it| it.number > last).cloned());
            (hooks, background) = (activity.hooks.clone(), activity.tracker.background());
            status = activity.tracker.status().clone();
        }
        Ok(ActivityEvidence { session, status, hooks, background, observations })
    }
}

/// A connection shows a session.
pub struct Watching(Arc<LiveSession>);

impl Drop for Watching {
    fn drop(&mut self) {
        lock(&self.0.activity).watchers -= 1;
    }
}

/// Everything that explains the activity of a session.
#[derive(Debug)]
pub struct ActivityEvidence {
    pub session: Session,
    pub status: ActivityStatus,
    pub hooks: HookState,
    pub background: u32,
    /// Oldest first.
    pub observations: Vec<JudgedObservation>,
}
