//! Review and merge: shows the changes of a task and merges them into the base
//! branch without disturbing user checkouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::{AgentFact, AgentState};
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::WorkflowQuery;
use coven_domain::task::{Task, TaskFact, TaskState, WorkSize};
use coven_domain::workflow::{Approval, WorkflowFact, WorkflowRun, WorkflowState};
use coven_domain::{AgentId, TaskId, WorkflowId};
use coven_holder::clock;
use coven_host::config::NotificationKind;
use coven_host::git::{FileChange, GitError, Landing, MergeTry, Merged, Repository, Worktree};
use coven_store::Change;
use coven_workflow::{StepKind, WorkflowDefinition};
use tokio::sync::watch;

use super::driver::work_size;
use super::{RunGuard, Stop, branch_of, stop_requested, with_git, with_git_unless};
use crate::Engine;
use crate::error::EngineError;
use crate::notification::{InboxNotification, Need};
use crate::operation::{OperationResult, Reporter};
use crate::task::{checked_by, live_task};
use coven_holder::fault;

/// How often a merge is repeated because its base branch moved during the checks.
const MAX_ATTEMPTS: usize = 5;
/// How often to wait for another git process in a checkout of the base: ten seconds in total.
const BUSY_RETRIES: usize = 40;
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(250);

/// The changes of a task's branch since its base commit, or the changes that were merged.
#[derive(Debug)]
pub struct Diff {
    pub task: Task,
    pub base: String,
    /// The task's branch, or the commit that was merged.
    pub branch: String,
    pub is_merged: bool,
    pub files: Vec<FileChange>,
    pub patch: String,
    /// The patch was truncated.
    pub is_cut: bool,
    /// The worktree has uncommitted changes, which the patch does not contain.
    pub has_uncommitted: bool,
}

/// Outcome of an approval.
enum MergeEnd {
    /// The base contains the work; `range` selects the merged commits.
    Merged {
        range: String,
        work: WorkSize,
    },
    /// The task changed nothing.
    NoChanges,
    NotMerged(NotMerged),
}

/// Why an approved merge did not happen; the task is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMerged {
    Conflicts {
        files: Vec<String>,
        worktree: String,
    },
    Check {
        command: String,
        why: String,
        session: Option<String>,
    },
    Checkout {
        folder: String,
        why: String,
    },
    BaseMoves,
    Stopped {
        by: String,
    },
    NoBranch(String),
    /// The approval was withdrawn while this merge waited, with the task's reason.
    TakenBack(String),
}

impl std::fmt::Display for NotMerged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Conflicts { files, worktree } => write!(
                f,
                "conflicts with the base branch in {}; merge the base into the task branch in {worktree}, then approve again",
                files.join(", ")
            ),
            Self::Check { command, why, .. } => write!(f, "the check `{command}` failed: {why}"),
            Self::Checkout { folder, why } => {
                write!(f, "cannot update the checkout of the base branch in {folder}: {why}, then approve again")
            }
            Self::BaseMoves => write!(f, "the base branch moved during the merge; approve again"),
            Self::Stopped { by } => write!(f, "the merge was stopped by {by}"),
            Self::TakenBack(why) => write!(f, "the approval was withdrawn: {why}"),
            Self::NoBranch(branch) => {
                write!(f, "branch {branch:?} does not exist; reject the task to repeat the work, or close it")
            }
        }
    }
}

/// Moves the base branch. Waits for other git processes in the user's checkout: one started by an earlier daemon may
/// still be finishing the same merge.
async fn land(repository: &Repository, base: &str, merged: &Merged) -> Result<Landing, EngineError> {
    let mut tries = 0;
    loop {
        let (repository, base, merged) = (repository.clone(), base.to_owned(), merged.clone());
        let landing = with_git(move || repository.land(&base, &merged)).await?;
        if !matches!(landing, Landing::Busy { .. }) || tries == BUSY_RETRIES {
            return Ok(landing);
        }
        tries += 1;
        tokio::time::sleep(BUSY_RETRY_DELAY).await;
    }
}

/// Returns the commit message, which names the task.
pub(super) fn message(task: &Task) -> String {
    format!("{}\n\nCoven-Task: {}", task.title, task.id)
}

