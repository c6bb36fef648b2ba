//! State changes of a run: the end of a step, a stop request, recovery after a restart. Task,
//! agent and run change in one transaction.

use std::sync::Arc;

use coven_domain::agent::{Agent, AgentFact, AgentState};
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::task::{CANCELLED, Task, TaskFact, TaskState, WorkSize};
use coven_domain::workflow::{Approval, Stop, StopKind, WorkflowFact, WorkflowRun, WorkflowState};
use coven_domain::{AgentId, Timestamp, WorkflowId};
use coven_holder::clock;
use coven_host::config::NotificationKind;
use coven_store::{Change, Tx};
use coven_workflow::{EvalContext, NextStep, RunEffect, StepCompletion, StepKind, WorkflowDefinition};
use uuid::Uuid;

use super::branch_of;
use crate::Engine;
use crate::error::EngineError;
use crate::notification::{InboxNotification, Need};
use crate::task::checked_by;

/// The rows that change together.
pub(super) struct RunRows {
    pub task: Task,
    pub agent: Option<Agent>,
    pub workflow: WorkflowRun,
}

/// What the driver does after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAction {
    Continue,
    /// Merge now: the workflow does not require a review.
    Merge,
    Over,
}

impl Engine {
    /// Stores the result of a step and what follows: the next step, a merge to review, or the end of the run. `work` is
    /// the size of the changes to merge.
    pub(super) async fn end_step(
        &self,
        id: WorkflowId,
        agent: AgentId,
        fact: AgentFact,
        over: StepCompletion,
        work: Option<WorkSize>,
    ) -> Result<NextAction, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut rows) = current(&mut tx, id, Some(agent)).await? else { return Ok(NextAction::Over) };
        let definition = WorkflowDefinition::of_run(&rows.workflow).map_err(EngineError::Invalid)?;
        if let Some(agent) = &mut rows.agent {
            // An agent that never ran can only fail.
            let fact = if agent.state == AgentState::Starting { AgentFact::Failed } else { fact };
            agent.apply(fact, over.error().map(str::to_owned), now)?;
        }
        let event = agent_event(rows.agent.as_ref());
        rows.task.changes = work;
        let end = definition.complete_step(&mut rows.workflow.progress, over);
        self.advance_run(tx, rows, &definition, end, event, now).await
    }

    /// Completes an agent whose run has no step to execute.
    pub(super) async fn skip_agent(&self, id: WorkflowId, agent: AgentId) -> Result<NextAction, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut rows) = current(&mut tx, id, Some(agent)).await? else { return Ok(NextAction::Over) };
        let definition = WorkflowDefinition::of_run(&rows.workflow).map_err(EngineError::Invalid)?;
        if let Some(agent) = &mut rows.agent {
            if agent.state == AgentState::Starting {
                agent.apply(AgentFact::Started, None, now)?;
            }
            agent.apply(AgentFact::Succeeded, None, now)?;
        }
        self.advance_run(tx, rows, &definition, RunEffect::Continue, "completed", now).await
    }

    /// Advances a run whose next step has no agent yet.
    pub(super) async fn next_step(&self, id: WorkflowId) -> Result<NextAction, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(rows) = current(&mut tx, id, None).await? else { return Ok(NextAction::Over) };
        let definition = WorkflowDefinition::of_run(&rows.workflow).map_err(EngineError::Invalid)?;
        self.advance_run(tx, rows, &definition, RunEffect::Continue, "failed", now).await
    }

    /// Fails a run for a reason that the rules of its step do not cover.
    pub(super) async fn fail_run(
        &self,
        id: WorkflowId,
        agent: Option<AgentId>,
        fact: AgentFact,
        why: String,
    ) -> Result<NextAction, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut rows) = current(&mut tx, id, agent).await? else { return Ok(NextAction::Over) };
        if let Some(agent) = rows.agent.as_mut().filter(|agent| !agent.is_over()) {
            let fact = if agent.state == AgentState::Starting { AgentFact::Failed } else { fact };
            agent.apply(fact, Some(why.clone()), now)?;
        }
        let event = agent_event(rows.agent.as_ref());
        self.write_end(tx, rows, WorkflowFact::Failed, "failed", TaskFact::Blocked, why, event, now).await
    }

    async fn advance_run(
        &self,
        mut tx: Box<dyn Tx>,
        mut rows: RunRows,
        definition: &WorkflowDefinition,
        end: RunEffect,
        agent_event: &'static str,
        now: Timestamp,
    ) -> Result<NextAction, EngineError> {
        let worktree = self.worktree_dir(rows.task.id).to_string_lossy().into_owned();
        let branch = branch_of(rows.task.id);
        let next = match end {
            RunEffect::Continue => {
                let setting = EvalContext { task: &rows.task, worktree: &worktree, branch: &branch, now };
                definition.next(&mut rows.workflow.progress, setting)
            }
            RunEffect::Blocked(why) => NextStep::Blocked(why),
            RunEffect::Failed(why) => NextStep::Failed(why),
        };
        match next {
            NextStep::Run(step) => {
                write_agent(&mut tx, &rows, agent_event, now).await?;
                let id = AgentId::from_uuid(Uuid::new_v4());
                let mut agent = Agent::new(id, rows.task.id, rows.workflow.id, Some(&step.name), now);
                (agent.worktree, agent.branch) = (Some(worktree), Some(branch));
                rows.workflow.agent = Some(id);
                rows.workflow.apply(WorkflowFact::Stepped, None, now)?;
                rows.task.renewed(now.after(self.config.store.lease()));
                tx.record(Change::AgentChanged { agent, event: "starting" }, now).await?;
                tx.record(Change::RunChanged { workflow: rows.workflow, event: "step.started" }, now).await?;
                let renewed =
                    Change::TaskChanged { task: rows.task, event: "lease_renewed", changes: vec![], by: SYSTEM.into() };
                tx.record(renewed, now).await?;
                self.commit(tx).await?;
                Ok(NextAction::Continue)
            }
            NextStep::Merge(step) => {
                let StepKind::Merge { needs_review, .. } = step.kind else { return Ok(NextAction::Over) };
                self.write_merge_awaited(tx, rows, needs_review, agent_event, now).await
            }
            NextStep::Done => {
                write_agent(&mut tx, &rows, agent_event, now).await?;
                rows.workflow.apply(WorkflowFact::Completed, None, now)?;
                let changes = rows.task.apply(TaskFact::Closed, Some("the workflow completed"), now)?;
                tx.record(Change::RunChanged { workflow: rows.workflow, event: "completed" }, now).await?;
                let closed = Change::TaskChanged { task: rows.task, event: "closed", changes, by: SYSTEM.into() };
                tx.record(closed, now).await?;
                coven_holder::fault::point("before_complete");
                self.commit(tx).await?;
                coven_holder::fault::point("after_complete");
                Ok(NextAction::Over)
            }
            NextStep::Blocked(why) => {
                self.write_end(tx, rows, WorkflowFact::Blocked, "blocked", TaskFact::Blocked, why, agent_event, now)
                    .await
            }
            NextStep::Failed(why) => {
                self.write_end(tx, rows, WorkflowFact::Failed, "failed", TaskFact::Blocked, why, agent_event, now).await
            }
        }
    }

    async fn write_merge_awaited(
        &self,
        mut tx: Box<dyn Tx>,
        mut rows: RunRows,
        needs_review: bool,
        agent_event: &'static str,
        now: Timestamp,
    ) -> Result<NextAction, EngineError> {
        write_agent(&mut tx, &rows, agent_event, now).await?;
        rows.workflow.apply(WorkflowFact::MergeAwaited, None, now)?;
        let whole = WorkflowDefinition::of_run(&rows.workflow).map_err(EngineError::Invalid)?.timeout;
        let since = rows.workflow.progress.started_at;
        rows.workflow.progress.remaining_timeout = whole.map(|limit| limit.saturating_sub(now.since(since)));
        let why = if needs_review { "the work is ready for review" } else { "the work is about to be merged" };
        let changes = rows.task.apply(TaskFact::WorkDone, Some(why), now)?;
        rows.workflow.progress.approval = (!needs_review).then(|| Approval { by: "workflow".to_owned(), at: now });
        let (id, title) = (rows.task.id, titled(&rows.task));
        tx.record(Change::RunChanged { workflow: rows.workflow, event: "merge_pending" }, now).await?;
        let waits = Change::TaskChanged { task: rows.task, event: "pending_merge", changes, by: SYSTEM.into() };
        tx.record(waits, now).await?;
        self.commit(tx).await?;
        if needs_review {
            self.notify(InboxNotification {
                need: Need::Task(id),
                kind: NotificationKind::Review,
                session: None,
                title: format!("to review: {title}"),
            });
        }
        Ok(if needs_review { NextAction::Over } else { NextAction::Merge })
    }

    #[expect(clippy::too_many_arguments, reason = "all values of one transaction")]
    async fn write_end(
        &self,
        mut tx: Box<dyn Tx>,
        mut rows: RunRows,
        fact: WorkflowFact,
        event: &'static str,
        task_fact: TaskFact,
        why: String,
        agent_event: &'static str,
        now: Timestamp,
    ) -> Result<NextAction, EngineError> {
        write_agent(&mut tx, &rows, agent_event, now).await?;
        rows.workflow.apply(fact, Some(why.clone()), now)?;
        let changes = rows.task.apply(task_fact, Some(&why), now)?;
        let (id, title) = (rows.task.id, rows.task.title.clone());
        let (state, task_event) = (rows.task.state, task_event(rows.task.state));
        tx.record(Change::RunChanged { workflow: rows.workflow, event }, now).await?;
        let ended = Change::TaskChanged { task: rows.task, event: task_event, changes, by: SYSTEM.into() };
        tx.record(ended, now).await?;
        self.commit(tx).await?;
        if state == TaskState::Blocked {
            self.notify(InboxNotification {
                need: Need::Task(id),
                kind: NotificationKind::Blocked,
                session: None,
                title: format!("blocked: {title}: {why}"),
            });
        }
        Ok(NextAction::Over)
    }

    /// Applies the recovery of an agent whose process is gone.
    pub(super) async fn apply_recovery(
        &self,
        id: WorkflowId,
        agent: AgentId,
        error: &str,
        then: RecoveryAction,
    ) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut rows) = current(&mut tx, id, Some(agent)).await? else { return Ok(()) };
        if let Some(agent) = &mut rows.agent {
            agent.apply(AgentFact::Failed, Some(error.to_owned()), now)?;
        }
        let why = error.to_owned();
        match then {
            RecoveryAction::Blocked => {
                self.write_end(tx, rows, WorkflowFact::Blocked, "blocked", TaskFact::Blocked, why, "failed", now)
                    .await?;
            }
            RecoveryAction::Reopened => {
                self.write_end(tx, rows, WorkflowFact::Failed, "failed", TaskFact::Released, why, "failed", now)
                    .await?;
            }
            RecoveryAction::ToReview(work) => {
                rows.task.changes = Some(work);
                // The position stays: if the work is rejected and the run retried, the step that died is repeated.
                self.write_merge_awaited(tx, rows, true, "failed", now).await?;
            }
        }
        Ok(())
    }

    /// Cancels a run. Returns it once its process is gone, or its current state if that takes too long.
    pub async fn cancel_workflow(self: &Arc<Self>, text: &str, by: Option<String>) -> Result<WorkflowRun, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_workflow(text).await?.id);
        self.stop_run(id, Stop { kind: StopKind::Cancel, by }).await?;
        self.find_workflow(&id.to_string()).await
    }

    /// Ends a run on request: its process first, so that no other agent starts on the task beside it. If that takes too long,
    /// it continues in the background; the stored request makes the next daemon continue it.
    pub async fn stop_run(self: &Arc<Self>, id: WorkflowId, stop: Stop) -> Result<(), EngineError> {
        if !self.runs.is_active(id) {
            return self.write_stop(id, &stop).await;
        }
        self.keep_stop(id, &stop).await?;
        coven_holder::fault::point("after_stop_kept");
        let engine = self.clone();
        self.answer_in_time(async move { engine.end_run(id, stop).await }).await.map(drop)
    }

    /// Stores the request with its event.
    async fn keep_stop(&self, id: WorkflowId, stop: &Stop) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut workflow) = tx.workflow(id).await? else { return Ok(()) };
        let has_process = matches!(workflow.state, WorkflowState::Running | WorkflowState::PendingMerge);
        if !has_process || workflow.progress.stop.is_some() {
            return Ok(());
        }
        workflow.progress.stop = Some(stop.clone());
        workflow.updated_at = now.not_before(workflow.updated_at);
        tx.record(Change::RunChanged { workflow, event: "stopping" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Waits until the driver has ended the run, and ends it here if there is none.
    pub(super) async fn end_run(self: &Arc<Self>, id: WorkflowId, stop: Stop) -> Result<(), EngineError> {
        let Some(run) = self.store.workflow(id).await? else { return Ok(()) };
        if let Some(driver) = self.runs.request_stop(id, &stop) {
            // The driver drops the other end when it is done.
            tokio::select! {
                () = driver.closed() => {}
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        }
        let now = self.store.workflow(id).await?.map(|workflow| workflow.state);
        // Only the merge was stopped; the work is unchanged and still needs its review.
        let is_unmerged = run.state == WorkflowState::PendingMerge
            && stop.kind == StopKind::Cancel
            && now == Some(WorkflowState::PendingMerge);
        if !is_unmerged && now.is_some_and(|state| state != stop.kind.leads_to()) {
            self.write_stop(id, &stop).await?;
        }
        if matches!(stop.kind, StopKind::Close(_)) {
            self.spawn_worktree_cleanup(run.task);
        }
        Ok(())
    }

    pub(super) async fn write_stop(&self, id: WorkflowId, stop: &Stop) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut workflow) = tx.workflow(id).await? else { return Ok(()) };
        let Some(mut task) = tx.task(workflow.task).await? else { return Ok(()) };
        let (fact, event) = match &stop.kind {
            StopKind::Block(_) => (WorkflowFact::Blocked, "blocked"),
            StopKind::Cancel | StopKind::Release | StopKind::Close(_) => (WorkflowFact::Cancelled, "cancelled"),
        };
        let why = match &stop.kind {
            StopKind::Block(reason) | StopKind::Close(reason) => reason.clone(),
            StopKind::Cancel => Some(CANCELLED.to_owned()),
            StopKind::Release => None,
        };
        if workflow.state == WorkflowState::PendingMerge && workflow.progress.approval.is_some() {
            if self.runs.is_active(id) {
                return Err(EngineError::BeingMerged(task.id));
            }
            workflow.progress.approval = None;
        }
        // Only an explicit cancel of this run fails if the run has already ended.
        if stop.kind == StopKind::Cancel || workflow.state.after(fact).is_ok() {
            workflow.apply(fact, why.clone(), now)?;
            tx.record(Change::RunChanged { workflow, event }, now).await?;
        }
        if let Some(mut agent) = tx.live_agent(task.id).await? {
            let fact = if agent.state == AgentState::Starting { AgentFact::Failed } else { AgentFact::Killed };
            agent.apply(fact, Some(format!("ended by {}", stop.by)), now)?;
            let event = agent_event(Some(&agent));
            tx.record(Change::AgentChanged { agent, event }, now).await?;
        }
        let fact = match (&stop.kind, task.state) {
            (StopKind::Cancel, TaskState::PendingMerge) => Some(TaskFact::Rejected),
            (StopKind::Cancel, TaskState::InProgress) | (StopKind::Release, _) => Some(TaskFact::Released),
            (StopKind::Cancel, TaskState::Open | TaskState::Blocked | TaskState::Closed) => None,
            (StopKind::Block(_), _) => Some(TaskFact::Blocked),
            (StopKind::Close(_), _) => Some(TaskFact::Closed),
        };
        if let Some(fact) = fact {
            let changes = task.apply(fact, why.as_deref(), now)?;
            let event = task_event(task.state);
            tx.record(Change::TaskChanged { task, event, changes, by: stop.by.clone() }, now).await?;
        }
        Ok(self.commit(tx).await?)
    }
}

