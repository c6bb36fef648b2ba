//! Merge checks: commands that must succeed on the merge result before the base branch moves.

use std::path::Path;
use std::sync::Arc;

use coven_domain::agent::{Agent, AgentFact};
use coven_domain::query::AgentQuery;
use coven_domain::task::Task;
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, TaskId};
use coven_holder::clock;
use coven_host::WorkDir;
use coven_host::git::{Landing, Merged, Worktree};
use coven_store::Change;
use coven_workflow::{StepKind, WorkflowDefinition};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use super::launch::{failure, script};
use super::merge::{MergeSteps, NotMerged};
use super::{Stop, stop_requested, with_git};
use crate::Engine;
use crate::error::EngineError;
use crate::launch::{NewSession, StepLaunch};

/// A check command and where to run it.
struct Check<'a> {
    task: &'a Task,
    workflow: &'a WorkflowRun,
    step: &'a str,
    command: String,
    folder: &'a Path,
    until: Option<Instant>,
}

/// Waits until the deadline, or forever if there is none.
async fn sleep_until_deadline(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

impl Engine {
    /// Runs the checks of the merge step in a temporary checkout of the merge result.
    pub(super) async fn run_checks(
        self: &Arc<Self>,
        task: &Task,
        workflow: &WorkflowRun,
        worktree: &Worktree,
        merged: &Merged,
        steps: &MergeSteps,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<Option<NotMerged>, EngineError> {
        let definition = WorkflowDefinition::of_run(workflow).map_err(EngineError::Invalid)?;
        let Some(step) = definition.steps.last() else { return Ok(None) };
        let StepKind::Merge { checks, .. } = &step.kind else { return Ok(None) };
        if checks.is_empty() {
            return Ok(None);
        }
        // Fails before the checks run: a blocked checkout would waste them.
        let (repository, base) = (worktree.repository.clone(), task.base_branch.clone().unwrap_or_default());
        if let Some(Landing::CheckoutInTheWay { folder, why }) = with_git(move || repository.obstacle(&base)).await? {
            return Ok(Some(NotMerged::Checkout { folder: folder.display().to_string(), why }));
        }
        self.end_checks(task.id).await?;
        let limit = [step.timeout, workflow.progress.remaining_timeout].into_iter().flatten().min();
        let until = limit.map(|limit| Instant::now() + limit);
        let folder = self.home.path().join("worktrees").join(format!("{}.check", task.id));
        let (repository, place, commit) = (worktree.repository.clone(), folder.clone(), merged.commit.clone());
        with_git(move || {
            repository.drop_check_out(&place)?;
            repository.check_out_at(&place, &commit)
        })
        .await?;
        let mut failed = None;
        let root = worktree.folder.to_string_lossy().into_owned();
        for (index, check) in checks.iter().enumerate() {
            let scope = definition.scope_of(&workflow.progress, task, &root, &worktree.branch);
            let command = scope.shell(check).map_err(|bad| EngineError::Invalid(format!("checks: {bad}")))?;
            steps.check(index, &command);
            let run = Check { task, workflow, step: &step.name, command, folder: &folder, until };
            failed = match self.run_check(run, stop).await {
                Ok(failed) => failed,
                Err(error) => {
                    // If this fails too, the next attempt starts with it.
                    self.end_checks(task.id).await?;
                    return Err(error);
                }
            };
            if failed.is_some() {
                break;
            }
        }
        let repository = worktree.repository.clone();
        if let Err(error) = with_git(move || repository.drop_check_out(&folder)).await {
            tracing::warn!(task = %task.id, %error, "cannot remove the checkout of the merge checks");
        }
        Ok(failed)
    }

    /// Ends checks that an earlier merge attempt left running.
    async fn end_checks(self: &Arc<Self>, task: TaskId) -> Result<(), EngineError> {
        let agents = self.store.agents(AgentQuery::Task(task), None, usize::MAX).await?.items;
        for agent in agents.into_iter().filter(|it| !it.is_over()) {
            self.recover_agent(agent).await?;
        }
        Ok(())
    }

    async fn run_check(
        self: &Arc<Self>,
        check: Check<'_>,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<Option<NotMerged>, EngineError> {
        let now = clock::now();
        let id = AgentId::from_uuid(Uuid::new_v4());
        let mut agent = Agent::new(id, check.task.id, check.workflow.id, Some(check.step), now);
        agent.worktree = Some(check.folder.to_string_lossy().into_owned());
        let mut tx = self.store.begin().await?;
        tx.record(Change::AgentChanged { agent: agent.clone(), event: "starting" }, now).await?;
        self.commit(tx).await?;
        let place = WorkDir::inside(check.folder, check.folder)?;
        let step = check.step.to_owned();
        let launch = StepLaunch { agent: id, task: check.task.id, step, folder: place, argv: None };
        let title = format!("check: {}", check.task.title);
        // Part of a merge under way, which holds the lock of its repository.
        let new = NewSession { is_now: true, ..script(check.command.clone(), title, launch) };
        let launched = self.create_session(new).await;
        let failed = |why: String, session| Some(NotMerged::Check { command: check.command.clone(), why, session });
        let session = match launched {
            Ok(session) => session,
            Err(error) => {
                self.end_agent(id, AgentFact::Failed, Some(error.to_string())).await?;
                return Ok(failed(error.to_string(), None));
            }
        };
        agent.session = Some(session.id);
        self.write_agent_started(&agent, &session).await?;
        let (fact, why) = tokio::select! {
            ended = self.wait_for_end(session.id) => match failure(&ended?) {
                None => (AgentFact::Succeeded, None),
                Some(why) => (AgentFact::Failed, failed(why, Some(session.id.to_string()))),
            },
            () = sleep_until_deadline(check.until) => {
                self.end_process(&agent).await?;
                (AgentFact::Killed, failed("timed out".to_owned(), Some(session.id.to_string())))
            }
            asked = stop_requested(stop) => {
                self.end_process(&agent).await?;
                (AgentFact::Killed, Some(NotMerged::Stopped { by: asked.by }))
            }
        };
        self.end_agent(id, fact, why.as_ref().map(ToString::to_string)).await?;
        Ok(why)
    }
}