impl Engine {
    pub async fn task_diff(&self, text: &str, patch_bytes: usize) -> Result<Diff, EngineError> {
        let id = self.find_task(text).await?;
        let task = self.known_task(id).await?;
        let worktree = self.worktree_of(&task).await?;
        let Some(base) = task.base_commit.clone() else {
            return Err(EngineError::Invalid(format!(
                "task {id} has no work yet; start it with `coven task start {id}`"
            )));
        };
        if let Some((from, to)) = task.merged.as_deref().and_then(|range| range.split_once("..")) {
            let (base, branch) = (from.to_owned(), to.to_owned());
            let (from, to) = (base.clone(), branch.clone());
            let (files, patch, is_all) = with_git(move || {
                let (patch, is_all) = worktree.repository.patch(&from, &to, patch_bytes)?;
                Ok((worktree.repository.changes(&from, &to)?, patch, is_all))
            })
            .await?;
            let diff =
                Diff { task, base, branch, is_merged: true, files, patch, is_cut: !is_all, has_uncommitted: false };
            return Ok(diff);
        }
        let branch = branch_of(id);
        let (from, to) = (base.clone(), branch.clone());
        let (files, patch, is_all, has_uncommitted) = with_git(move || {
            let repository = &worktree.repository;
            let is_there = repository.commit_of(&format!("refs/heads/{to}"))?.is_some();
            let has_uncommitted = worktree.exists() && worktree.state(&from)?.is_dirty;
            if !is_there {
                return Ok((Vec::new(), String::new(), true, has_uncommitted));
            }
            let (patch, is_all) = repository.patch(&from, &to, patch_bytes)?;
            Ok((repository.changes(&from, &to)?, patch, is_all, has_uncommitted))
        })
        .await?;
        Ok(Diff { task, base, branch, is_merged: false, files, patch, is_cut: !is_all, has_uncommitted })
    }

