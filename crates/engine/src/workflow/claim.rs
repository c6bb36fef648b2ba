//! Claims a task: the task, its agent and its run change in one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::Agent;
use coven_domain::task::{Claim, FieldChange, Task, TaskFact};
use coven_domain::workflow::{WorkflowFact, WorkflowRun};
use coven_domain::{AgentId, TaskId, Timestamp, WorkflowId};
use coven_holder::clock;
use coven_store::{Change, Tx};
use coven_workflow::{EvalContext, NextStep, StepKind, WorkflowDefinition};
use uuid::Uuid;

use super::driver::{is_process_alive, live_process_message};
use super::{branch_of, with_git};
use crate::Engine;
use crate::error::EngineError;
use crate::task::{checked_by, live_task};
use coven_holder::fault;

/// The inputs of a claim that come from git and from files, gathered before the transaction.
#[derive(Debug, Clone)]
pub struct Plan {
    pub definition: WorkflowDefinition,
    pub text: String,
    /// The base branch and its commit.
    pub base: (String, String),
    pub worktree: String,
    pub branch: String,
    /// How long a claim is valid without renewal.
    pub lease: Duration,
    /// Maximum number of tasks in progress.
    pub limit: u64,
    pub by: String,
}

/// The rows that a claim wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    pub task: Task,
    pub agent: Agent,
    pub workflow: WorkflowRun,
}

/// Records task, agent and run in one transaction, which the caller commits.
pub async fn claim(tx: &mut Box<dyn Tx>, id: TaskId, plan: &Plan, now: Timestamp) -> Result<Claimed, EngineError> {
    let task = live_task(tx, id).await?;
    let mut workflow = WorkflowRun::new(
        WorkflowId::from_uuid(Uuid::new_v4()),
        id,
        &plan.definition.name,
        &plan.text,
        now.not_before(task.created_at),
    );
    // An earlier run may have left a worktree whose work was rejected.
    if task.base_commit.is_some() {
        workflow.progress.rejected = tx.latest_workflow(id).await?.and_then(|before| before.progress.rejected);
    }
    claim_for_run(tx, task, workflow, "started", Vec::new(), plan, now).await
}

/// Claims the task of a failed or blocked run again; the run resumes at the step where it stopped.
async fn claim_retry(
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
        return Err(EngineError::Invalid(format!("run {id} is not the newest run of its task; retry the newest one")));
    }
    // A retry unblocks the task.
    let changes = match task.state {
        coven_domain::task::TaskState::Blocked => task.apply(TaskFact::Unblocked, None, now)?,
        _ => Vec::new(),
    };
    claim_for_run(tx, task, retried, "retried", changes, plan, now).await
}

async fn claim_for_run(
    tx: &mut Box<dyn Tx>,
    mut task: Task,
    mut workflow: WorkflowRun,
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
    let setting = EvalContext { task: &task, worktree: &plan.worktree, branch: &plan.branch, now };
    let first = match plan.definition.next(&mut workflow.progress.clone(), setting) {
        NextStep::Run(step) => Some(step.name.clone()),
        NextStep::Merge(_) | NextStep::Done | NextStep::Blocked(_) | NextStep::Failed(_) => None,
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
    tx.record(Change::TaskChanged { task: task.clone(), event: "claimed", changes, by }, now).await?;
    tx.record(Change::AgentChanged { agent: agent.clone(), event: "starting" }, now).await?;
    tx.record(Change::RunChanged { workflow: workflow.clone(), event }, now).await?;
    Ok(Claimed { task, agent, workflow })
}

impl Engine {
    /// Claims a task and starts its run. The steps get `env`, or else the daemon's environment.
    pub async fn start_task(
        self: &Arc<Self>,
        text: &str,
        by: Option<String>,
        env: Option<BTreeMap<String, String>>,
    ) -> Result<Claimed, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_task(text).await?);
        let task = self.known_task(id).await?;
        // Fails early; the transaction checks again.
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

    /// Repeats the failed step with the definition that the run started with. The steps get `env`, or else the run's
    /// previous environment.
    pub async fn retry_workflow(
        self: &Arc<Self>,
        text: &str,
        by: Option<String>,
        env: Option<BTreeMap<String, String>>,
    ) -> Result<Claimed, EngineError> {
        let by = checked_by(by)?;
        let workflow = self.find_workflow(text).await?;
        // Fails before any git command runs.
        workflow.clone().apply(WorkflowFact::Retried, None, clock::now())?;
        let agent = match workflow.agent {
            Some(id) => self.store.agent(id).await?,
            None => None,
        };
        if let Some(id) = agent.and_then(|agent| agent.session)
            && let Some(session) =
                self.store.session(id).await?.filter(|session| session.is_over() && is_process_alive(session))
        {
            return Err(EngineError::Invalid(live_process_message(Some(&session))));
        }
        let task = self.known_task(workflow.task).await?;
        let definition = WorkflowDefinition::of_run(&workflow).map_err(EngineError::Invalid)?;
        let env = env.or_else(|| self.runs.environment_of(task.id));
        let (text, steps_env) = (workflow.definition.clone(), self.environment(env.clone()));
        let plan = self.plan(&task, definition, text, by, &steps_env).await?;
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let claimed = claim_retry(&mut tx, workflow.id, &plan, now).await?;
        self.commit(tx).await?;
        if let Some(env) = env {
            self.runs.keep_environment(task.id, env);
        }
        self.drive(claimed.workflow.id);
        Ok(claimed)
    }

    /// Gathers the inputs of a claim. Reports missing harnesses, untrusted repositories and missing base branches.
    async fn plan(
        &self,
        task: &Task,
        definition: WorkflowDefinition,
        text: String,
        by: String,
        env: &BTreeMap<String, String>,
    ) -> Result<Plan, EngineError> {
        for (_, step) in definition.flatten() {
            if let StepKind::Agent { harness, .. } = &step.kind {
                self.step_harness(harness.as_deref(), task, env)?;
            }
        }
        let worktree = self.worktree_of(task).await?;
        worktree.repository.ensure_trusted()?;
        let folder = worktree.folder.to_string_lossy().into_owned();
        // Existing work keeps its base.
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