/// New state of a task whose agent is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecoveryAction {
    Blocked,
    Reopened,
    ToReview(WorkSize),
}

/// Returns a task's title with the size of its changes, if known.
pub fn titled(task: &Task) -> String {
    match task.changes {
        Some(changes) => format!("{} ({changes})", task.title),
        None => task.title.clone(),
    }
}

/// Actor recorded for changes that the daemon makes on its own.
pub(super) const SYSTEM: &str = "system";

/// Returns a running run with its task and agent; `None` if the run has ended or `agent` is not its current agent.
pub(super) async fn current(
    tx: &mut Box<dyn Tx>,
    id: WorkflowId,
    agent: Option<AgentId>,
) -> Result<Option<RunRows>, EngineError> {
    let Some(workflow) = tx.workflow(id).await?.filter(|it| it.state == WorkflowState::Running) else {
        return Ok(None);
    };
    let Some(task) = tx.task(workflow.task).await? else { return Ok(None) };
    let at_work = match workflow.agent {
        Some(id) => tx.agent(id).await?.filter(|agent| !agent.is_over()),
        None => None,
    };
    match agent {
        Some(named) if at_work.as_ref().map(|it| it.id) != Some(named) => Ok(None),
        _ => Ok(Some(RunRows { task, agent: at_work, workflow })),
    }
}

async fn write_agent(
    tx: &mut Box<dyn Tx>,
    rows: &RunRows,
    event: &'static str,
    now: Timestamp,
) -> Result<(), EngineError> {
    if let Some(agent) = &rows.agent {
        tx.record(Change::AgentChanged { agent: agent.clone(), event }, now).await?;
    }
    Ok(())
}

const fn agent_event(agent: Option<&Agent>) -> &'static str {
    match agent {
        Some(agent) => agent.state.as_str(),
        None => "failed",
    }
}

const fn task_event(state: TaskState) -> &'static str {
    match state {
        TaskState::Open => "released",
        TaskState::InProgress => "claimed",
        TaskState::PendingMerge => "pending_merge",
        TaskState::Blocked => "blocked",
        TaskState::Closed => "closed",
    }
}

#[cfg(test)]
#[path = "transitions_tests.rs"]
mod tests;
