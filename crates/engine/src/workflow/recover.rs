//! Recovers tasks in progress when the daemon starts, by the recovery table in `domain`.

use std::sync::Arc;

use coven_domain::agent::{Agent, AgentFact, AgentState};
use coven_domain::query::{AgentQuery, WorkflowQuery};
use coven_domain::recovery::{AgentFinding, AgentVerdict, WorktreeFinding, agent_verdict};
use coven_domain::session::{Session, SessionState};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::{WorkflowRun, WorkflowState};
use coven_holder::clock;
use coven_host::git::GitError;
use coven_store::Change;
use coven_workflow::{StepKind, WorkflowDefinition};

use super::driver::{LIVE_PROCESS, live_process_message};
use super::launch::failure;
use super::merge::NotMerged;
use super::transitions::RecoveryAction;
use super::with_git;
use crate::Engine;
use crate::error::EngineError;

const AWAITS_REVIEW: &str = "daemon restarted and the agent was gone; its commits are ready for review";

const WORK_NOT_COLLECTED: &str = "daemon restarted and the changes in the worktree cannot be committed for review";

/// Number of agents of an earlier daemon by recovery outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveredAgents {
    pub reattached: usize,
    pub went_on: usize,
    pub blocked: usize,
    pub reopened: usize,
    pub to_review: usize,
}

/// Recovers all live agents. Runs after session recovery, which finds out which processes are alive. A failure is
/// logged and does not affect other agents.
pub async fn recover(engine: &Arc<Engine>) -> Result<RecoveredAgents, EngineError> {
    let mut recovered = RecoveredAgents::default();
    for agent in engine.store.agents(AgentQuery::Live, None, usize::MAX).await?.items {
        let id = agent.id;
        match engine.recover_agent(agent).await {
            Ok(AgentVerdict::Reattach) => recovered.reattached += 1,
            Ok(AgentVerdict::AdvanceRun) => recovered.went_on += 1,
            Ok(AgentVerdict::FailAndBlock(_)) => recovered.blocked += 1,
            Ok(AgentVerdict::FailAndReopen(_)) => recovered.reopened += 1,
            Ok(AgentVerdict::AwaitMerge) => recovered.to_review += 1,
            Ok(AgentVerdict::Leave) => {}
            Err(error) => tracing::error!(agent = %id, %error, "cannot recover an agent"),
        }
    }
    let limit = usize::MAX >> 1;
    let states = vec![WorkflowState::Running, WorkflowState::PendingMerge];
    let unfinished = WorkflowQuery { states, limit, ..WorkflowQuery::default() };
    for workflow in engine.store.workflows(&unfinished).await?.items {
        engine.resume_run(workflow).await?;
    }
    engine.fail_interrupted_operations().await?;
    engine.resume_approvals().await?;
    Ok(recovered)
}

