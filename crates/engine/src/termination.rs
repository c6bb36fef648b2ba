//! Ends sessions: kill, finish, and the remaining processes of orphaned sessions.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::activity::Activity;
use coven_domain::session::{EndIntent, ProcessIdentity, Session, SessionState, SessionStateError};
use coven_holder::process;
use coven_holder::wire::{EndMode, Request};
use coven_store::StoreError;
use rustix::process::Signal;

use super::Engine;
use super::leftovers::Processes;
use crate::error::EngineError;
use crate::runtime;
use coven_holder::fault;

/// How long `kill_all` waits for a session; its holder continues to end it.
const KILL_ALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request waits for work that can continue after its answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
const MAX_GRACE: Duration = Duration::from_secs(3600);
/// How long to wait for a process after SIGKILL.
pub(super) const AFTER_GRACE: Duration = Duration::from_secs(1);
/// Timeout of the request to end. If a holder is slow, the daemon sends the same signals.
const END_REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait for the holder after the grace period.
const HOLDER_END_TIMEOUT: Duration = Duration::from_secs(5);
const DISK_FULL: &str = "the disk is full; free some space";

impl Engine {
    /// Kills a session. When this returns, the record is `killed` and the process group has its signal; SIGKILL follows
    /// after the grace period. An ACP agent gets `session/cancel` first. A launch in progress fails instead.
    pub async fn kill_session(self: &Arc<Self>, id: SessionId) -> Result<Session, EngineError> {
        if self.session(id).await?.is_queued()
            && let Some(session) = self.cancel_queued(id).await?
        {
            return Ok(session);
        }
        if self.session(id).await?.is_launching() {
            let session = self.cancel_launch(id).await?;
            if session.state != SessionState::Running {
                return Ok(session);
            }
        }
        if self.acp_session(id).is_some() {
            ensure_live(&self.session(id).await?)?;
            if let Err(error) = self.send_cancel(id, Some("cancelled by request")).await {
                tracing::info!(session = %id, %error, "cannot announce the end of the session to the agent");
            }
        }
        let kill = || {
            self.change_session(id, "killed", |session, now| {
                ensure_live(session)?;
                session.killed(now).map_err(EngineError::from)
            })
        };
        let session = match kill().await {
            // A session that fills the disk must be killable. End it before releasing the ballast, or it would fill that too.
            Err(EngineError::Store(StoreError::Full)) => {
                let session = self.session(id).await?;
                self.send_end(&session, EndMode::Kill).await;
                if let Some(recorded) = &session.process {
                    wait_until_gone(recorded, grace(&session) + AFTER_GRACE).await;
                }
                self.make_room();
                match kill().await {
                    // The session ended by itself first.
                    Err(EngineError::NotLive { .. }) => self.session(id).await?,
                    other => other?,
                }
            }
            other => other?,
        };
        fault::point("after_kill");
        self.send_end(&session, EndMode::Kill).await;
        Ok(session)
    }

    /// Releases the ballast so that a small write fits on a full disk.
    pub(crate) fn make_room(&self) {
        self.report_problem(DISK_FULL);
        if self.ballast.release() {
            tracing::warn!("the disk is full; released the ballast");
        }
    }

    /// Recreates the ballast if there is space.
    pub(crate) fn restore_ballast(&self) {
        if self.ballast.refill().is_ok() {
            self.clear_problem(DISK_FULL);
        }
    }

    /// Asks a session to end. Returns its record once it has ended, or its current record if that takes too long.
    pub async fn finish_session(self: &Arc<Self>, id: SessionId) -> Result<Session, EngineError> {
        let session = self
            .change_session(id, "finishing", |session, now| {
                ensure_live(session)?;
                session.end_requested(EndIntent::Finish, now);
                Ok::<(), EngineError>(())
            })
            .await?;
        fault::point("after_finish");
        let engine = self.clone();
        let ended = self.answer_in_time(async move {
            if let Err(error) = engine.send_cancel(id, None).await {
                tracing::info!(session = %id, %error, "cannot announce the end of the session to the agent");
            }
            engine.send_end(&session, EndMode::Finish).await;
            engine.wait_for_end(id).await
        });
        match ended.await? {
            Some(session) => Ok(session),
            None => self.session(id).await,
        }
    }

