//! Claiming a task: the task, its agent and its run change together or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::Agent;
use coven_domain::task::{Claim, FieldChange, Task, TaskFact};
use coven_domain::workflow::{Workflow, WorkflowFact};
use coven_domain::{AgentId, TaskId, Timestamp, WorkflowId};
use coven_holder::clock;
use coven_store::{Change, Tx};
use coven_workflow::{Definition, Next, Setting, StepKind};
use uuid::Uuid;

use super::drive::{lives_on, may_live};
use super::{branch_of, with_git};
use crate::Engine;
use crate::error::EngineError;
use crate::task::{checked_by, live_task};
use coven_holder::fault;

/// What is known before the transaction: from git and from files.
#[derive(Debug, Clone)]
pub struct Plan {
    pub definition: Definition,
    pub text: String,
    /// The branch that the work begins from, and its commit.
    pub base: (String, String),
    pub worktree: String,
    pub branch: String,
    /// How long a claim lives without a sign of life.
    pub lease: Duration,
    /// Tasks that are worked on at once.
    pub limit: u64,
    pub by: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    pub task: Task,
    pub agent: Agent,
    pub workflow: Workflow,
}

/// Task, agent and run in one transaction, which the caller commits.
pub async fn claim(tx: &mut Box<dyn Tx>, id: TaskId, plan: &Plan, now: Timestamp) -> Result<Claimed, EngineError> {
    let task = live_task(tx, id).await?;
    let mut workflow = Workflow::new(
        WorkflowId::from_uuid(Uuid::new_v4()),
        id,
        &plan.definition.name,
        &plan.text,
        now.not_before(task.created_at),
    );
    // Where somebody worked before, the worktree may be one that was sent back.
    if task.base_commit.is_some() {
        workflow.progress.rejected = tx.latest_workflow(id).await?.and_then(|before| before.progress.rejected);
    }
    begin(tx, task, workflow, "started", Vec::new(), plan, now).await
}

/// A run that failed or was blocked goes on at the step that it stopped at.
async fn claim_again(
    tx: &mut Box<dyn Tx>,
    id: WorkflowId,
    plan: &Plan,
    now: Timestamp,
) -> Result<Claimed, EngineError> {
    let workflow = tx.workflow(id).await?.ok_or_else(|| EngineError::WorkflowNotFound(id.to_string()))?;
    let mut retried = workflow.clone();
    retried.apply(WorkflowFact::Retried, None, now)?;
    let mut task = live_task(tx, workflow.task).await?;
    if tx.latest_workflow(task.id).await?.is_some_and(|latest| latest.id != id) {
        return Err(EngineError::Invalid(format!("the task has a newer run; retry that one: {id}")));
    }
    // A retry is what unblocks it.
    let changes = match task.state {
        coven_domain::task::TaskState::Blocked => task.apply(TaskFact::Unblocked, None, now)?,
        _ => Vec::new(),
    };
    begin(tx, task, retried, "retried", changes, plan, now).await
}

async fn begin(
    tx: &mut Box<dyn Tx>,
    mut task: Task,
    mut workflow: Workflow,
    event: &'static str,
    mut changes: Vec<FieldChange>,
    plan: &Plan,
    now: Timestamp,
) -> Result<Claimed, EngineError> {
    let dependencies = tx.task_dependencies(task.id).await?;
    task.readiness(&dependencies).map_err(|why| EngineError::TaskNotReady { id: task.id, why })?;
    let active = tx.tasks_in_progress().await?;
    if active >= plan.limit {
        return Err(EngineError::TooManyTasks { active, limit: plan.limit });
    }
    let setting = Setting { task: &task, worktree: &plan.worktree, branch: &plan.branch, now };
    let first = match plan.definition.next(&mut workflow.progress.clone(), setting) {
        Next::Run(step) => Some(step.name.clone()),
        Next::Merge(_) | Next::Done | Next::Blocked(_) | Next::Failed(_) => None,
    };
    let mut agent = Agent::new(
        AgentId::from_uuid(Uuid::new_v4()),
        task.id,
        workflow.id,
        first.as_deref(),
        now.not_before(workflow.created_at),
    );
    (agent.worktree, agent.branch) = (Some(plan.worktree.clone()), Some(plan.branch.clone()));
    let claim = Claim { by: agent.id.to_string(), until: now.after(plan.lease) };
    changes.extend(task.claimed(claim, plan.base.clone(), now)?);
    workflow.agent = Some(agent.id);
    let by = plan.by.clone();
    tx.record(Change::TaskWritten { task: task.clone(), event: "claimed", changes, by }, now).await?;
    tx.record(Change::AgentWritten { agent: agent.clone(), event: "starting" }, now).await?;
    tx.record(Change::WorkflowWritten { workflow: workflow.clone(), event }, now).await?;
    Ok(Claimed { task, agent, workflow })
}

