//! Creates, edits, closes and deletes tasks, each in one transaction with history and event.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::{TaskHistoryEntry, TaskPage, TaskQuery};
use coven_domain::task::links::{self, Links};
use coven_domain::task::{FieldChange, NotReady, Task, TaskEdit, TaskFact, TaskKind, TaskState};
use coven_domain::workflow::{WorkflowFact, WorkflowState};
use coven_domain::{OperationId, TaskId, Timestamp};
use coven_holder::clock;
use coven_host::git::top_of;
use coven_store::{Change, Tx};
use uuid::Uuid;

use super::Engine;
use super::workflow::{Stop, StopKind, with_git};
use crate::error::EngineError;
use crate::operation::{OperationResult, Reporter};

/// Number of candidate ids in an error message.
const MAX_CANDIDATES: usize = 5;
const MAX_BY_CHARS: usize = 64;
/// Maximum number of tasks that are added in one transaction.
pub const MAX_BULK: usize = 10_000;

/// A task to create. It names other tasks by id, prefix, or the `reference` of a task that is created with it.
#[derive(Debug, Clone, Default)]
pub struct TaskDraft {
    pub reference: Option<String>,
    pub title: String,
    pub body: Option<String>,
    pub kind: Option<TaskKind>,
    pub priority: Option<i64>,
    pub parent: Option<String>,
    pub depends_on: Vec<String>,
    pub tags: Vec<String>,
    pub harness: Option<String>,
    pub args: Vec<String>,
    pub workflow: Option<String>,
    pub base_branch: Option<String>,
    /// A folder in the task's repository; `None` for the home's.
    pub repo: Option<String>,
    pub by: Option<String>,
}

/// Changes of a task. It names other tasks by id or prefix.
#[derive(Debug, Clone, Default)]
pub struct TaskPatch {
    pub fields: TaskEdit,
    pub parent: Option<Option<String>>,
    pub depends_on: Option<Vec<String>>,
    /// A folder in the repository; `Some(None)` for the home's.
    pub repo: Option<Option<String>>,
    pub by: Option<String>,
}

impl Engine {
    pub async fn create_task(&self, draft: TaskDraft) -> Result<Task, EngineError> {
        let now = clock::now();
        let mut drafted = self.drafted_all(vec![draft], now).await?;
        let mut tx = self.store.begin().await?;
        write_drafted(&mut tx, &drafted, None, now).await?;
        self.commit(tx).await?;
        Ok(drafted.swap_remove(0).0)
    }

    /// Checks all drafts, then starts the operation that adds all of them or none. An error names the draft's position.
    pub async fn add_tasks(self: &Arc<Self>, drafts: Vec<TaskDraft>) -> Result<Operation, EngineError> {
        let now = clock::now();
        let drafted = self.drafted_all(drafts, now).await?;
        check_links(&mut self.store.begin().await?, &drafted.iter().map(|(task, _)| task).collect::<Vec<_>>()).await?;
        self.start_operation(OperationKind::TaskAdd, async move |engine: Arc<Self>, report: Reporter| {
            let count = drafted.len() as u64;
            report.step(0, Some(count), format!("adding {count} tasks"));
            let mut tx = engine.store.begin().await?;
            let operation = report.operation().expect("the work belongs to the operation");
            write_drafted(&mut tx, &drafted, Some(operation), now).await?;
            // In the same transaction, so that a crash leaves either all tasks and a completed operation, or none.
            let tasks = drafted.into_iter().map(|(task, _)| task).collect();
            let result = OperationResult::Tasks { operation, tasks };
            engine.complete_operation(&mut tx, &report, result, clock::now()).await?;
            engine.commit(tx).await?;
            Ok(None)
        })
        .await
    }

    async fn drafted_all(&self, drafts: Vec<TaskDraft>, now: Timestamp) -> Result<Vec<(Task, String)>, EngineError> {
        let count = drafts.len();
        let mut made: BTreeMap<String, TaskId> = BTreeMap::new();
        let mut ids = Vec::with_capacity(count);
        for (index, draft) in drafts.iter().enumerate() {
            let id = TaskId::from_uuid(Uuid::new_v4());
            ids.push(id);
            if let Some(reference) = &draft.reference
                && made.insert(reference.clone(), id).is_some()
            {
                let twice = EngineError::Invalid(format!("ref: {reference:?} is used twice"));
                return Err(twice.bulk_item(index, count));
            }
        }
        let (mut tasks, mut repos) = (Vec::with_capacity(count), BTreeMap::new());
        for (index, (draft, id)) in drafts.into_iter().zip(ids).enumerate() {
            let drafted = self.drafted(draft, id, &made, &mut repos, now);
            let task = drafted.await.map_err(|error| error.bulk_item(index, count))?;
            tasks.push(task);
        }
        Ok(tasks)
    }

