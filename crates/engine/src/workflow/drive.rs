//! Whoever drives a run: begins its steps, waits for their ends, keeps its claim alive, and stops it when somebody says so.

use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::{Agent, AgentFact, AgentState};
use coven_domain::session::{Channel, Session, SessionState};
use coven_domain::task::{Task, TaskState, WorkSize};
use coven_domain::workflow::{Progress, StepResult, WorkflowState};
use coven_domain::{SessionId, TaskId, Timestamp, WorkflowId};
use coven_holder::clock;
use coven_holder::process;
use coven_host::git::{FileChange, GitError};
use coven_store::Change;
use coven_workflow::{Definition, Next, Overdue, Setting, StepEnd, StepOver};
use tokio::sync::watch;

use super::ending::{After, SYSTEM, Settled};
use super::launch::NotLaunched;
use super::{Stop, TakenUp, with_git_unless, word};
use crate::Engine;
use crate::ending::{AFTER_GRACE, end_background, wait_until_gone};
use crate::error::EngineError;

const TRY_AGAIN: Duration = Duration::from_secs(1);
pub(super) const MAY_LIVE: &str = "its agent may still run, though it looks like something else now or cannot be ended";
const CANNOT_GO_ON: &str = "a workflow cannot go on; it is tried again";

/// Why a wait for a step is over.
enum Waited {
    /// With why it was ended before it had answered, over ACP.
    Ended(Box<Session>, Option<String>),
    Stop(Stop),
    /// The step's time is up, or that of something around it.
    TimedOut {
        overdue: Overdue,
        limit: Duration,
    },
    DaemonStops,
}

/// What is to do after a step.
enum Driven {
    GoOn,
    Over,
    /// The merge was agreed to beforehand.
    Merge(TaskId),
}

impl Engine {
    /// Sees to it that a run goes on; one that is driven already is left alone.
    pub(crate) fn drive(self: &Arc<Self>, id: WorkflowId) {
        let Some(taken) = self.runs.take_up(id) else { return };
        let engine = self.clone();
        // Ends with the run, or with the daemon: the next one takes it up.
        self.background.spawn(async move {
            engine.drive_to_end(id, taken).await;
        });
    }

    async fn drive_to_end(self: &Arc<Self>, id: WorkflowId, mut taken: TakenUp) {
        loop {
            match self.drive_on(id, &mut taken.word).await {
                Ok(Driven::GoOn) => self.forget_problem(CANNOT_GO_ON),
                Ok(Driven::Over) => return,
                Ok(Driven::Merge(task)) => {
                    // Whoever merges it takes it up anew.
                    drop(taken);
                    return self.merge_later(task);
                }
                Err(error) => {
                    tracing::error!(workflow = %id, %error, "a run cannot go on; it is tried again");
                    self.report_problem(CANNOT_GO_ON);
                    tokio::select! {
                        () = tokio::time::sleep(TRY_AGAIN) => {}
                        () = self.stopped() => return,
                    }
                }
            }
        }
    }