    /// Runs work that must complete even if it takes longer than a request may. Returns its result, or `None` if it
    /// continues in the background.
    pub(crate) async fn answer_in_time<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<Option<T>, EngineError> {
        // Ends by itself, or with the daemon; the next daemon resumes it from the record.
        let mut work = self.background.spawn(work);
        match tokio::time::timeout(ANSWER_TIMEOUT, &mut work).await {
            Ok(Ok(done)) => done.map(Some),
            Ok(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            Ok(Err(_)) => Err(EngineError::Stopping),
            Err(_) => {
                self.background.spawn(async move {
                    if let Ok(Err(error)) = work.await {
                        tracing::warn!(%error, "work in the background failed after its request was answered");
                    }
                });
                Ok(None)
            }
        }
    }

    /// Asks the holder to end its session. Ends the session even if the holder fails.
    pub(crate) async fn send_end(self: &Arc<Self>, session: &Session, how: EndMode) {
        Processes::of(session).wake_holder();
        let grace_ms = grace(session).as_millis() as u32;
        let sent = self.send_to_holder_within(session.id, &[Request::End { how, grace_ms }], END_REQUEST_TIMEOUT).await;
        if let Err(error) = &sent {
            tracing::info!(session = %session.id, %error, "the holder did not accept the request to end");
        }
        let (engine, session) = (self.clone(), session.clone());
        // Ends soon after the grace period, or with the daemon; the next daemon sends the request again.
        runtime::spawn(async move { engine.ensure_ended(&session, sent.is_ok()).await });
    }

    /// Signals the processes directly if the holder does not end them: the harness may have stopped its holder.
    pub(crate) async fn ensure_ended(self: &Arc<Self>, session: &Session, is_requested: bool) {
        let (id, grace) = (session.id, grace(session));
        if is_requested && tokio::time::timeout(grace + HOLDER_END_TIMEOUT, self.wait_for_end(id)).await.is_ok() {
            return;
        }
        // If the holder got the request, the grace period is over.
        let processes = Processes::of(session);
        let left = processes.end(if is_requested { Duration::ZERO } else { grace }).await;
        if !left.is_empty() {
            tracing::error!(session = %id, pids = ?left, "processes are alive after SIGKILL");
            let noted = self.change_session(id, "unended", |session, now| {
                session.not_ended(&left, now);
                Ok::<(), EngineError>(())
            });
            if let Err(error) = noted.await {
                tracing::error!(session = %id, %error, "cannot record that processes are still alive");
            }
        }
        processes.release_holder().await;
    }

    /// Waits until the record says that the session has ended or survived SIGKILL, or until the daemon stops.
    pub async fn wait_for_end(&self, id: SessionId) -> Result<Session, EngineError> {
        self.wait_for(id, &[]).await
    }

    /// Like `wait_for_end`, but also returns when the agent does one of these activities.
    pub async fn wait_for(&self, id: SessionId, activities: &[Activity]) -> Result<Session, EngineError> {
        let mut changes = self.changes();
        loop {
            // Marked as seen before the read, so that a later commit wakes this task.
            changes.borrow_and_update();
            let session = self.session(id).await?;
            if session.is_detached() {
                return Err(EngineError::SessionState { id, source: SessionStateError::NotStarted });
            }
            if session.is_over() || session.has_survivors() {
                if let Some(live) = self.live_session(id).filter(|_| session.is_over()) {
                    live.ended().await;
                }
                return Ok(session);
            }
            if session.is_live() && activities.contains(&session.activity.activity) {
                return Ok(session);
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(EngineError::Stopping) },
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        }
    }

    /// Kills every running session, including those whose holder has not answered since the daemon started.
    pub async fn kill_all(self: &Arc<Self>) {
        for id in self.queued_sessions() {
            if let Err(error) = self.cancel_queued(id).await {
                tracing::warn!(session = %id, %error, "cannot take a session off the launch queue");
            }
        }
        let running = match self.store.sessions_to_recover().await {
            Ok(unsettled) => unsettled.into_iter().filter(|it| it.is_live() || it.is_launching()).collect(),
            Err(error) => {
                tracing::error!(%error, "cannot read the sessions");
                Vec::new()
            }
        };
        for session in &running {
            if let Err(error) = self.kill_session(session.id).await {
                tracing::warn!(session = %session.id, %error, "cannot kill a session");
            }
        }
        for session in &running {
            let _ = tokio::time::timeout(KILL_ALL_TIMEOUT, self.wait_for_end(session.id)).await;
        }
    }

    /// Kills a harness that outlived its holder, if the process is the recorded one.
    pub(crate) async fn kill_orphaned_harness(&self, session: &Session) {
        let Some(recorded) = &session.process else { return };
        if process::is_alive(recorded) && process::shows(recorded.pid, &session.launch.identity) {
            self.end_processes(session).await;
        }
    }

    /// Ends the remaining processes of a session whose holder is gone.
    pub(crate) async fn end_processes(&self, session: &Session) {
        let left = Processes::of(session).end(grace(session)).await;
        if !left.is_empty() {
            tracing::error!(session = %session.id, pids = ?left, "processes are alive after their holder died and SIGKILL was sent");
        }
    }
}

/// Kills background processes of a session, so that the next agent does not share its folder with them. Returns
/// false if one of them survives.
pub(super) async fn kill_background_processes(session: &Session) -> bool {
    let Some(leader) = session.process.as_ref().map(|recorded| recorded.pid) else { return true };
    let variable = format!("{}={}", super::launch::SESSION_VARIABLE, session.id);
    let find = || {
        let variable = variable.clone();
        tokio::task::spawn_blocking(move || process::members(leader, &variable))
    };
    let Ok(members) = find().await else { return true };
    if members.is_empty() {
        return true;
    }
    tracing::info!(session = %session.id, count = members.len(), "killing background processes of a session");
    signal_each(&members, Signal::TERM);
    let until = tokio::time::Instant::now() + grace(session);
    while let Ok(members) = find().await
        && !members.is_empty()
    {
        let now = tokio::time::Instant::now();
        if now >= until + AFTER_GRACE {
            return false;
        }
        if now >= until {
            signal_each(&members, Signal::KILL);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

fn signal_each(processes: &[process::Stat], signal: Signal) {
    processes.iter().for_each(|seen| process::signal(seen, signal));
}

/// Returns the time between SIGTERM and SIGKILL.
pub(crate) fn grace(session: &Session) -> Duration {
    Duration::try_from_secs_f64(session.launch.grace_seconds).unwrap_or(MAX_GRACE).min(MAX_GRACE)
}

pub(super) async fn wait_until_gone(recorded: &ProcessIdentity, limit: Duration) {
    let until = tokio::time::Instant::now() + limit;
    while process::is_alive(recorded) && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn ensure_live(session: &Session) -> Result<(), EngineError> {
    match session.is_live() {
        true => Ok(()),
        false => {
            let state = match session.archived_at {
                Some(_) => format!("archived ({})", session.state),
                None => session.state.to_string(),
            };
            Err(EngineError::NotLive { id: session.id, state })
        }
    }
}
