//! Waits for the session of a step: for its launch, its end, an idle agent, and limits that must reset.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::activity::Activity;
use coven_domain::agent::{Agent, AgentFact, AgentState};
use coven_domain::entry::EntryKind;
use coven_domain::session::{Channel, Session, SessionState};
use coven_domain::task::TaskState;
use coven_domain::workflow::{RunProgress, StepResult, StepWait, WaitCause, WorkflowRun};
use coven_domain::{SessionId, TaskId, Timestamp, WorkflowId};
use coven_harness::limit_text;
use coven_holder::clock;
use coven_store::Change;
use coven_workflow::{EndsOn, Overdue, Step, StepActivity, StepKind, StepSignal, WorkflowDefinition};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::driver::DriveOutcome;
use super::transitions::{SYSTEM, current};
use super::{Stop, stop_requested};
use crate::Engine;
use crate::error::EngineError;

/// When a step is retried whose agent exited because of a limit and did not say when the limit resets. Doubled each time.
const FIRST_RETRY: Duration = Duration::from_secs(300);
const MAX_RETRY: Duration = Duration::from_secs(3600);
/// A limit that resets immediately is not retried in a tight loop.
const MIN_RETRY: Duration = Duration::from_secs(1);
/// Number of ledger entries that are searched for the prompt.
const PROMPT_ENTRIES: usize = 1000;

/// Why the driver stopped waiting for a step.
pub(super) enum WaitOutcome {
    /// The session ended. Over ACP, with the stop reason if the agent stopped before it had answered.
    Ended(Box<Session>, Option<String>),
    Stop(Stop),
    /// The timeout of the step, of an enclosing loop or of the whole run expired.
    TimedOut {
        overdue: Overdue,
        limit: Duration,
    },
    DaemonStops,
}

/// The step that a driver waits for.
pub(super) struct CurrentStep<'a> {
    pub workflow: WorkflowId,
    pub definition: &'a WorkflowDefinition,
    pub step: &'a Step,
    pub agent: &'a Agent,
    pub task: TaskId,
}

/// What the driver has learnt about the session of a step.
struct Seen {
    session: SessionId,
    is_started: bool,
    prompted_at: Option<Timestamp>,
    is_finishing: bool,
}