    /// Approves a merge and starts it. A second approval returns the operation of the running merge.
    pub async fn approve_task(self: &Arc<Self>, text: &str, by: Option<String>) -> Result<Operation, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_task(text).await?);
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let task = live_task(&mut tx, id).await?;
        task.state.after(TaskFact::Approved)?;
        let latest = tx.latest_workflow(id).await?;
        let mut workflow = latest.ok_or_else(|| EngineError::WorkflowNotFound(id.to_string()))?;
        if let Some(running) = tx.running_operation(OperationKind::TaskApprove, &id.to_string()).await? {
            return Ok(running);
        }
        // Acquired before the approval is visible, so that this request follows the merge to its end.
        let guard = self.runs.try_acquire(workflow.id);
        // The first approval keeps its place in the queue.
        if workflow.progress.approval.is_none() {
            workflow.progress.approval = Some(Approval { by, at: now });
            workflow.updated_at = now.not_before(workflow.updated_at);
            tx.record(Change::RunChanged { workflow, event: "merge_approved" }, now).await?;
        }
        let operation = self.commit_new_operation(tx, OperationKind::TaskApprove, Some(id.to_string()), now).await?;
        fault::point("after_approve");
        self.run_approval(&operation, id, guard);
        Ok(operation)
    }

    fn run_approval(self: &Arc<Self>, operation: &Operation, id: TaskId, guard: Option<RunGuard>) {
        let operation_id = operation.id;
        self.run_operation(operation, async move |engine: Arc<Self>, report| {
            match engine.merge_task(id, guard, &report).await {
                Ok(task) => Ok(Some(OperationResult::Task(Box::new(task)))),
                Err(error) => {
                    if !engine.operations.has_waiters(operation_id) {
                        engine.notify_not_merged(id, &error).await;
                    }
                    Err(error)
                }
            }
        });
    }

    pub async fn reject_task(
        self: &Arc<Self>,
        text: &str,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Task, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_task(text).await?);
        let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) else {
            return Err(EngineError::Invalid(
                "reason: describe what to change; the next run gets this text".to_owned(),
            ));
        };
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let changes = task.apply(TaskFact::Rejected, Some(&reason), now)?;
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            if workflow.progress.approval.is_some() && self.runs.is_active(workflow.id) {
                return Err(EngineError::BeingMerged(id));
            }
            workflow.progress.approval = None;
            workflow.progress.rejected = Some(reason.clone());
            workflow.apply(WorkflowFact::Blocked, Some(reason), now)?;
            tx.record(Change::RunChanged { workflow, event: "rejected" }, now).await?;
        }
        tx.record(Change::TaskChanged { task: task.clone(), event: "rejected", changes, by }, now).await?;
        self.commit(tx).await?;
        Ok(task)
    }

    /// Merges an approved task. Merges in one repository run one at a time.
    async fn merge_task(
        self: &Arc<Self>,
        id: TaskId,
        mut guard: Option<RunGuard>,
        report: &Reporter,
    ) -> Result<Task, EngineError> {
        let mut guard = loop {
            let workflow = match self.approved_task(id).await? {
                (_, Some(workflow)) => workflow,
                (task, None) => return Ok(task),
            };
            match guard.take().or_else(|| self.runs.try_acquire(workflow.id)) {
                Some(guard) => break guard,
                // Another merger is active: wait for it, then read its outcome.
                None => self.wait_until_released(workflow.id).await?,
            }
        };
        match self.merge_serialized(id, &mut guard.stop, report).await {
            Ok(Ok(task)) => Ok(task),
            Ok(Err(not_merged)) => {
                self.write_not_merged(id, &not_merged.to_string()).await?;
                Err(EngineError::NotMerged { id, why: not_merged })
            }
            // The approval stays; the merge is retried.
            Err(error @ (EngineError::Stopping | EngineError::Store(_))) => Err(error),
            Err(error) => {
                self.write_not_merged(id, &error.to_string()).await?;
                Err(error)
            }
        }
    }

    /// Returns an approved task with the run to merge, or without a run if it is already merged.
    async fn approved_task(&self, id: TaskId) -> Result<(Task, Option<WorkflowRun>), EngineError> {
        let task = self.known_task(id).await?;
        let latest = self.latest_workflow(id).await?;
        let Some(workflow) = latest.filter(|it| it.progress.approval.is_some()) else {
            task.state.after(TaskFact::Approved)?;
            let why = task.reason.as_deref().unwrap_or_default();
            return Err(EngineError::NotMerged { id, why: NotMerged::TakenBack(why.to_owned()) });
        };
        let is_waiting = task.state == TaskState::PendingMerge;
        Ok((task, Some(workflow).filter(|_| is_waiting)))
    }

    async fn merge_serialized(
        self: &Arc<Self>,
        id: TaskId,
        stop: &mut watch::Receiver<Option<Stop>>,
        report: &Reporter,
    ) -> Result<Result<Task, NotMerged>, EngineError> {
        report.step(0, None, "waiting for other merges");
        let worktree = self.worktree_of(&self.known_task(id).await?).await?;
        let queue = self.runs.queue_of(&worktree.repository);
        let _turn = tokio::select! {
            turn = queue.lock() => turn,
            asked = stop_requested(stop) => return Ok(Err(NotMerged::Stopped { by: asked.by })),
        };
        // The approval may have been withdrawn while this merge waited.
        let (task, workflow) = match self.approved_task(id).await? {
            (task, Some(workflow)) => (task, workflow),
            (task, None) => return Ok(Ok(task)),
        };
        let steps = MergeSteps::new(report.clone(), &workflow);
        let merged = match self.try_to_merge(&task, &workflow, &worktree, &steps, stop).await? {
            MergeEnd::NotMerged(not_merged) => return Ok(Err(not_merged)),
            MergeEnd::Merged { range, work } => Some((range, work)),
            MergeEnd::NoChanges => None,
        };
        steps.clean_up();
        let task = self.write_merged(id, merged).await?;
        self.rescue_and_remove_worktree(&task).await;
        Ok(Ok(task))
    }

    /// Waits until the guard of a run is dropped.
    async fn wait_until_released(&self, id: WorkflowId) -> Result<(), EngineError> {
        let Some(guard) = self.runs.stop_sender(id) else { return Ok(()) };
        tokio::select! {
            () = guard.closed() => Ok(()),
            () = self.stopped() => Err(EngineError::Stopping),
        }
    }

    /// Starts the merges of approved runs that have no merger, in the order of approval.
    pub(crate) async fn merge_approved(self: &Arc<Self>) -> Result<(), EngineError> {
        let limit = usize::MAX >> 1;
        let waiting = WorkflowQuery { states: vec![WorkflowState::PendingMerge], limit, ..WorkflowQuery::default() };
        let mut approved = self.store.workflows(&waiting).await?.items;
        approved.retain(|workflow| workflow.progress.approval.is_some() && !self.runs.is_active(workflow.id));
        if approved.is_empty() {
            return Ok(());
        }
        approved.sort_by_key(|workflow| workflow.progress.approval.as_ref().map(|approval| approval.at));
        let mut operations = self.running_approvals().await?;
        for workflow in approved {
            match operations.remove(&workflow.task) {
                Some(operation) => self.run_approval(&operation, workflow.task, None),
                None => self.spawn_merge(workflow.task),
            }
        }
        Ok(())
    }

    /// Resumes the approvals of an earlier daemon, including those whose merge is
    /// done but whose operation is still running.
    pub(super) async fn resume_approvals(self: &Arc<Self>) -> Result<(), EngineError> {
        self.merge_approved().await?;
        for (task, operation) in self.running_approvals().await? {
            self.run_approval(&operation, task, None);
        }
        Ok(())
    }

    async fn running_approvals(&self) -> Result<BTreeMap<TaskId, Operation>, EngineError> {
        let running = self.running_operations().await?.into_iter();
        let approvals = running.filter(|it| it.kind == OperationKind::TaskApprove);
        Ok(approvals.filter_map(|it| Some((it.subject.as_deref()?.parse().ok()?, it))).collect())
    }

    async fn try_to_merge(
        self: &Arc<Self>,
        task: &Task,
        workflow: &WorkflowRun,
        worktree: &Worktree,
        steps: &MergeSteps,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<MergeEnd, EngineError> {
        let not_merged = |why: NotMerged| Ok(MergeEnd::NotMerged(why));
        let Some(base) = task.base_branch.clone() else {
            let id = task.id;
            let problem = format!("task {id} has no work yet; start it with `coven task start {id}`");
            return Err(EngineError::Invalid(problem));
        };
        let (text, branch) = (message(task), branch_of(task.id));
        for _ in 0..MAX_ATTEMPTS {
            steps.merge(&base);
            let (tree, base_name, branch_name) = (worktree.clone(), base.clone(), branch.clone());
            let (rest, title) = (text.clone(), format!("Merge {text}"));
            let first = task.base_commit.clone().unwrap_or_else(|| base.clone());
            let tried = with_git_unless(stop_requested(stop), move || {
                // The reviewer may have edited files.
                if tree.exists() {
                    tree.collect_onto_branch(&rest)?;
                }
                let Some(tip) = tree.repository.commit_of(&format!("refs/heads/{branch_name}"))? else {
                    return Ok(None);
                };
                let tried = tree.repository.try_merge(&base_name, &branch_name, &title)?;
                // If the base already contains the branch, compare with the commit where the work started.
                let since = match &tried {
                    MergeTry::Ready(merged) => &merged.onto,
                    MergeTry::Nothing | MergeTry::Conflicts(_) => &first,
                };
                let work = work_size(&tree.repository.changes(since, &tip)?);
                Ok(Some((tried, work, format!("{first}..{tip}"))))
            });
            let tried = match (tried.await, stop.borrow().clone()) {
                (Err(EngineError::Git(GitError::Stopped { .. })), Some(asked)) => {
                    return not_merged(NotMerged::Stopped { by: asked.by });
                }
                (tried, _) => tried?,
            };
            let Some((tried, work, range)) = tried else { return not_merged(NotMerged::NoBranch(branch)) };
            let merged = match tried {
                MergeTry::Conflicts(files) => {
                    let worktree = worktree.folder.display().to_string();
                    return not_merged(NotMerged::Conflicts { files, worktree });
                }
                MergeTry::Nothing | MergeTry::Ready(_) if work.files == 0 => return Ok(MergeEnd::NoChanges),
                MergeTry::Nothing => return Ok(MergeEnd::Merged { range, work }),
                MergeTry::Ready(merged) => merged,
            };
            if let Some(failed) = self.run_checks(task, workflow, worktree, &merged, steps, stop).await? {
                return not_merged(failed);
            }
            steps.land(&base);
            fault::point("before_landing");
            match land(&worktree.repository, &base, &merged).await? {
                Landing::Landed => {
                    fault::point("after_landing");
                    return Ok(MergeEnd::Merged { range: format!("{}..{}", merged.onto, merged.commit), work });
                }
                Landing::BaseMoved => {}
                Landing::Busy { folder } => {
                    let why = "another git process is running there, or one that died left its index.lock; wait for \
                               it, or remove the file"
                        .to_owned();
                    return not_merged(NotMerged::Checkout { folder: folder.display().to_string(), why });
                }
                Landing::CheckoutInTheWay { folder, why } => {
                    return not_merged(NotMerged::Checkout { folder: folder.display().to_string(), why });
                }
            }
        }
        not_merged(NotMerged::BaseMoves)
    }

    /// Ends an agent without advancing its run.
    pub(super) async fn end_agent(
        &self,
        id: AgentId,
        fact: AgentFact,
        error: Option<String>,
    ) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut agent) = tx.agent(id).await?.filter(|agent| !agent.is_over()) else { return Ok(()) };
        let fact = if agent.state == AgentState::Starting { AgentFact::Failed } else { fact };
        agent.apply(fact, error, now)?;
        let event = agent.state.as_str();
        tx.record(Change::AgentChanged { agent, event }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Closes a task whose work is in the base branch. `merged` is the range of merged commits and their size, if there
    /// are any: the reviewer may have changed them since the step ended.
    async fn write_merged(&self, id: TaskId, merged: Option<(String, WorkSize)>) -> Result<Task, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let mut by = "user".to_owned();
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            if let Some(approval) = &workflow.progress.approval {
                by.clone_from(&approval.by);
            }
            workflow.apply(WorkflowFact::Completed, None, now)?;
            tx.record(Change::RunChanged { workflow, event: "completed" }, now).await?;
        }
        let reason = if merged.is_some() { "merged" } else { "no changes" };
        let changes = task.apply(TaskFact::Approved, Some(reason), now)?;
        let (range, work) = merged.unzip();
        (task.merged, task.changes) = (range, Some(work.unwrap_or_default()));
        tx.record(Change::TaskChanged { task: task.clone(), event: "closed", changes, by }, now).await?;
        self.commit(tx).await?;
        Ok(task)
    }

    /// Records why a merge failed; the task stays ready for review.
    pub(super) async fn write_not_merged(&self, id: TaskId, why: &str) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut task) = tx.task(id).await?.filter(|task| task.state == TaskState::PendingMerge) else {
            return Ok(());
        };
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            (workflow.progress.approval, workflow.progress.stop) = (None, None);
            workflow.error = Some(why.to_owned());
            workflow.updated_at = now.not_before(workflow.updated_at);
            tx.record(Change::RunChanged { workflow, event: "merge_failed" }, now).await?;
        }
        let before = task.clone();
        task.reason = Some(why.to_owned());
        task.updated_at = now.not_before(task.updated_at);
        let changes = before.differences(&task);
        tx.record(Change::TaskChanged { task, event: "merge_failed", changes, by: "system".to_owned() }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Starts a merge in the background, outside any request.
    pub(crate) fn spawn_merge(self: &Arc<Self>, id: TaskId) {
        let engine = self.clone();
        // Ends with the daemon; the next daemon resumes the approval.
        self.background.spawn(async move {
            if let Err(error) = engine.merge_task(id, None, &Reporter::default()).await {
                engine.notify_not_merged(id, &error).await;
            }
        });
    }

    /// Logs a failed merge and notifies the user.
    async fn notify_not_merged(&self, id: TaskId, error: &EngineError) {
        tracing::warn!(task = %id, %error, "an approved task was not merged");
        if let Ok(task) = self.known_task(id).await
            && task.state == TaskState::PendingMerge
        {
            let title = format!("not merged: {}: {error}", task.title);
            let kind = NotificationKind::Review;
            self.notify(InboxNotification { need: Need::Task(id), kind, session: None, title });
        }
    }
}