impl Engine {
    /// Drives a run that is running, and ends a run that an earlier daemon was asked to end.
    async fn resume_run(self: &Arc<Self>, workflow: WorkflowRun) -> Result<(), EngineError> {
        let (id, stop) = (workflow.id, workflow.progress.stop);
        match (workflow.state, stop) {
            (WorkflowState::PendingMerge, Some(stop)) => {
                self.write_not_merged(workflow.task, &NotMerged::Stopped { by: stop.by }.to_string()).await
            }
            (WorkflowState::Running, stop) => {
                self.drive(id);
                if let Some(stop) = stop {
                    // Before the driver reads the run, so that it starts nothing.
                    self.runs.request_stop(id, &stop);
                    let engine = self.clone();
                    // Ends with the run, or with the daemon; the next daemon finds the stored request.
                    self.background.spawn(async move {
                        if let Err(error) = engine.end_run(id, stop).await {
                            tracing::error!(workflow = %id, %error, "cannot end a run");
                        }
                    });
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Looks at one agent that is recorded as starting or running and does what the table says.
    pub(crate) async fn recover_agent(self: &Arc<Self>, agent: Agent) -> Result<AgentVerdict, EngineError> {
        let task = self.known_task(agent.task).await?;
        let workflow = match agent.workflow {
            Some(id) => self.store.workflow(id).await?,
            None => None,
        };
        let session = match agent.session {
            Some(id) => self.store.session(id).await?,
            None => None,
        };
        let Some(workflow) = workflow.filter(|it| it.state == WorkflowState::Running && it.agent == Some(agent.id))
        else {
            // A merge check, or a leftover of an ended run.
            if session.as_ref().is_some_and(Session::is_live) {
                self.end_process(&agent).await?;
            }
            self.end_agent(agent.id, AgentFact::Failed, Some("daemon restarted".to_owned())).await?;
            return Ok(AgentVerdict::Leave);
        };
        // The driver of the run continues to end its process.
        if workflow.progress.stop.is_some() {
            return Ok(AgentVerdict::Leave);
        }
        let found = finding(session.as_ref());
        if let Some(session) = session.as_ref().filter(|_| found == AgentFinding::Dead)
            && !self.is_fully_stopped(session).await
        {
            tracing::warn!(
                agent = %agent.id, task = %task.id, session = %session.id,
                "a process of the agent may still be running"
            );
            self.apply_recovery(workflow.id, agent.id, &live_process_message(Some(session)), RecoveryAction::Blocked)
                .await?;
            return Ok(AgentVerdict::FailAndBlock(LIVE_PROCESS));
        }
        let is_script = is_script(&workflow, &agent);
        // The exit code of a script is the result of its step. An agent may have left work to review.
        if is_script && found == AgentFinding::Dead && session.as_ref().is_some_and(|it| it.exit_code.is_some()) {
            self.mark_reattached(&agent, session.as_ref()).await?;
            return Ok(AgentVerdict::AdvanceRun);
        }
        let worktree = match found {
            AgentFinding::Lives | AgentFinding::Succeeded => WorktreeFinding::Clean,
            AgentFinding::Dead => self.inspect_worktree(&task).await?,
        };
        let verdict = agent_verdict(agent.state, found, worktree);
        tracing::info!(agent = %agent.id, task = %task.id, ?found, ?worktree, ?verdict, "recovering an agent");
        match verdict {
            AgentVerdict::Leave => {}
            AgentVerdict::Reattach | AgentVerdict::AdvanceRun => self.mark_reattached(&agent, session.as_ref()).await?,
            AgentVerdict::FailAndBlock(error) => {
                self.apply_recovery(workflow.id, agent.id, error, RecoveryAction::Blocked).await?;
            }
            AgentVerdict::FailAndReopen(error) => {
                self.apply_recovery(workflow.id, agent.id, error, RecoveryAction::Reopened).await?;
            }
            AgentVerdict::AwaitMerge => match self.collect_work(&task, self.stopped()).await? {
                Ok(work) => {
                    self.apply_recovery(workflow.id, agent.id, AWAITS_REVIEW, RecoveryAction::ToReview(work)).await?;
                }
                Err(GitError::Stopped { .. }) => return Err(EngineError::Stopping),
                Err(why) => {
                    self.apply_recovery(workflow.id, agent.id, &why.to_string(), RecoveryAction::Blocked).await?;
                    return Ok(AgentVerdict::FailAndBlock(WORK_NOT_COLLECTED));
                }
            },
        }
        Ok(verdict)
    }

    /// Records that this daemon follows the agent again.
    async fn mark_reattached(&self, agent: &Agent, session: Option<&Session>) -> Result<(), EngineError> {
        if session.is_some_and(Session::is_queued) {
            // The driver records the start.
            return Ok(());
        }
        if agent.state == AgentState::Starting
            && let Some(session) = session
        {
            return self.write_agent_started(agent, session).await;
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut agent) = tx.agent(agent.id).await? else { return Ok(()) };
        agent.apply(AgentFact::Reattached, None, now)?;
        tx.record(Change::AgentChanged { agent, event: "reattached" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    pub(crate) async fn inspect_worktree(&self, task: &Task) -> Result<WorktreeFinding, EngineError> {
        let worktree = match self.worktree_of(task).await {
            Ok(worktree) if worktree.exists() => worktree,
            Ok(_) | Err(EngineError::Git(_) | EngineError::Invalid(_)) => return Ok(WorktreeFinding::Gone),
            Err(error) => return Err(error),
        };
        let base = task.base_branch.clone();
        let commit = task.base_commit.clone();
        let state = with_git(move || {
            // Compare with the current base: merged commits need no review.
            let current = match &base {
                Some(base) => worktree.repository.commit_of(&format!("refs/heads/{base}"))?,
                None => None,
            };
            worktree.state(&current.or(commit).unwrap_or_else(|| "HEAD".to_owned()))
        })
        .await;
        match state {
            Ok(state) if state.is_dirty => Ok(WorktreeFinding::Uncommitted),
            Ok(state) if state.is_ahead => Ok(WorktreeFinding::Committed),
            Ok(_) => Ok(WorktreeFinding::Clean),
            // A folder that git cannot read counts as gone; its files stay.
            Err(EngineError::Git(_)) => Ok(WorktreeFinding::Gone),
            Err(error) => Err(error),
        }
    }

    /// Recovers tasks whose claim expired and whose run has no driver in this daemon.
    pub(crate) async fn release_lost_claims(self: &Arc<Self>) -> Result<(), EngineError> {
        let query =
            coven_domain::query::TaskQuery { states: vec![TaskState::InProgress], limit: 1000, ..Default::default() };
        let now = clock::now();
        for task in self.store.tasks(&query).await?.tasks {
            if task.claim.as_ref().is_none_or(|claim| claim.until > now) {
                continue;
            }
            let workflow = self.latest_workflow(task.id).await?.filter(|it| it.state == WorkflowState::Running);
            if workflow.as_ref().is_some_and(|workflow| self.runs.is_active(workflow.id)) {
                continue;
            }
            tracing::warn!(task = %task.id, "the claim of a task expired");
            let agents = self.store.agents(AgentQuery::Task(task.id), None, usize::MAX).await?.items;
            let live = agents.into_iter().find(|agent| !agent.is_over());
            match (live, workflow) {
                (Some(agent), _) => {
                    if matches!(self.recover_agent(agent).await?, AgentVerdict::Reattach | AgentVerdict::AdvanceRun)
                        && let Some(workflow) = self.latest_workflow(task.id).await?
                    {
                        self.drive(workflow.id);
                    }
                }
                (None, Some(workflow)) => self.drive(workflow.id),
                (None, None) => self.lose_lease(task.id).await?,
            }
        }
        Ok(())
    }

    async fn lose_lease(&self, id: coven_domain::TaskId) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut task) = tx.task(id).await?.filter(|task| task.state == TaskState::InProgress) else {
            return Ok(());
        };
        let changes = task.apply(coven_domain::task::TaskFact::LeaseLost, Some("the claim expired"), now)?;
        tx.record(Change::TaskChanged { task, event: "lease_lost", changes, by: "system".to_owned() }, now).await?;
        Ok(self.commit(tx).await?)
    }
}

fn finding(session: Option<&Session>) -> AgentFinding {
    match session {
        // Reattached, or the holder has not answered yet.
        Some(session) if matches!(session.state, SessionState::Created | SessionState::Running) => AgentFinding::Lives,
        Some(session) if failure(session).is_none() => AgentFinding::Succeeded,
        Some(_) | None => AgentFinding::Dead,
    }
}

fn is_script(workflow: &WorkflowRun, agent: &Agent) -> bool {
    let Ok(definition) = WorkflowDefinition::of_run(workflow) else { return false };
    let name = agent.step.as_deref();
    definition
        .flatten()
        .iter()
        .any(|(_, step)| Some(step.name.as_str()) == name && matches!(step.kind, StepKind::Script { .. }))
}
