//! The run driver: starts steps, waits for them, renews the claim and handles stop requests.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::{Agent, AgentFact, AgentState};
use coven_domain::session::{Session, SessionState};
use coven_domain::task::{Task, WorkSize};
use coven_domain::workflow::{RunProgress, StepResult, WaitCause, WorkflowState};
use coven_domain::{TaskId, WorkflowId};
use coven_holder::clock;
use coven_holder::process;
use coven_host::git::{FileChange, GitError};
use coven_store::Change;
use coven_workflow::{EvalContext, NextStep, Overdue, RunEffect, StepCompletion, WorkflowDefinition};
use tokio::sync::watch;

use super::launch::NotLaunched;
use super::step_wait::{CurrentStep, WaitOutcome};
use super::transitions::{NextAction, RecoveryAction};
use super::{RunGuard, Stop, stop_requested, with_git_unless};
use crate::Engine;
use crate::error::EngineError;
use crate::termination::{AFTER_GRACE, kill_background_processes, wait_until_gone};

const RETRY_DELAY: Duration = Duration::from_secs(1);
pub(super) const LIVE_PROCESS: &str =
    "the agent's process may still be running: it could not be killed, or its command line changed";
const RUN_STALLED: &str = "a workflow run cannot continue; the daemon retries";

/// What the driver does after a step.
pub(super) enum DriveOutcome {
    Continue,
    Over,
    /// The workflow does not require a review before the merge.
    Merge(TaskId),
}

impl Engine {
    /// Starts a driver for a run, unless the run has one.
    pub(crate) fn drive(self: &Arc<Self>, id: WorkflowId) {
        let Some(guard) = self.runs.try_acquire(id) else { return };
        let engine = self.clone();
        // Ends with the run or the daemon; the next daemon resumes the run.
        self.background.spawn(async move {
            engine.drive_to_end(id, guard).await;
        });
    }