    async fn drafted(
        &self,
        draft: TaskDraft,
        id: TaskId,
        made: &BTreeMap<String, TaskId>,
        repos: &mut BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<(Task, String), EngineError> {
        let by = checked_by(draft.by)?;
        let parent = match draft.parent {
            Some(name) => Some(self.named_task(&name, made).await?),
            None => None,
        };
        let mut depends_on = Vec::new();
        for name in &draft.depends_on {
            depends_on.push(self.named_task(name, made).await?);
        }
        let mut task = Task::new(id, &draft.title, now)?;
        let edit = TaskEdit {
            title: None,
            body: draft.body,
            kind: draft.kind,
            priority: draft.priority,
            parent: Some(parent),
            depends_on: Some(depends_on),
            tags: Some(draft.tags),
            base_branch: Some(draft.base_branch),
            harness: Some(draft.harness),
            args: Some(draft.args),
            workflow: Some(draft.workflow),
        };
        self.check_harness(edit.harness.as_ref())?;
        task.edit(edit, now)?;
        task.repo = match draft.repo {
            Some(folder) => Some(repo_of(folder, repos).await?),
            None => None,
        };
        Ok((task, by))
    }

    /// Rejects an unknown harness now rather than when the task starts.
    fn check_harness(&self, named: Option<&Option<String>>) -> Result<(), EngineError> {
        match named {
            Some(Some(id)) => self.known_harness(id).map(drop),
            Some(None) | None => Ok(()),
        }
    }

    async fn named_task(&self, name: &str, made: &BTreeMap<String, TaskId>) -> Result<TaskId, EngineError> {
        match made.get(name) {
            Some(id) => Ok(*id),
            None => self.find_task(name).await,
        }
    }

    /// Finds a task by its id or a unique prefix. Deleted tasks are not found.
    pub async fn find_task(&self, text: &str) -> Result<TaskId, EngineError> {
        let unknown = || EngineError::TaskNotFound(text.chars().take(64).collect());
        if text.is_empty() || text.len() > 36 || !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(unknown());
        }
        let mut found = self.store.task_ids_with_prefix(text, MAX_CANDIDATES + 1).await?;
        match found.len() {
            0 => Err(unknown()),
            1 => Ok(found.remove(0)),
            _ => {
                found.truncate(MAX_CANDIDATES);
                Err(EngineError::AmbiguousTask { prefix: text.to_owned(), candidates: found })
            }
        }
    }

    /// Returns a task and whether it can be started.
    pub async fn task(&self, text: &str) -> Result<(Task, Result<(), Vec<NotReady>>), EngineError> {
        let id = self.find_task(text).await?;
        let task = self.store.task(id).await?.ok_or_else(|| EngineError::TaskNotFound(id.to_string()))?;
        let readiness = task.readiness(&self.store.task_dependencies(id).await?);
        Ok((task, readiness))
    }

    pub async fn tasks(&self, query: &TaskQuery) -> Result<TaskPage, EngineError> {
        Ok(self.store.tasks(query).await?)
    }

