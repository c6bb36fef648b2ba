//! Launches that wait because a limit of the config is reached.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coven_domain::launch_queue::{LaunchLimits, QueuedLaunch, Usage};
use coven_domain::query::{SessionFilter, SessionQuery};
use coven_domain::session::{Channel, ProcessIdentity, Session, SessionState};
use coven_domain::{SessionId, Timestamp};
use coven_holder::{clock, memory};
use tokio::sync::Notify;

use super::Engine;
use super::blocking::blocking;
use super::launch::COMMAND;
use crate::error::EngineError;
use crate::runtime;

/// While a launch waits, memory and load are measured at most this often.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
const CANCELLED: &str = "the session was killed while it waited for its launch";
const PAGE: usize = 1000;

/// The launches that wait, and the lock under which launches are decided.
#[derive(Default)]
pub(crate) struct LaunchQueue {
    /// Held from a decision until its record is stored, so that two launches never take the last place.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// In the order of their launch.
    waiting: Mutex<Vec<WaitingLaunch>>,
    /// The last measurement of memory and load.
    measured: Mutex<Option<(Instant, Usage)>>,
    /// Notified when a launch starts to wait, or a waiting session was killed or archived.
    pub changed: Notify,
}

#[derive(Debug, Clone)]
struct WaitingLaunch {
    id: SessionId,
    is_agent: bool,
    is_acp: bool,
    since: Timestamp,
    /// The client's environment. Never stored: after a restart the session gets the daemon's.
    env: Option<BTreeMap<String, String>>,
    /// What the record says.
    shown: QueuedLaunch,
}

/// The decision about a launch. Keep it until the record is stored.
pub(crate) struct LaunchTurn {
    _guard: Option<tokio::sync::OwnedMutexGuard<()>>,
    /// Set if the launch must wait.
    pub queued: Option<QueuedLaunch>,
}

impl LaunchQueue {
    fn waiting(&self) -> MutexGuard<'_, Vec<WaitingLaunch>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn len(&self) -> usize {
        self.waiting().len()
    }

    pub fn acp_len(&self) -> u64 {
        self.waiting().iter().filter(|it| it.is_acp).count() as u64
    }

    fn remove(&self, id: SessionId) {
        self.waiting().retain(|it| it.id != id);
        self.changed.notify_one();
    }
}

impl Engine {
    pub(crate) fn launch_limits(&self) -> LaunchLimits {
        self.config.limits.launch_limits()
    }

    /// Decides whether a session is launched now. Nothing waits if the limits are off or `is_now` overrides them.
    pub(crate) async fn launch_turn(&self, is_agent: bool, is_now: bool) -> Result<LaunchTurn, EngineError> {
        let limits = self.launch_limits();
        if is_now || (limits.is_off() && self.launch_queue.len() == 0) {
            return Ok(LaunchTurn { _guard: None, queued: None });
        }
        let guard = self.launch_queue.turn.clone().lock_owned().await;
        let ahead = self.launch_queue.waiting().iter().rfind(|it| it.is_agent || !is_agent).map(|it| it.shown.clone());
        // Behind a launch that waits; a command waits only behind launches that memory or load delay.
        let reason = match ahead.filter(|_| is_agent) {
            Some(ahead) => Some(ahead.reason),
            None => limits.reached(&self.usage(&limits, true).await?, is_agent).map(|limit| limit.to_string()),
        };
        let queued = reason.map(|reason| {
            let place = self.launch_queue.len() as u64 + 1;
            QueuedLaunch { since: clock::now(), place, reason }
        });
        Ok(LaunchTurn { _guard: Some(guard), queued })
    }

    /// Adds a session to the queue whose record says so already. Call it before the turn ends.
    pub(crate) fn enqueue(&self, session: &Session, env: Option<BTreeMap<String, String>>) {
        let Some(shown) = session.queued_launch() else { return };
        self.launch_queue.waiting().push(WaitingLaunch {
            id: session.id,
            is_agent: session.harness != COMMAND,
            is_acp: session.channel == Channel::Acp,
            since: shown.since,
            env,
            shown,
        });
        self.launch_queue.changed.notify_one();
    }

    /// Reads the queue of an earlier daemon. Returns its length.
    pub async fn restore_launch_queue(&self) -> Result<usize, EngineError> {
        let filter = SessionFilter { states: vec![SessionState::Created], ..SessionFilter::default() };
        let mut query = SessionQuery { filter, limit: PAGE, ..SessionQuery::default() };
        let mut found: Vec<(QueuedLaunch, Session)> = Vec::new();
        loop {
            let page = self.store.sessions(&query).await?;
            let last = page.sessions.last().map(|last| (last.created_at, last.id));
            found.extend(page.sessions.into_iter().filter_map(|it| Some((it.queued_launch()?, it))));
            match last.filter(|_| page.has_more) {
                Some(last) => query.after = Some(last),
                None => break,
            }
        }
        found.sort_by_key(|(queued, session)| (queued.place, queued.since, session.created_at));
        found.iter().for_each(|(_, session)| self.enqueue(session, None));
        Ok(found.len())
    }

