//! Review and merge: what a task changed, and putting it onto its base without touching anybody's checkout.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::agent::{AgentFact, AgentState};
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::WorkflowQuery;
use coven_domain::task::{Task, TaskFact, TaskState, WorkSize};
use coven_domain::workflow::{Approval, Workflow, WorkflowFact, WorkflowState};
use coven_domain::{AgentId, TaskId, WorkflowId};
use coven_holder::clock;
use coven_host::git::{FileChange, GitError, Landing, MergeTry, Merged, Repository, Worktree};
use coven_store::Change;
use coven_workflow::{Definition, StepKind};
use tokio::sync::watch;

use super::{Stop, TakenUp, branch_of, with_git, with_git_unless, word};
use crate::Engine;
use crate::arrival::{Arrival, Asker};
use crate::error::EngineError;
use crate::operation::{OperationResult, Reporter};
use crate::task::{checked_by, live_task};
use coven_holder::fault;

/// How often a base that goes on while a merge is checked is tried again.
const TRIES: usize = 5;
/// How long another git may be at work in a checkout of the base: ten seconds.
const BUSY_TRIES: usize = 40;
const BUSY_PAUSE: Duration = Duration::from_millis(250);

/// What a task's branch changed since it left its base, or what was merged of it.
#[derive(Debug)]
pub struct Diff {
    pub task: Task,
    pub base: String,
    /// The task's branch, or the commit that was merged.
    pub branch: String,
    pub is_merged: bool,
    pub files: Vec<FileChange>,
    pub patch: String,
    /// Less than everything, for its size.
    pub is_cut: bool,
    /// There is more in the worktree that is in no commit yet.
    pub has_uncommitted: bool,
}

/// What came of an approval.
enum MergeEnd {
    /// The base has it now; the range of commits shows what it got.
    Merged {
        range: String,
    },
    /// There was nothing to merge.
    NoChanges,
    NotMerged(NotMerged),
}

/// Why an approved merge did not happen; the task stays as it is.
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
    /// Somebody else was at it, and this came of it.
    TakenBack(String),
}

impl std::fmt::Display for NotMerged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Conflicts { files, worktree } => write!(
                f,
                "it conflicts with its base in {}; merge the base into its branch in {worktree}, then approve again",
                files.join(", ")
            ),
            Self::Check { command, why, .. } => write!(f, "the check `{command}` failed: {why}"),
            Self::Checkout { folder, why } => {
                write!(
                    f,
                    "the base is checked out in {folder}, and {why}; commit, move or stash that, then approve again"
                )
            }
            Self::BaseMoves => write!(f, "its base kept going on; approve again"),
            Self::Stopped { by } => write!(f, "it was stopped by {by}"),
            Self::TakenBack(why) => write!(f, "its approval was taken back: {why}"),
            Self::NoBranch(branch) => {
                write!(
                    f,
                    "there is nothing to merge: it has no branch {branch:?}; reject it to have it done again, or close it"
                )
            }
        }
    }
}

/// Waits for another git in the user's checkout: one that an earlier daemon started may still be at the same merge.
async fn land(repository: &Repository, base: &str, merged: &Merged) -> Result<Landing, EngineError> {
    let mut tries = 0;
    loop {
        let (repository, base, merged) = (repository.clone(), base.to_owned(), merged.clone());
        let landing = with_git(move || repository.land(&base, &merged)).await?;
        if !matches!(landing, Landing::Busy { .. }) || tries == BUSY_TRIES {
            return Ok(landing);
        }
        tries += 1;
        tokio::time::sleep(BUSY_PAUSE).await;
    }
}

/// Every commit and merge of a task says which one it was.
pub(super) fn message(task: &Task) -> String {
    format!("{}\n\nCoven-Task: {}", task.title, task.id)
}