impl Engine {
    /// Claims a task and sets its run going. Its steps get `env`, or the daemon's environment.
    pub async fn start_task(
        self: &Arc<Self>,
        text: &str,
        by: Option<String>,
        env: Option<BTreeMap<String, String>>,
    ) -> Result<Claimed, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_task(text).await?);
        let task = self.known_task(id).await?;
        // Asked again inside the transaction; here it spares the work that comes before.
        let ready = task.readiness(&self.store.task_dependencies(id).await?);
        ready.map_err(|why| EngineError::TaskNotReady { id, why })?;
        let (definition, text) = self.definition(task.workflow.as_deref()).await?;
        let plan = self.plan(&task, definition, text, by, &self.environment(env.clone())).await?;
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let claimed = claim(&mut tx, id, &plan, now).await?;
        fault::point("before_claim");
        self.commit(tx).await?;
        fault::point("after_claim");
        match env {
            Some(env) => self.runs.keep_environment(id, env),
            None => self.runs.forget_environment(id),
        }
        self.drive(claimed.workflow.id);
        Ok(claimed)
    }

    /// Repeats the step that failed, by the definition that the run began with; in `env`, else in the environment that the
    /// run had.
    pub async fn retry_workflow(
        self: &Arc<Self>,
        text: &str,
        by: Option<String>,
        env: Option<BTreeMap<String, String>>,
    ) -> Result<Claimed, EngineError> {
        let by = checked_by(by)?;
        let workflow = self.find_workflow(text).await?;
        // Told before git is asked for anything.
        workflow.clone().apply(WorkflowFact::Retried, None, clock::now())?;
        let agent = match workflow.agent {
            Some(id) => self.store.agent(id).await?,
            None => None,
        };
        if let Some(id) = agent.and_then(|agent| agent.session)
            && let Some(session) =
                self.store.session(id).await?.filter(|session| session.is_over() && lives_on(session))
        {
            return Err(EngineError::Invalid(may_live(Some(&session))));
        }
        let task = self.known_task(workflow.task).await?;
        let definition = Definition::of_run(&workflow).map_err(EngineError::Invalid)?;
        let env = env.or_else(|| self.runs.environment_of(task.id));
        let (text, steps_env) = (workflow.definition.clone(), self.environment(env.clone()));
        let plan = self.plan(&task, definition, text, by, &steps_env).await?;
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let claimed = claim_again(&mut tx, workflow.id, &plan, now).await?;
        self.commit(tx).await?;
        if let Some(env) = env {
            self.runs.keep_environment(task.id, env);
        }
        self.drive(claimed.workflow.id);
        Ok(claimed)
    }

    /// Everything that can be wrong before a task is claimed is told now.
    async fn plan(
        &self,
        task: &Task,
        definition: Definition,
        text: String,
        by: String,
        env: &BTreeMap<String, String>,
    ) -> Result<Plan, EngineError> {
        for (_, step) in definition.flat() {
            if let StepKind::Agent { harness, .. } = &step.kind {
                self.step_harness(harness.as_deref(), task, env)?;
            }
        }
        let worktree = self.worktree_of(task).await?;
        worktree.repository.ensure_trusted()?;
        let folder = worktree.folder.to_string_lossy().into_owned();
        // Work that is there goes on from where it began.
        let recorded = task.base_branch.clone().zip(task.base_commit.clone()).filter(|_| worktree.exists());
        let base = match recorded {
            Some(recorded) => recorded,
            None => {
                let named = task.base_branch.clone();
                with_git(move || worktree.repository.base(named.as_deref())).await?
            }
        };
        Ok(Plan {
            definition,
            text,
            base,
            worktree: folder,
            branch: branch_of(task.id),
            lease: self.config.store.lease(),
            limit: u64::from(self.config.scheduler.max_concurrent_agents),
            by,
        })
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