    /// Launches sessions that wait, in order, as long as there is room. Updates the places of the others.
    pub(crate) async fn launch_waiting(self: &Arc<Self>) -> Result<(), EngineError> {
        let _guard = self.launch_queue.turn.clone().lock_owned().await;
        let limits = self.launch_limits();
        let mut usage = self.usage(&limits, false).await?;
        let waiting = self.launch_queue.waiting().clone();
        let (mut place, mut agents_blocked_by, mut all_blocked_by) = (0, None, None);
        for launch in waiting {
            let blocked = match (&all_blocked_by, agents_blocked_by.as_ref().filter(|_| launch.is_agent)) {
                (Some(reason), _) | (None, Some(reason)) => Some(String::clone(reason)),
                (None, None) => limits.reached(&usage, launch.is_agent).map(|limit| limit.to_string()),
            };
            let Some(reason) = blocked else {
                if self.launch_queued(&launch).await? {
                    usage.live_agents += u64::from(launch.is_agent);
                    if limits.needs_measuring() {
                        // The next launch waits for a measurement that includes this one.
                        self.forget_measurement();
                        all_blocked_by = Some(launch.shown.reason);
                    }
                }
                continue;
            };
            let is_about_agents = limits.reached(&usage, false).is_none();
            match is_about_agents {
                true => agents_blocked_by = Some(reason.clone()),
                false => all_blocked_by = Some(reason.clone()),
            }
            place += 1;
            self.show_place(&launch, place, reason).await?;
        }
        Ok(())
    }

    /// Starts the launch of a session that waited. Returns false if it no longer waits.
    async fn launch_queued(self: &Arc<Self>, launch: &WaitingLaunch) -> Result<bool, EngineError> {
        let id = launch.id;
        let launching = self.change_session(id, "launching", |session, now| {
            ensure_queued(session)?;
            session.launching(now).map_err(|source| EngineError::SessionState { id, source })
        });
        let session = match launching.await {
            Ok(session) => session,
            Err(EngineError::Store(error)) => return Err(error.into()),
            // Killed, archived or deleted.
            Err(_) => {
                self.launch_queue.remove(id);
                return Ok(false);
            }
        };
        self.launch_queue.remove(id);
        tracing::info!(session = %id, "launching a session that waited");
        let (engine, env) = (self.clone(), self.environment(launch.env.clone()));
        // Ends with the launch, which has a timeout.
        runtime::spawn(async move {
            let launched = match engine.ensure_launchable(&session) {
                Ok(()) => {
                    let holder = engine.prepare_holder(id);
                    engine.launch(session, env, holder).await.map(drop)
                }
                Err(error) => engine.record_launch_failure(id, &error.to_string()).await,
            };
            if let Err(error) = launched {
                tracing::warn!(session = %id, %error, "cannot launch a session that waited");
            }
        });
        Ok(true)
    }

    async fn show_place(&self, launch: &WaitingLaunch, place: u64, reason: String) -> Result<(), EngineError> {
        let shown = QueuedLaunch { since: launch.since, place, reason };
        if shown == launch.shown {
            return Ok(());
        }
        let changed = self.change_session(launch.id, "queued", |session, _| {
            ensure_queued(session)?;
            session.queued(&shown);
            Ok::<(), EngineError>(())
        });
        match changed.await {
            Ok(_) => {
                if let Some(known) = self.launch_queue.waiting().iter_mut().find(|it| it.id == launch.id) {
                    known.shown = shown;
                }
                Ok(())
            }
            Err(EngineError::Store(error)) => Err(error.into()),
            Err(_) => {
                self.launch_queue.remove(launch.id);
                Ok(())
            }
        }
    }

    /// Takes a session off the queue that was killed. Returns `None` if it does not wait any longer.
    pub(crate) async fn cancel_queued(&self, id: SessionId) -> Result<Option<Session>, EngineError> {
        let _guard = self.launch_queue.turn.clone().lock_owned().await;
        if !self.session(id).await?.is_queued() {
            return Ok(None);
        }
        let failed = self.change_session(id, "failed", |session, now| session.launch_failed(CANCELLED, now)).await?;
        self.launch_queue.remove(id);
        Ok(Some(failed))
    }

    /// Takes a session off the queue that is launched immediately.
    pub(crate) fn take_queued(&self, id: SessionId) -> Option<BTreeMap<String, String>> {
        let env = self.launch_queue.waiting().iter().find(|it| it.id == id).and_then(|it| it.env.clone());
        self.launch_queue.remove(id);
        env
    }

    /// Returns the ids of the sessions that wait for their launch, in order.
    pub(crate) fn queued_sessions(&self) -> Vec<SessionId> {
        self.launch_queue.waiting().iter().map(|it| it.id).collect()
    }

    /// Counts live agents, and measures what the limits need. A measurement may be as old as the interval, unless
    /// `is_fresh`.
    async fn usage(&self, limits: &LaunchLimits, is_fresh: bool) -> Result<Usage, EngineError> {
        let live: Vec<Session> = self.store.sessions_to_recover().await?;
        let is_live = |it: &&Session| it.state == SessionState::Running || it.is_launching();
        let live_agents = live.iter().filter(is_live).filter(|it| it.harness != COMMAND).count() as u64;
        if !limits.needs_measuring() {
            return Ok(Usage { live_agents, ..Usage::default() });
        }
        let known = *self.launch_queue.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, usage)) = known.filter(|(at, _)| !is_fresh && at.elapsed() < MEASURE_INTERVAL) {
            return Ok(Usage { live_agents, ..usage });
        }
        let leaders: Vec<ProcessIdentity> = live.into_iter().filter_map(|it| it.process).collect();
        let (needs_memory, needs_load) = (limits.memory_bytes.is_some(), limits.load.is_some());
        let usage = blocking(move || Usage {
            live_agents,
            memory_bytes: needs_memory.then(|| memory::of_sessions(&leaders)),
            load: if needs_load { memory::load_per_core() } else { None },
        })
        .await;
        *self.launch_queue.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), usage));
        Ok(usage)
    }

    fn forget_measurement(&self) {
        *self.launch_queue.measured.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn ensure_queued(session: &Session) -> Result<(), EngineError> {
    match session.is_queued() {
        true => Ok(()),
        false => Err(EngineError::SessionNotFound(session.id.to_string())),
    }
}