    pub async fn task_history(
        &self,
        text: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<TaskHistoryEntry>, EngineError> {
        let id = self.find_task(text).await?;
        Ok(self.store.task_history(id, after, limit).await?)
    }

    pub async fn edit_task(&self, text: &str, patch: TaskPatch) -> Result<Task, EngineError> {
        let (by, made) = (checked_by(patch.by)?, BTreeMap::new());
        let mut edit = patch.fields;
        edit.parent = match patch.parent {
            Some(Some(name)) => Some(Some(self.named_task(&name, &made).await?)),
            Some(None) => Some(None),
            None => None,
        };
        if let Some(names) = patch.depends_on {
            let mut ids = Vec::new();
            for name in &names {
                ids.push(self.named_task(name, &made).await?);
            }
            edit.depends_on = Some(ids);
        }
        self.check_harness(edit.harness.as_ref())?;
        let changes_links = edit.parent.is_some() || edit.depends_on.is_some();
        let repo = match patch.repo {
            Some(Some(folder)) => Some(Some(repo_of(folder, &mut BTreeMap::new()).await?)),
            other => other,
        };
        let id = self.find_task(text).await?;
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let before = task.clone();
        task.edit(edit, now)?;
        if let Some(repo) = repo.filter(|repo| *repo != task.repo) {
            // The task's branch and worktree are in its current repository.
            if task.base_commit.is_some() {
                return Err(EngineError::Invalid(format!(
                    "cannot move task {id} to another repository after it was started; add a new task there"
                )));
            }
            task.repo = repo;
            task.updated_at = now.not_before(task.updated_at);
        }
        let changes = before.differences(&task);
        if changes_links {
            check_links(&mut tx, &[&task]).await?;
        }
        self.write_task(tx, task, "updated", changes, by, now).await
    }

    /// Closes a task, stops its agent and removes its worktree.
    pub async fn close_task(
        self: &Arc<Self>,
        text: &str,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Task, EngineError> {
        let task = self.move_task(text, TaskFact::Closed, reason, by).await?;
        if task.state == TaskState::Closed {
            self.spawn_worktree_cleanup(task.id);
        }
        Ok(task)
    }

    /// Stops a task's agent and returns the task to open.
    pub async fn release_task(self: &Arc<Self>, text: &str, by: Option<String>) -> Result<Task, EngineError> {
        self.move_task(text, TaskFact::Released, None, by).await
    }

    /// Stops a task's agent and blocks the task until a human unblocks it.
    pub async fn block_task(
        self: &Arc<Self>,
        text: &str,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Task, EngineError> {
        self.move_task(text, TaskFact::Blocked, reason, by).await
    }

    pub async fn unblock_task(self: &Arc<Self>, text: &str, by: Option<String>) -> Result<Task, EngineError> {
        self.move_task(text, TaskFact::Unblocked, None, by).await
    }

    /// Applies a client's state change. A running run of the task and its process are stopped first.
    async fn move_task(
        self: &Arc<Self>,
        text: &str,
        fact: TaskFact,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Task, EngineError> {
        let (by, id) = (checked_by(by)?, self.find_task(text).await?);
        let task = self.known_task(id).await?;
        task.state.after(fact)?;
        let kind = match fact {
            TaskFact::Closed => Some(StopKind::Close(reason.clone())),
            TaskFact::Released => Some(StopKind::Release),
            TaskFact::Blocked => Some(StopKind::Block(reason.clone())),
            _ => None,
        };
        let run = self.latest_workflow(id).await?.filter(|_| task.state == TaskState::InProgress);
        if let (Some(kind), Some(run)) = (kind, run) {
            self.stop_run(run.id, Stop { kind, by }).await?;
            return self.known_task(id).await;
        }
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let mut task = live_task(&mut tx, id).await?;
        let changes = task.apply(fact, reason.as_deref(), now)?;
        let event = match fact {
            TaskFact::Closed => "closed",
            TaskFact::Released => "released",
            TaskFact::Blocked => "blocked",
            _ => "unblocked",
        };
        // A blocked run cannot be retried once its task is closed.
        if fact == TaskFact::Closed
            && let Some(mut run) = tx.latest_workflow(id).await?
            && run.state == WorkflowState::Blocked
        {
            run.apply(WorkflowFact::Cancelled, Some("the task was closed".to_owned()), now)?;
            tx.record(Change::RunChanged { workflow: run, event: "cancelled" }, now).await?;
        }
        self.write_task(tx, task, event, changes, by, now).await
    }

    /// Records row, history and event. Does nothing without changes.
    async fn write_task(
        &self,
        mut tx: Box<dyn Tx>,
        task: Task,
        event: &'static str,
        changes: Vec<FieldChange>,
        by: String,
        now: Timestamp,
    ) -> Result<Task, EngineError> {
        if !changes.is_empty() {
            tx.record(Change::TaskChanged { task: task.clone(), event, changes, by }, now).await?;
            self.commit(tx).await?;
        }
        Ok(task)
    }

    /// Hides a task, and with `recursive` its subtasks, until retention deletes them. Fails for a task in progress and for
    /// a dependency of an open task. Returns the ids, subtasks first.
    pub async fn delete_task(
        self: &Arc<Self>,
        text: &str,
        recursive: bool,
        by: Option<String>,
    ) -> Result<Vec<TaskId>, EngineError> {
        let (by, now, id) = (checked_by(by)?, clock::now(), self.find_task(text).await?);
        let mut tx = self.store.begin().await?;
        let mut going = vec![id];
        let mut at = 0;
        while let Some(parent) = going.get(at).copied() {
            let children = tx.task_children(parent).await?;
            if !recursive && !children.is_empty() {
                return Err(EngineError::TaskHasChildren { id, count: children.len() });
            }
            going.extend(children);
            at += 1;
        }
        let all: BTreeSet<TaskId> = going.iter().copied().collect();
        going.reverse();
        for id in &going {
            let mut task = live_task(&mut tx, *id).await?;
            if task.state.is_at_work() {
                return Err(EngineError::TaskActive { id: *id, state: task.state });
            }
            let waiting = tx.task_dependents(*id).await?.into_iter().find(|other| !all.contains(other));
            if let Some(other) = waiting.filter(|_| task.state != TaskState::Closed) {
                return Err(EngineError::TaskHasDependents { id: *id, by: other });
            }
            let before = task.clone();
            task.deleted_at = Some(now);
            task.updated_at = now.not_before(task.updated_at);
            let changes = before.differences(&task);
            tx.record(Change::TaskChanged { task, event: "deleted", changes, by: by.clone() }, now).await?;
        }
        self.commit(tx).await?;
        going.iter().for_each(|id| self.spawn_worktree_cleanup(*id));
        Ok(going)
    }
}

/// Records new tasks, each with its author.
async fn write_drafted(
    tx: &mut Box<dyn Tx>,
    tasks: &[(Task, String)],
    operation: Option<OperationId>,
    now: Timestamp,
) -> Result<(), EngineError> {
    check_links(tx, &tasks.iter().map(|(task, _)| task).collect::<Vec<_>>()).await?;
    for (task, by) in tasks {
        let (task, changes, by) = (task.clone(), task.first_fields(), by.clone());
        let change = match operation {
            Some(operation) => Change::TaskAdded { task, changes, by, operation },
            None => Change::TaskChanged { task, event: "created", changes, by },
        };
        tx.record(change, now).await?;
    }
    Ok(())
}

pub(super) async fn live_task(tx: &mut Box<dyn Tx>, id: TaskId) -> Result<Task, EngineError> {
    let task = tx.task(id).await?.filter(|task| task.deleted_at.is_none());
    task.ok_or_else(|| EngineError::TaskNotFound(id.to_string()))
}

type LinksOf = fn(&Task) -> Vec<TaskId>;

/// Checks that the tasks which `tasks` name exist, and that their dependencies and parents form no cycle.
async fn check_links(tx: &mut Box<dyn Tx>, tasks: &[&Task]) -> Result<(), EngineError> {
    let known: BTreeMap<TaskId, &Task> = tasks.iter().map(|task| (task.id, *task)).collect();
    let mut found = BTreeSet::new();
    for (index, task) in tasks.iter().enumerate() {
        for other in task.depends_on.iter().chain(&task.parent) {
            if !known.contains_key(other) && found.insert(*other) {
                live_task(tx, *other).await.map_err(|error| error.bulk_item(index, tasks.len()))?;
            }
        }
    }
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let relations: [(_, LinksOf); 2] =
        [("depends on", |task| task.depends_on.clone()), ("is below", |task| task.parent.into_iter().collect())];
    for (relation, links_of) in relations {
        let links = links_from(tx, &known, links_of).await?;
        if let Some((index, way)) = links::find_cycle(&links, &ids) {
            // The ids of tasks that were not created mean nothing to the client.
            let name = |id: &TaskId| match known.get(id) {
                Some(task) if tasks.len() > 1 => format!("{:?}", task.title),
                _ => id.short(),
            };
            let way = way.iter().map(name).collect();
            return Err(EngineError::TaskCycle { relation, way }.bulk_item(index, tasks.len()));
        }
    }
    Ok(())
}

/// Returns all links reachable from `known`, which are the tasks after the change.
async fn links_from(
    tx: &mut Box<dyn Tx>,
    known: &BTreeMap<TaskId, &Task>,
    links_of: LinksOf,
) -> Result<Links, EngineError> {
    let mut links = Links::new();
    let mut open: Vec<TaskId> = known.keys().copied().collect();
    while let Some(id) = open.pop() {
        if links.contains_key(&id) {
            continue;
        }
        let next = match known.get(&id) {
            Some(task) => links_of(task),
            None => tx.task(id).await?.as_ref().map(links_of).unwrap_or_default(),
        };
        open.extend(&next);
        links.insert(id, next.into_iter().collect());
    }
    Ok(links)
}

/// Returns the top folder of the repository that contains `folder`. Cached, because most tasks of a batch share it.
async fn repo_of(folder: String, known: &mut BTreeMap<String, String>) -> Result<String, EngineError> {
    if let Some(top) = known.get(&folder) {
        return Ok(top.clone());
    }
    let place = folder.clone();
    let top = with_git(move || top_of(Path::new(&place))).await?.to_string_lossy().into_owned();
    known.insert(folder, top.clone());
    Ok(top)
}

/// Checks the actor's name for the history.
pub(super) fn checked_by(by: Option<String>) -> Result<String, EngineError> {
    let by = by.unwrap_or_else(|| "user".to_owned());
    match by.is_empty() || by.chars().count() > MAX_BY_CHARS || by.contains(char::is_control) {
        true => {
            Err(EngineError::Invalid(format!("by: must be 1 to {MAX_BY_CHARS} characters without control characters")))
        }
        false => Ok(by),
    }
}