    /// One step further.
    async fn drive_on(
        self: &Arc<Self>,
        id: WorkflowId,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<Driven, EngineError> {
        let Some(workflow) = self.store.workflow(id).await? else { return Ok(Driven::Over) };
        if workflow.state != WorkflowState::Running || self.is_stopping() {
            return Ok(Driven::Over);
        }
        let task = self.known_task(workflow.task).await?;
        let agent = match workflow.agent {
            Some(agent) => self.store.agent(agent).await?,
            None => None,
        };
        let Some(agent) = agent.filter(|agent| !agent.is_over()) else {
            let after = self.next_step(id).await?;
            return Ok(self.follow_up(after, task.id));
        };
        let definition = match Definition::of_run(&workflow) {
            Ok(definition) => definition,
            Err(problem) => {
                self.fail_run(id, Some(agent.id), AgentFact::Failed, problem).await?;
                return Ok(Driven::Over);
            }
        };
        let asked = stop.borrow_and_update().clone();
        if let Some(asked) = asked {
            if !self.end_process(&agent).await? {
                return self.block_beside(id, &agent).await;
            }
            self.write_stop(id, &asked).await?;
            return Ok(Driven::Over);
        }
        // What is skipped or entered on the way is worked out again whenever it is needed, and comes out the same.
        let mut here = workflow.clone();
        let (folder, branch) = (self.worktree_dir(task.id), super::branch_of(task.id));
        let folder = folder.to_string_lossy();
        let setting = Setting { task: &task, worktree: &folder, branch: &branch, now: clock::now() };
        let next = definition.next(&mut here.progress, setting);
        let Next::Run(step) = next else {
            // Nothing to run from the first: what was claimed for it never runs.
            let after = self.skip_agent(id, agent.id).await?;
            return Ok(self.follow_up(after, task.id));
        };
        if agent.session.is_none() {
            return match self.launch_step(&here, &definition, step, &task, &agent).await {
                Ok(()) => Ok(Driven::GoOn),
                Err(NotLaunched::Daemon(error)) => Err(error),
                Err(NotLaunched::Step(why)) => {
                    let over = StepOver::Ended(StepResult { error: Some(why), ..StepResult::default() });
                    self.keep_place(id, &here.progress).await?;
                    let after = self.end_step(id, agent.id, AgentFact::Failed, over, None).await?;
                    Ok(self.follow_up(after, task.id))
                }
            };
        }
        self.keep_place(id, &here.progress).await?;
        let until = definition.deadline(&here.progress, agent.created_at);
        let (fact, over) = match self.wait_for_step(until, &agent, task.id, stop).await? {
            Waited::DaemonStops => return Ok(Driven::Over),
            Waited::Stop(asked) => {
                if !self.end_process(&agent).await? {
                    return self.block_beside(id, &agent).await;
                }
                self.write_stop(id, &asked).await?;
                return Ok(Driven::Over);
            }
            Waited::TimedOut { overdue, limit } => {
                if !self.end_process(&agent).await? {
                    return self.block_beside(id, &agent).await;
                }
                let why = format!("timed out after {}", spelled(limit));
                let mut result = match agent.session {
                    Some(session) => self.step_result(step, &agent, &self.session(session).await?).await,
                    None => StepResult::default(),
                };
                (result.success, result.error) = (false, Some(why.clone()));
                let over = match overdue {
                    Overdue::Step => StepOver::Ended(result),
                    Overdue::Loop(depth) => StepOver::LoopTimedOut { depth, why, result },
                    Overdue::Whole => {
                        let why = format!("the workflow {why}");
                        let after = self.fail_run(id, Some(agent.id), AgentFact::Killed, why).await?;
                        return Ok(self.follow_up(after, task.id));
                    }
                };
                (AgentFact::Killed, over)
            }
            Waited::Ended(session, refusal) => {
                if !self.surely_over(&session).await {
                    return self.block_beside(id, &agent).await;
                }
                if agent.state == AgentState::Starting {
                    self.write_agent_started(&agent, &session).await?;
                }
                let mut result = self.step_result(step, &agent, &session).await;
                let fact = match (result.success, session.state) {
                    (true, _) => AgentFact::Succeeded,
                    (false, SessionState::Killed) if refusal.is_none() => AgentFact::Killed,
                    (false, _) => AgentFact::Failed,
                };
                if let Some(reason) = refusal.filter(|_| !result.success) {
                    result.error = Some(format!("its agent stopped without an answer: {reason}"));
                }
                (fact, StepOver::Ended(result))
            }
        };
        let mut ahead = here.progress.clone();
        let leads_to_merge = definition.over(&mut ahead, over.clone()) == StepEnd::GoOn
            && matches!(definition.next(&mut ahead, setting), Next::Merge(_));
        let gathered =
            if leads_to_merge { self.gather_unless_stopped(&task, stop).await? } else { Gathered::All(None) };
        let after = match gathered {
            Gathered::All(work) => self.end_step(id, agent.id, fact, over, work).await?,
            Gathered::NotSo(why) => self.fail_run(id, Some(agent.id), fact, why).await?,
            Gathered::DaemonStops => return Ok(Driven::Over),
            Gathered::Stop(asked) => {
                self.write_stop(id, &asked).await?;
                return Ok(Driven::Over);
            }
        };
        Ok(self.follow_up(after, task.id))
    }

    fn follow_up(self: &Arc<Self>, after: After, task: TaskId) -> Driven {
        match after {
            After::GoOn => Driven::GoOn,
            After::Over => {
                self.tidy_worktree_later(task);
                Driven::Over
            }
            After::Merge => Driven::Merge(task),
        }
    }

    /// Loops that were entered and steps that were skipped stay so.
    async fn keep_place(&self, id: WorkflowId, progress: &Progress) -> Result<(), EngineError> {
        let mut tx = self.store.begin().await?;
        let Some(mut workflow) = tx.workflow(id).await? else { return Ok(()) };
        if workflow.state != WorkflowState::Running || workflow.progress == *progress {
            return Ok(());
        }
        workflow.progress = progress.clone();
        let now = clock::now();
        workflow.updated_at = now.not_before(workflow.updated_at);
        tx.record(Change::WorkflowWritten { workflow, event: "advanced" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// What the step left uncommitted belongs to what is reviewed. Returns how much there is. Git is ended once `stopping`
    /// comes back.
    pub(super) async fn gather_work(
        &self,
        task: &Task,
        stopping: impl Future,
    ) -> Result<Result<WorkSize, GitError>, EngineError> {
        let worktree = self.worktree_of(task).await?;
        if !worktree.exists() {
            return Ok(Err(GitError::Refused("its worktree is gone".to_owned())));
        }
        let message = super::merge::message(task);
        let base = task.base_commit.clone().unwrap_or_else(|| "HEAD".to_owned());
        let gathering = with_git_unless(stopping, move || {
            worktree.gather(&message)?;
            Ok(work_size(&worktree.repository.changes(&base, &worktree.branch)?))
        });
        match gathering.await {
            Ok(work) => Ok(Ok(work)),
            Err(EngineError::Git(error)) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// However long git takes, a word to stop is heard.
    async fn gather_unless_stopped(
        &self,
        task: &Task,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<Gathered, EngineError> {
        let stopping = async {
            tokio::select! {
                _ = word(stop) => {}
                () = self.stopped() => {}
            }
        };
        let gathered = self.gather_work(task, stopping).await?;
        Ok(match (gathered, stop.borrow_and_update().clone()) {
            (Ok(work), _) => Gathered::All(Some(work)),
            (Err(GitError::Stopped { .. }), Some(asked)) => Gathered::Stop(asked),
            (Err(GitError::Stopped { .. }), None) => Gathered::DaemonStops,
            (Err(error), _) => Gathered::NotSo(error.to_string()),
        })
    }

    async fn wait_for_step(
        self: &Arc<Self>,
        until: Option<(Timestamp, Duration, Overdue)>,
        agent: &Agent,
        task: TaskId,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<Waited, EngineError> {
        let Some(session) = agent.session else { return Err(EngineError::AgentNotFound(agent.id.to_string())) };
        let renew_every = (self.config.store.lease() / 3).max(Duration::from_millis(50));
        let ended = self.step_over(session);
        tokio::pin!(ended);
        loop {
            tokio::select! {
                over = &mut ended => {
                    let (session, refusal) = over?;
                    return Ok(Waited::Ended(Box::new(session), refusal));
                }
                asked = super::word(stop) => return Ok(Waited::Stop(asked)),
                (limit, overdue) = passed(until) => return Ok(Waited::TimedOut { overdue, limit }),
                () = tokio::time::sleep(renew_every) => self.renew_claim(task).await?,
                () = self.stopped() => return Ok(Waited::DaemonStops),
            }
        }
    }

    /// Waits until a step's session has nothing more to do, and is over.
    async fn step_over(self: &Arc<Self>, id: SessionId) -> Result<(Session, Option<String>), EngineError> {
        let session = self.session(id).await?;
        let mut refusal = None;
        if session.channel == Channel::Acp && !session.is_over() {
            refusal = self.turn_over(id).await;
        } else if let Some(live) = self.live_session(id) {
            live.ended().await;
        }
        Ok((self.wait_for_end(id).await?, refusal))
    }

    /// Waits until an agent over ACP has answered, then asks its session to end; gives why there was no answer.
    async fn turn_over(self: &Arc<Self>, id: SessionId) -> Option<String> {
        let live = self.live_session(id)?;
        let conversation = live.conversation.clone()?;
        let mut changes = conversation.changes();
        loop {
            changes.borrow_and_update();
            let is_answered = conversation
                .look(|state| {
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
        let stopped = conversation.look(|state| state.stop_reason.clone()).await.flatten();
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

    /// Ends whatever the agent runs and waits until it is gone; false if something of it may live on.
    pub(super) async fn end_process(self: &Arc<Self>, agent: &Agent) -> Result<bool, EngineError> {
        let Some(id) = agent.session else { return Ok(true) };
        let session = self.session(id).await?;
        if session.is_live() {
            match self.kill_session(id).await {
                Ok(_) | Err(EngineError::NotLive { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let session = self.wait_for_end(id).await?;
        Ok(self.surely_over(&session).await)
    }

    /// Nobody begins beside what may still work on the task: a human has to look.
    async fn block_beside(&self, id: WorkflowId, agent: &Agent) -> Result<Driven, EngineError> {
        let session = match agent.session {
            Some(session) => self.store.session(session).await?,
            None => None,
        };
        self.settle_agent(id, agent.id, &may_live(session.as_ref()), Settled::Blocked).await?;
        Ok(Driven::Over)
    }

    /// A harness may outlive the holder that died under it, and its children may outlive the harness. False as long as something of
    /// it may live: until that is gone, nobody else may begin.
    pub(super) async fn surely_over(&self, session: &Session) -> bool {
        if session.state == SessionState::Orphaned {
            self.end_leftovers(session).await;
        }
        // A process may take a moment to be gone after its end was written down. What looks like somebody else is not ended.
        if let Some(recorded) = &session.process {
            wait_until_gone(recorded, AFTER_GRACE).await;
        }
        !lives_on(session) && end_background(session).await
    }

    /// A living agent keeps its task.
    async fn renew_claim(&self, id: TaskId) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut task) = tx.task(id).await?.filter(|task| task.state == TaskState::InProgress) else {
            return Ok(());
        };
        task.renewed(now.after(self.config.store.lease()));
        let renewed = Change::TaskWritten { task, event: "renewed", changes: vec![], by: SYSTEM.to_owned() };
        tx.record(renewed, now).await?;
        Ok(self.commit(tx).await?)
    }
}

/// Why a task is blocked that nobody may begin.
pub(super) fn may_live(session: Option<&Session>) -> String {
    let pid = session.and_then(|session| session.process.as_ref()).map_or(0, |recorded| recorded.pid);
    format!("{MAY_LIVE}: look at pid {pid} and what it started, end that, then retry")
}

/// What was launched is still there, though its session is over: it does not look any more like what it was.
pub(super) fn lives_on(session: &Session) -> bool {
    session.process.as_ref().is_some_and(process::is_alive)
}

/// What came of putting a step's work onto the task's branch.
enum Gathered {
    /// With how much it is, where there is something to merge.
    All(Option<WorkSize>),
    /// It is for a human to say what belongs there.
    NotSo(String),
    Stop(Stop),
    DaemonStops,
}

fn work_size(files: &[FileChange]) -> WorkSize {
    let sum = |count: fn(&FileChange) -> Option<u64>| files.iter().filter_map(count).sum();
    WorkSize { files: files.len() as u64, additions: sum(|file| file.added), deletions: sum(|file| file.deleted) }
}

/// Waits for a moment; for ever if there is none.
async fn passed(until: Option<(Timestamp, Duration, Overdue)>) -> (Duration, Overdue) {
    match until {
        Some((until, limit, overdue)) => {
            tokio::time::sleep(until.since(clock::now())).await;
            (limit, overdue)
        }
        None => std::future::pending().await,
    }
}

/// `90s`, `30m`, `1h30m`: as it stands in workflow files.
fn spelled(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds == 0 {
        return format!("{}ms", time.as_millis());
    }
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect()
}