/// Reports the steps of a merge: waiting, merging, each check, moving the base, cleaning up.
pub(super) struct MergeSteps {
    report: Reporter,
    checks: u64,
}

impl MergeSteps {
    fn new(report: Reporter, workflow: &WorkflowRun) -> Self {
        let definition = WorkflowDefinition::of_run(workflow).ok();
        let step = definition.as_ref().and_then(|definition| definition.steps.last());
        let checks = match step.map(|step| &step.kind) {
            Some(StepKind::Merge { checks, .. }) => checks.len() as u64,
            _ => 0,
        };
        Self { report, checks }
    }

    fn step(&self, done: u64, message: String) {
        self.report.step(done, Some(self.checks + 4), message);
    }

    fn merge(&self, base: &str) {
        self.step(1, format!("merging into {base}"));
    }

    /// `index` counts from 0.
    pub(super) fn check(&self, index: usize, command: &str) {
        let command = coven_domain::text::one_line(command, 60);
        self.step(2 + index as u64, format!("running check {} of {}: {command}", index + 1, self.checks));
    }

    fn land(&self, base: &str) {
        self.step(2 + self.checks, format!("moving {base}"));
    }

    fn clean_up(&self) {
        self.step(3 + self.checks, "removing the worktree".to_owned());
    }
}