    async fn drive_to_end(self: &Arc<Self>, id: WorkflowId, mut guard: RunGuard) {
        loop {
            match self.drive_one_step(id, &mut guard.stop).await {
                Ok(DriveOutcome::Continue) => self.clear_problem(RUN_STALLED),
                Ok(DriveOutcome::Over) => return,
                Ok(DriveOutcome::Merge(task)) => {
                    // The merger acquires its own guard.
                    drop(guard);
                    return self.spawn_merge(task);
                }
                Err(error) => {
                    tracing::error!(workflow = %id, %error, "a run cannot continue; retrying");
                    self.report_problem(RUN_STALLED);
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_DELAY) => {}
                        () = self.stopped() => return,
                    }
                }
            }
        }
    }

    /// Starts the current step, or waits for it and stores its result.
    async fn drive_one_step(
        self: &Arc<Self>,
        id: WorkflowId,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<DriveOutcome, EngineError> {
        let Some(workflow) = self.store.workflow(id).await? else { return Ok(DriveOutcome::Over) };
        if workflow.state != WorkflowState::Running || self.is_stopping() {
            return Ok(DriveOutcome::Over);
        }
        let task = self.known_task(workflow.task).await?;
        let agent = match workflow.agent {
            Some(agent) => self.store.agent(agent).await?,
            None => None,
        };
        let Some(agent) = agent.filter(|agent| !agent.is_over()) else {
            if let Some(wait) = workflow.progress.waiting.clone().filter(|wait| wait.cause == WaitCause::Limit) {
                return self.wait_for_reset(workflow, wait.until, stop).await;
            }
            let after = self.next_step(id).await?;
            return Ok(self.next_drive_outcome(after, task.id));
        };
        let definition = match WorkflowDefinition::of_run(&workflow) {
            Ok(definition) => definition,
            Err(problem) => {
                self.fail_run(id, Some(agent.id), AgentFact::Failed, problem).await?;
                return Ok(DriveOutcome::Over);
            }
        };
        let asked = stop.borrow_and_update().clone();
        if let Some(asked) = asked {
            if !self.end_process(&agent).await? {
                return self.block_for_live_process(id, &agent).await;
            }
            self.write_stop(id, &asked).await?;
            return Ok(DriveOutcome::Over);
        }
        // Computed on a copy: skipped steps and entered loops are derived again, with the same result, whenever needed.
        let mut here = workflow.clone();
        let (folder, branch) = (self.worktree_dir(task.id), super::branch_of(task.id));
        let folder = folder.to_string_lossy();
        let setting = EvalContext { task: &task, worktree: &folder, branch: &branch, now: clock::now() };
        let next = definition.next(&mut here.progress, setting);
        let NextStep::Run(step) = next else {
            // No step to run: the agent of the claim is never launched.
            let after = self.skip_agent(id, agent.id).await?;
            return Ok(self.next_drive_outcome(after, task.id));
        };
        if agent.session.is_none() {
            return match self.launch_step(&here, &definition, step, &task, &agent).await {
                Ok(()) => Ok(DriveOutcome::Continue),
                Err(NotLaunched::Daemon(error)) => Err(error),
                Err(NotLaunched::Step(why)) => {
                    let over = StepCompletion::Ended(StepResult { error: Some(why), ..StepResult::default() });
                    self.save_progress(id, &here.progress, "advanced").await?;
                    let after = self.end_step(id, agent.id, AgentFact::Failed, over, None).await?;
                    Ok(self.next_drive_outcome(after, task.id))
                }
            };
        }
        self.save_progress(id, &here.progress, "advanced").await?;
        let current = CurrentStep { workflow: id, definition: &definition, step, agent: &agent, task: task.id };
        let (fact, over) = match self.wait_for_step(&current, &mut here.progress, stop).await? {
            WaitOutcome::DaemonStops => return Ok(DriveOutcome::Over),
            WaitOutcome::Stop(asked) => {
                if !self.end_process(&agent).await? {
                    return self.block_for_live_process(id, &agent).await;
                }
                self.write_stop(id, &asked).await?;
                return Ok(DriveOutcome::Over);
            }
            WaitOutcome::TimedOut { overdue, limit } => {
                if !self.end_process(&agent).await? {
                    return self.block_for_live_process(id, &agent).await;
                }
                let why = format!("timed out after {}", format_duration(limit));
                let mut result = match agent.session {
                    Some(session) => self.step_result(step, &agent, &self.session(session).await?).await,
                    None => StepResult::default(),
                };
                (result.success, result.error) = (false, Some(why.clone()));
                let over = match overdue {
                    Overdue::Step => StepCompletion::Ended(result),
                    Overdue::Loop(depth) => StepCompletion::LoopTimedOut { depth, why, result },
                    Overdue::Whole => {
                        let why = format!("the workflow {why}");
                        let after = self.fail_run(id, Some(agent.id), AgentFact::Killed, why).await?;
                        return Ok(self.next_drive_outcome(after, task.id));
                    }
                };
                (AgentFact::Killed, over)
            }
            WaitOutcome::Ended(session, refusal) => {
                if !self.is_fully_stopped(&session).await {
                    return self.block_for_live_process(id, &agent).await;
                }
                if agent.state == AgentState::Starting {
                    self.write_agent_started(&agent, &session).await?;
                }
                let mut result = self.step_result(step, &agent, &session).await;
                if let Some(wait) = self.limited_exit(step, &session, &result, &here.progress).await {
                    self.write_limited_exit(id, &agent, wait).await?;
                    return Ok(DriveOutcome::Continue);
                }
                let fact = match (result.success, session.state) {
                    (true, _) => AgentFact::Succeeded,
                    (false, SessionState::Killed) if refusal.is_none() => AgentFact::Killed,
                    (false, _) => AgentFact::Failed,
                };
                if let Some(reason) = refusal.filter(|_| !result.success) {
                    result.error = Some(format!("the agent stopped without an answer: {reason}"));
                }
                (fact, StepCompletion::Ended(result))
            }
        };
        let mut ahead = here.progress.clone();
        let leads_to_merge = definition.complete_step(&mut ahead, over.clone()) == RunEffect::Continue
            && matches!(definition.next(&mut ahead, setting), NextStep::Merge(_));
        let collected =
            if leads_to_merge { self.collect_unless_stopped(&task, stop).await? } else { CollectOutcome::All(None) };
        let after = match collected {
            CollectOutcome::All(work) => self.end_step(id, agent.id, fact, over, work).await?,
            CollectOutcome::NeedsHuman(why) => self.fail_run(id, Some(agent.id), fact, why).await?,
            CollectOutcome::DaemonStops => return Ok(DriveOutcome::Over),
            CollectOutcome::Stop(asked) => {
                self.write_stop(id, &asked).await?;
                return Ok(DriveOutcome::Over);
            }
        };
        Ok(self.next_drive_outcome(after, task.id))
    }

    fn next_drive_outcome(self: &Arc<Self>, next: NextAction, task: TaskId) -> DriveOutcome {
        match next {
            NextAction::Continue => DriveOutcome::Continue,
            NextAction::Over => {
                self.spawn_worktree_cleanup(task);
                DriveOutcome::Over
            }
            NextAction::Merge => DriveOutcome::Merge(task),
        }
    }

    /// Stores the run's progress: entered loops, skipped steps and waits.
    pub(super) async fn save_progress(
        &self,
        id: WorkflowId,
        progress: &RunProgress,
        event: &'static str,
    ) -> Result<(), EngineError> {
        let mut tx = self.store.begin().await?;
        let Some(mut workflow) = tx.workflow(id).await? else { return Ok(()) };
        // A request to stop may have come since `progress` was read.
        let progress = RunProgress { stop: workflow.progress.stop.clone(), ..progress.clone() };
        if workflow.state != WorkflowState::Running || workflow.progress == progress {
            return Ok(());
        }
        workflow.progress = progress;
        let now = clock::now();
        workflow.updated_at = now.not_before(workflow.updated_at);
        tx.record(Change::RunChanged { workflow, event }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Commits the step's uncommitted changes to the task branch and returns the size of the branch's changes. Kills
    /// git when `stopping` completes.
    pub(super) async fn collect_work(
        &self,
        task: &Task,
        stopping: impl Future,
    ) -> Result<Result<WorkSize, GitError>, EngineError> {
        let worktree = self.worktree_of(task).await?;
        if !worktree.exists() {
            return Ok(Err(GitError::Refused("the task's worktree is gone".to_owned())));
        }
        let message = super::merge::message(task);
        let base = task.base_commit.clone().unwrap_or_else(|| "HEAD".to_owned());
        let gathering = with_git_unless(stopping, move || {
            worktree.collect_onto_branch(&message)?;
            Ok(work_size(&worktree.repository.changes(&base, &worktree.branch)?))
        });
        match gathering.await {
            Ok(work) => Ok(Ok(work)),
            Err(EngineError::Git(error)) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Collects the work, but aborts when the run or the daemon is asked to stop.
    async fn collect_unless_stopped(
        &self,
        task: &Task,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<CollectOutcome, EngineError> {
        let stopping = async {
            tokio::select! {
                _ = stop_requested(stop) => {}
                () = self.stopped() => {}
            }
        };
        let collected = self.collect_work(task, stopping).await?;
        Ok(match (collected, stop.borrow_and_update().clone()) {
            (Ok(work), _) => CollectOutcome::All(Some(work)),
            (Err(GitError::Stopped { .. }), Some(asked)) => CollectOutcome::Stop(asked),
            (Err(GitError::Stopped { .. }), None) => CollectOutcome::DaemonStops,
            (Err(error), _) => CollectOutcome::NeedsHuman(error.to_string()),
        })
    }

    /// Ends the agent's processes and waits for them. Returns false if one of them may still be running.
    pub(super) async fn end_process(self: &Arc<Self>, agent: &Agent) -> Result<bool, EngineError> {
        let Some(id) = agent.session else { return Ok(true) };
        let session = self.session(id).await?;
        if session.is_live() || session.is_queued() {
            match self.kill_session(id).await {
                Ok(_) | Err(EngineError::NotLive { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let session = self.wait_for_end(id).await?;
        Ok(self.is_fully_stopped(&session).await)
    }

    /// Blocks the task: its old process may still be running, so a human must check first.
    async fn block_for_live_process(&self, id: WorkflowId, agent: &Agent) -> Result<DriveOutcome, EngineError> {
        let session = match agent.session {
            Some(session) => self.store.session(session).await?,
            None => None,
        };
        self.apply_recovery(id, agent.id, &live_process_message(session.as_ref()), RecoveryAction::Blocked).await?;
        Ok(DriveOutcome::Over)
    }

    /// Ends surviving processes of an ended session: a harness may outlive its holder, and its children may outlive the
    /// harness. Returns false if a process may still be running; no other agent may start on the task until it is gone.
    pub(super) async fn is_fully_stopped(&self, session: &Session) -> bool {
        if session.state == SessionState::Orphaned {
            self.kill_orphaned_harness(session).await;
        }
        // A process may exist for a moment after its end was recorded. It is
        // not killed if its command line has changed.
        if let Some(recorded) = &session.process {
            wait_until_gone(recorded, AFTER_GRACE).await;
        }
        !is_process_alive(session) && kill_background_processes(session).await
    }
}

/// Returns the reason for blocking a task whose old process may still be running.
pub(super) fn live_process_message(session: Option<&Session>) -> String {
    let pid = session.and_then(|session| session.process.as_ref()).map_or(0, |recorded| recorded.pid);
    format!("{LIVE_PROCESS}; check pid {pid} and its children, end them, then retry")
}

/// Reports whether the launched process still exists after its session ended (it may have changed its command line).
pub(super) fn is_process_alive(session: &Session) -> bool {
    session.process.as_ref().is_some_and(process::is_alive)
}

/// Outcome of committing a step's work to the task branch.
enum CollectOutcome {
    /// Everything is committed; with the size of the changes if the run leads to a merge.
    All(Option<WorkSize>),
    /// Git refused, with the reason.
    NeedsHuman(String),
    Stop(Stop),
    DaemonStops,
}

pub(super) fn work_size(files: &[FileChange]) -> WorkSize {
    let sum = |count: fn(&FileChange) -> Option<u64>| files.iter().filter_map(count).sum();
    WorkSize { files: files.len() as u64, additions: sum(|file| file.added), deletions: sum(|file| file.deleted) }
}

/// Formats a duration as in workflow files: `90s`, `30m`, `1h30m`.
fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds == 0 {
        return format!("{}ms", time.as_millis());
    }
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect()
}