impl Engine {
    pub async fn task_diff(&self, text: &str, patch_bytes: usize) -> Result<Diff, EngineError> {
        let id = self.find_task(text).await?;
        let task = self.known_task(id).await?;
        let worktree = self.worktree_of(&task).await?;
        let Some(base) = task.base_commit.clone() else {
            return Err(EngineError::Invalid(format!("nobody has worked on the task yet: {id}")));
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

    /// Agrees to a merge and starts it. A second approval returns the operation of the merge that is running.
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
        // Before anybody can see the approval, so that whoever gave it hears what comes of it.
        let taken = self.runs.take_up(workflow.id);
        // Whoever was first has the place in the queue.
        if workflow.progress.approval.is_none() {
            workflow.progress.approval = Some(Approval { by, at: now });
            workflow.updated_at = now.not_before(workflow.updated_at);
            tx.record(Change::WorkflowWritten { workflow, event: "merge_approved" }, now).await?;
        }
        let operation = self.commit_new_operation(tx, OperationKind::TaskApprove, Some(id.to_string()), now).await?;
        fault::point("after_approve");
        self.run_approval(&operation, id, taken);
        Ok(operation)
    }

    fn run_approval(self: &Arc<Self>, operation: &Operation, id: TaskId, taken: Option<TakenUp>) {
        let operation_id = operation.id;
        self.run_operation(operation, async move |engine: Arc<Self>, report| {
            match engine.merge_task(id, taken, &report).await {
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
            return Err(EngineError::Invalid("reason: say what is wrong, for whoever tries again".to_owned()));
        };
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let changes = task.apply(TaskFact::Rejected, Some(&reason), now)?;
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            if workflow.progress.approval.is_some() && self.runs.is_taken(workflow.id) {
                return Err(EngineError::BeingMerged(id));
            }
            workflow.progress.approval = None;
            workflow.progress.rejected = Some(reason.clone());
            workflow.apply(WorkflowFact::Blocked, Some(reason), now)?;
            tx.record(Change::WorkflowWritten { workflow, event: "rejected" }, now).await?;
        }
        tx.record(Change::TaskWritten { task: task.clone(), event: "rejected", changes, by }, now).await?;
        self.commit(tx).await?;
        Ok(task)
    }

    /// Merges what was approved, one after the other for each repository.
    async fn merge_task(
        self: &Arc<Self>,
        id: TaskId,
        mut taken: Option<TakenUp>,
        report: &Reporter,
    ) -> Result<Task, EngineError> {
        let mut taken = loop {
            let workflow = match self.approved_task(id).await? {
                (_, Some(workflow)) => workflow,
                (task, None) => return Ok(task),
            };
            match taken.take().or_else(|| self.runs.take_up(workflow.id)) {
                Some(taken) => break taken,
                // Somebody else is at it: what comes of that is what comes of this.
                None => self.let_go(workflow.id).await?,
            }
        };
        match self.merge_in_turn(id, &mut taken.word, report).await {
            Ok(Ok(task)) => Ok(task),
            Ok(Err(not_merged)) => {
                self.write_not_merged(id, &not_merged.to_string()).await?;
                Err(EngineError::NotMerged { id, why: not_merged })
            }
            // The approval stands, and it is tried again.
            Err(error @ (EngineError::Stopping | EngineError::Store(_))) => Err(error),
            Err(error) => {
                self.write_not_merged(id, &error.to_string()).await?;
                Err(error)
            }
        }
    }

    /// A task with its run, if that is to be merged; without one if it was merged already.
    async fn approved_task(&self, id: TaskId) -> Result<(Task, Option<Workflow>), EngineError> {
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

    async fn merge_in_turn(
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
            asked = word(stop) => return Ok(Err(NotMerged::Stopped { by: asked.by })),
        };
        // It may have been given up while it waited.
        let (task, workflow) = match self.approved_task(id).await? {
            (task, Some(workflow)) => (task, workflow),
            (task, None) => return Ok(Ok(task)),
        };
        let steps = MergeSteps::new(report.clone(), &workflow);
        let merged = match self.try_to_merge(&task, &workflow, &worktree, &steps, stop).await? {
            MergeEnd::NotMerged(not_merged) => return Ok(Err(not_merged)),
            MergeEnd::Merged { range } => Some(range),
            MergeEnd::NoChanges => None,
        };
        steps.clean_up();
        let task = self.write_merged(id, merged).await?;
        self.put_worktree_away(&task).await;
        Ok(Ok(task))
    }

    /// Waits until nobody looks after a run any more.
    async fn let_go(&self, id: WorkflowId) -> Result<(), EngineError> {
        let Some(taken) = self.runs.holder_of(id) else { return Ok(()) };
        tokio::select! {
            () = taken.closed() => Ok(()),
            () = self.stopped() => Err(EngineError::Stopping),
        }
    }

    /// Merges what was approved and what nobody is at, in the order that it was approved.
    pub(crate) async fn merge_approved(self: &Arc<Self>) -> Result<(), EngineError> {
        let limit = usize::MAX >> 1;
        let waiting = WorkflowQuery { states: vec![WorkflowState::PendingMerge], limit, ..WorkflowQuery::default() };
        let mut approved = self.store.workflows(&waiting).await?;
        approved.retain(|workflow| workflow.progress.approval.is_some() && !self.runs.is_taken(workflow.id));
        if approved.is_empty() {
            return Ok(());
        }
        approved.sort_by_key(|workflow| workflow.progress.approval.as_ref().map(|approval| approval.at));
        let mut operations = self.running_approvals().await?;
        for workflow in approved {
            match operations.remove(&workflow.task) {
                Some(operation) => self.run_approval(&operation, workflow.task, None),
                None => self.merge_later(workflow.task),
            }
        }
        Ok(())
    }

    /// Continues the approvals of an earlier daemon, also those whose merge is done and whose operation is not.
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
        workflow: &Workflow,
        worktree: &Worktree,
        steps: &MergeSteps,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<MergeEnd, EngineError> {
        let not_merged = |why: NotMerged| Ok(MergeEnd::NotMerged(why));
        let Some(base) = task.base_branch.clone() else {
            return Err(EngineError::Invalid(format!("nobody has worked on the task yet: {}", task.id)));
        };
        let (text, branch) = (message(task), branch_of(task.id));
        for _ in 0..TRIES {
            steps.merge(&base);
            let (tree, base_name, branch_name) = (worktree.clone(), base.clone(), branch.clone());
            let (rest, title) = (text.clone(), format!("Merge {text}"));
            let first = task.base_commit.clone().unwrap_or_else(|| base.clone());
            let tried = with_git_unless(word(stop), move || {
                // Whoever reviewed it may have mended something.
                if tree.exists() {
                    tree.gather(&rest)?;
                }
                let Some(tip) = tree.repository.commit_of(&format!("refs/heads/{branch_name}"))? else {
                    return Ok(None);
                };
                let tried = tree.repository.try_merge(&base_name, &branch_name, &title)?;
                // What the base already has is compared with where the work began.
                let since = match &tried {
                    MergeTry::Ready(merged) => &merged.onto,
                    MergeTry::Nothing | MergeTry::Conflicts(_) => &first,
                };
                let is_empty = tree.repository.changes(since, &tip)?.is_empty();
                Ok(Some((tried, is_empty, format!("{first}..{tip}"))))
            });
            let tried = match (tried.await, stop.borrow().clone()) {
                (Err(EngineError::Git(GitError::Stopped { .. })), Some(asked)) => {
                    return not_merged(NotMerged::Stopped { by: asked.by });
                }
                (tried, _) => tried?,
            };
            let Some((tried, is_empty, range)) = tried else { return not_merged(NotMerged::NoBranch(branch)) };
            let merged = match tried {
                MergeTry::Conflicts(files) => {
                    let worktree = worktree.folder.display().to_string();
                    return not_merged(NotMerged::Conflicts { files, worktree });
                }
                MergeTry::Nothing | MergeTry::Ready(_) if is_empty => return Ok(MergeEnd::NoChanges),
                MergeTry::Nothing => return Ok(MergeEnd::Merged { range }),
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
                    return Ok(MergeEnd::Merged { range: format!("{}..{}", merged.onto, merged.commit) });
                }
                Landing::BaseMoved => {}
                Landing::Busy { folder } => {
                    let why = "another git is at work there, or one that died left its index.lock".to_owned();
                    return not_merged(NotMerged::Checkout { folder: folder.display().to_string(), why });
                }
                Landing::CheckoutInTheWay { folder, why } => {
                    return not_merged(NotMerged::Checkout { folder: folder.display().to_string(), why });
                }
            }
        }
        not_merged(NotMerged::BaseMoves)
    }

    /// An agent that no run depends on.
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
        tx.record(Change::AgentWritten { agent, event }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Closes a task whose work is in its base: `merged` is what the base got of it, if that was anything.
    async fn write_merged(&self, id: TaskId, merged: Option<String>) -> Result<Task, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let mut by = "user".to_owned();
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            if let Some(approval) = &workflow.progress.approval {
                by.clone_from(&approval.by);
            }
            workflow.apply(WorkflowFact::Completed, None, now)?;
            tx.record(Change::WorkflowWritten { workflow, event: "completed" }, now).await?;
        }
        let reason = if merged.is_some() { "merged" } else { "no changes" };
        let changes = task.apply(TaskFact::Approved, Some(reason), now)?;
        if merged.is_none() {
            task.changes = Some(WorkSize::default());
        }
        task.merged = merged;
        tx.record(Change::TaskWritten { task: task.clone(), event: "closed", changes, by }, now).await?;
        self.commit(tx).await?;
        Ok(task)
    }