impl Engine {
    pub(super) async fn wait_for_step(
        self: &Arc<Self>,
        it: &CurrentStep<'_>,
        progress: &mut RunProgress,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<WaitOutcome, EngineError> {
        let Some(session) = it.agent.session else { return Err(EngineError::AgentNotFound(it.agent.id.to_string())) };
        let is_started = it.agent.state != AgentState::Starting;
        let mut seen = Seen { session, is_started, prompted_at: None, is_finishing: false };
        let (ended, mut renew, mut changes) = (self.step_over(session), self.renew_interval(), self.changes());
        tokio::pin!(ended);
        loop {
            // Marked as seen before the look, so that a later commit wakes this task.
            changes.borrow_and_update();
            let look_again = self.look_at_step(it, &mut seen, progress).await?;
            let until = it.definition.deadline(progress, it.agent.created_at);
            tokio::select! {
                over = &mut ended => {
                    let (session, refusal) = over?;
                    self.set_wait(it.workflow, progress, None).await?;
                    return Ok(WaitOutcome::Ended(Box::new(session), refusal));
                }
                asked = stop_requested(stop) => return Ok(WaitOutcome::Stop(asked)),
                (limit, overdue) = sleep_until_deadline(until) => return Ok(WaitOutcome::TimedOut { overdue, limit }),
                _ = renew.tick() => self.renew_claim(it.task).await?,
                changed = changes.changed() => if changed.is_err() { return Ok(WaitOutcome::DaemonStops) },
                () = sleep_until(look_again) => {}
                () = self.stopped() => return Ok(WaitOutcome::DaemonStops),
            }
        }
    }

    fn renew_interval(&self) -> tokio::time::Interval {
        let every = (self.config.store.lease() / 3).max(Duration::from_millis(50));
        let mut renew = interval_at(Instant::now() + every, every);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renew
    }

    /// Records what has changed: the launch, a limit, or an agent that is done. Returns when to look again without a change.
    async fn look_at_step(
        self: &Arc<Self>,
        it: &CurrentStep<'_>,
        seen: &mut Seen,
        progress: &mut RunProgress,
    ) -> Result<Option<Timestamp>, EngineError> {
        if !seen.is_started {
            let session = self.session(seen.session).await?;
            let wait = session.queued_launch().map(|queued| StepWait {
                cause: WaitCause::Launch,
                since: queued.since,
                until: None,
                detail: Some(queued.describe()),
            });
            self.set_wait(it.workflow, progress, wait).await?;
            if session.state == SessionState::Created {
                return Ok(None);
            }
            if session.state == SessionState::Running {
                self.write_agent_started(it.agent, &session).await?;
            }
            seen.is_started = true;
        }
        let StepKind::Agent { ends_on, .. } = it.step.kind else { return Ok(None) };
        let Some(live) = self.live_session(seen.session) else { return Ok(None) };
        let (status, worked_at) = self.current_activity(&live);
        if ends_on == EndsOn::Idle && status.activity == Activity::Idle && seen.prompted_at.is_none() {
            seen.prompted_at = self.prompted_at(seen.session).await?;
        }
        let now = clock::now();
        let prompted_at = seen.prompted_at;
        let (wait, look_again) = match (StepActivity { ends_on, prompted_at, worked_at, status: &status }).judge(now) {
            StepSignal::Limited { since, until, detail } => {
                (Some(StepWait { cause: WaitCause::Limit, since, until, detail }), until)
            }
            StepSignal::DoneAt(at) if at > now => (None, Some(at)),
            StepSignal::DoneAt(_) => {
                if !std::mem::replace(&mut seen.is_finishing, true) {
                    self.finish_idle(seen.session).await;
                }
                (None, None)
            }
            StepSignal::Running => (None, None),
        };
        self.set_wait(it.workflow, progress, wait).await?;
        Ok(look_again)
    }

    /// Ends the session of an agent that is done.
    async fn finish_idle(self: &Arc<Self>, id: SessionId) {
        tracing::info!(session = %id, "the agent of a step is idle after its prompt; ending its session");
        if let Err(error) = self.finish_session(id).await {
            tracing::info!(session = %id, %error, "a step's session ended by itself");
        }
    }

    /// Returns when a terminal agent got its prompt: at its launch, or when the prompt was typed.
    async fn prompted_at(&self, id: SessionId) -> Result<Option<Timestamp>, EngineError> {
        let session = self.session(id).await?;
        let typed = session.launch.typed.as_bytes();
        if typed.is_empty() {
            return Ok(session.launching_at);
        }
        let entries = self.store.entries(id, 0, PROMPT_ENTRIES).await?;
        // Keys typed without echo are recorded without their text.
        let is_prompt = |data: &Option<Vec<u8>>| data.as_ref().is_none_or(|data| data.starts_with(typed));
        let found = entries.iter().find(|entry| entry.kind == EntryKind::Input && is_prompt(&entry.data));
        Ok(found.map(|entry| entry.at))
    }

    /// Stores that the current step waits, or that it does no longer.
    async fn set_wait(
        &self,
        id: WorkflowId,
        progress: &mut RunProgress,
        wait: Option<StepWait>,
    ) -> Result<(), EngineError> {
        if progress.waiting == wait {
            return Ok(());
        }
        let event = if wait.is_some() { "waiting" } else { "resumed" };
        match (&mut progress.waiting, wait) {
            // The same wait, with another reason or end.
            (Some(known), Some(wait)) if known.cause == wait.cause => {
                *known = StepWait { since: known.since, ..wait };
            }
            (_, wait) => {
                progress.wait_ended(clock::now());
                progress.waiting = wait;
            }
        }
        self.save_progress(id, progress, event).await
    }

    /// Returns the wait for a step whose agent exited because of a limit; `None` if it exited for another reason.
    pub(super) async fn limited_exit(
        &self,
        step: &Step,
        session: &Session,
        result: &StepResult,
        progress: &RunProgress,
    ) -> Option<StepWait> {
        let is_agent = matches!(step.kind, StepKind::Agent { .. });
        if !is_agent || result.success || session.state != SessionState::Failed || session.exit_code.is_none() {
            return None;
        }
        let now = clock::now();
        let (detail, until) = match session.activity.activity {
            Activity::Limited => (session.activity.detail.clone(), session.activity.until),
            _ if self.is_print_step(step, session) => {
                let report = limit_text::find(&self.plain_output(session.id).await, now)?;
                (Some(coven_domain::text::one_line(&report.line, 200)), report.resets_at)
            }
            _ => return None,
        };
        let backoff = FIRST_RETRY.saturating_mul(1 << progress.limited_exits.min(10)).min(MAX_RETRY);
        let until = until.unwrap_or_else(|| now.after(backoff)).max(now.after(MIN_RETRY));
        Some(StepWait { cause: WaitCause::Limit, since: now, until: Some(until), detail })
    }

    /// Ends the agent; the step waits for the limit and is then repeated by another agent.
    pub(super) async fn write_limited_exit(
        &self,
        id: WorkflowId,
        agent: &Agent,
        wait: StepWait,
    ) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut rows) = current(&mut tx, id, Some(agent.id)).await? else { return Ok(()) };
        if let Some(mut agent) = rows.agent.take() {
            let said = wait.detail.as_deref().unwrap_or("it did not say which");
            agent.apply(AgentFact::Failed, Some(format!("the agent reached a limit: {said}")), now)?;
            tx.record(Change::AgentChanged { agent, event: "failed" }, now).await?;
        }
        rows.workflow.progress.limited_exits += 1;
        rows.workflow.progress.waiting = Some(wait);
        rows.workflow.updated_at = now.not_before(rows.workflow.updated_at);
        tx.record(Change::RunChanged { workflow: rows.workflow, event: "waiting" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Waits until the limit has reset that ended the agent of the current step.
    pub(super) async fn wait_for_reset(
        &self,
        workflow: WorkflowRun,
        until: Option<Timestamp>,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<DriveOutcome, EngineError> {
        let mut renew = self.renew_interval();
        let reset = sleep_until(Some(until.unwrap_or_else(clock::now)));
        tokio::pin!(reset);
        loop {
            tokio::select! {
                asked = stop_requested(stop) => {
                    self.write_stop(workflow.id, &asked).await?;
                    return Ok(DriveOutcome::Over);
                }
                () = &mut reset => {
                    let mut progress = workflow.progress;
                    self.set_wait(workflow.id, &mut progress, None).await?;
                    return Ok(DriveOutcome::Continue);
                }
                _ = renew.tick() => self.renew_claim(workflow.task).await?,
                () = self.stopped() => return Ok(DriveOutcome::Over),
            }
        }
    }

    /// Waits until a step's session has ended; ends an ACP session after its answer.
    async fn step_over(self: &Arc<Self>, id: SessionId) -> Result<(Session, Option<String>), EngineError> {
        let session = self.wait_for_launch(id).await?;
        let mut refusal = None;
        if session.channel == Channel::Acp && !session.is_over() {
            refusal = self.finish_after_turn(id).await;
        } else if let Some(live) = self.live_session(id) {
            live.ended().await;
        }
        Ok((self.wait_for_end(id).await?, refusal))
    }

    /// Waits until a queued session has been launched, has failed or was taken off the queue.
    async fn wait_for_launch(&self, id: SessionId) -> Result<Session, EngineError> {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let session = self.session(id).await?;
            if !session.is_queued() && !session.is_launching() {
                return Ok(session);
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(EngineError::Stopping) },
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        }
    }

    /// Waits until an ACP agent has answered, then ends its session. Returns the stop reason if the agent did not answer.
    async fn finish_after_turn(self: &Arc<Self>, id: SessionId) -> Option<String> {
        let live = self.live_session(id)?;
        let acp = live.acp.clone()?;
        let mut changes = acp.changes();
        loop {
            changes.borrow_and_update();
            let is_answered = acp
                .with_state(|state| {
                    state.is_ending()
                        || (state.stop_reason.is_some() && !state.is_turn_running() && state.queued() == 0)
                })
                .await;
            if is_answered == Some(true) {
                break;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return None },
                () = live.ended() => return None,
            }
        }
        let stopped = acp.with_state(|state| state.stop_reason.clone()).await.flatten();
        let refusal = stopped.filter(|reason| reason != "end_turn");
        let ended = match refusal {
            None => self.finish_session(id).await.map(drop),
            Some(_) => self.kill_session(id).await.map(drop),
        };
        if let Err(error) = ended {
            tracing::info!(session = %id, %error, "a step's session ended by itself");
        }
        refusal
    }

    /// Extends the claim while the agent is running.
    async fn renew_claim(&self, id: TaskId) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut task) = tx.task(id).await?.filter(|task| task.state == TaskState::InProgress) else {
            return Ok(());
        };
        task.renewed(now.after(self.config.store.lease()));
        let renewed = Change::TaskChanged { task, event: "lease_renewed", changes: vec![], by: SYSTEM.to_owned() };
        tx.record(renewed, now).await?;
        Ok(self.commit(tx).await?)
    }
}

/// Waits until the deadline, or forever if there is none.
async fn sleep_until_deadline(until: Option<(Timestamp, Duration, Overdue)>) -> (Duration, Overdue) {
    match until {
        Some((until, limit, overdue)) => {
            sleep(until.since(clock::now())).await;
            (limit, overdue)
        }
        None => std::future::pending().await,
    }
}

/// Waits until this time, or forever.
async fn sleep_until(at: Option<Timestamp>) {
    match at {
        Some(at) => sleep(at.since(clock::now())).await,
        None => std::future::pending().await,
    }
}