    /// The task still waits for a human, who is told why.
    async fn write_not_merged(&self, id: TaskId, why: &str) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut task) = tx.task(id).await?.filter(|task| task.state == TaskState::PendingMerge) else {
            return Ok(());
        };
        if let Some(mut workflow) = tx.latest_workflow(id).await? {
            workflow.progress.approval = None;
            workflow.error = Some(why.to_owned());
            workflow.updated_at = now.not_before(workflow.updated_at);
            tx.record(Change::WorkflowWritten { workflow, event: "merge_failed" }, now).await?;
        }
        let before = task.clone();
        task.reason = Some(why.to_owned());
        task.updated_at = now.not_before(task.updated_at);
        let changes = before.differences(&task);
        tx.record(Change::TaskWritten { task, event: "merge_failed", changes, by: "system".to_owned() }, now).await?;
        Ok(self.commit(tx).await?)
    }

    /// Starts a merge that no request asked for.
    pub(crate) fn merge_later(self: &Arc<Self>, id: TaskId) {
        let engine = self.clone();
        // Ends with the daemon; the next one finds the approval.
        self.background.spawn(async move {
            if let Err(error) = engine.merge_task(id, None, &Reporter::default()).await {
                engine.notify_not_merged(id, &error).await;
            }
        });
    }

    /// Puts a task that was not merged in front of a human again.
    async fn notify_not_merged(&self, id: TaskId, error: &EngineError) {
        tracing::warn!(task = %id, %error, "an approved task was not merged");
        if let Ok(task) = self.known_task(id).await
            && task.state == TaskState::PendingMerge
        {
            let title = format!("not merged: {}: {error}", task.title);
            self.arrived(Arrival { asker: Asker::Task(id), session: None, title });
        }
    }
}

/// Reports the steps of a merge: waiting, merging, each check, moving the base, cleaning up.
pub(super) struct MergeSteps {
    report: Reporter,
    checks: u64,
}

impl MergeSteps {
    fn new(report: Reporter, workflow: &Workflow) -> Self {
        let definition = Definition::of_run(workflow).ok();
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
