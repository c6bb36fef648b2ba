//! Workflow runs: a run claims a task and executes its steps as sessions in the task's worktree. The result of each
//! step is stored before the next step starts.

mod check;
pub mod claim;
mod driver;
mod launch;
pub mod merge;
pub mod recover;
mod step_wait;
mod transitions;
mod worktree_cleanup;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use coven_domain::agent::Agent;
use coven_domain::query::{AgentQuery, Page, RowPlace, WorkflowQuery};
use coven_domain::task::Task;
use coven_domain::workflow::WorkflowRun;
use coven_domain::{AgentId, TaskId, WorkflowId};
use coven_files::Links;
use coven_host::git::{CancelToken, GitError, Repository, Worktree};
use coven_host::home::WORKFLOW_FILE;
use coven_host::trust;
use coven_workflow::{BUILT_IN, WorkflowDefinition};
use tokio::sync::watch;

pub use claim::Claimed;
pub use coven_domain::workflow::{Stop, StopKind};
pub use transitions::titled;

use super::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;

/// Number of candidate ids in an error message.
const MAX_CANDIDATES: usize = 5;

/// The workflow runs of this daemon.
#[derive(Default)]
pub(super) struct RunRegistry {
    /// Stop channel for each active run; the driver or merger holds the receiver.
    active: Arc<Mutex<HashMap<WorkflowId, watch::Sender<Option<Stop>>>>>,
    /// Serializes merges per repository, in the order of arrival.
    merging: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    /// Serializes worktree cleanup per task, so that no cleanup reads a folder that another one is deleting.
    cleanups: Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>>,
    /// The environment of the shell that started each open task. Kept in memory only: it may contain secrets.
    environments: Mutex<HashMap<TaskId, BTreeMap<String, String>>>,
}

/// Exclusive guard of a run for its driver or merger; dropping it releases the run.
struct RunGuard {
    id: WorkflowId,
    stop: watch::Receiver<Option<Stop>>,
    active: Arc<Mutex<HashMap<WorkflowId, watch::Sender<Option<Stop>>>>>,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl RunRegistry {
    /// Returns the guard of a run, or `None` if the run already has a driver or merger.
    fn try_acquire(&self, id: WorkflowId) -> Option<RunGuard> {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if active.contains_key(&id) {
            return None;
        }
        let sender = watch::Sender::new(None);
        let stop = sender.subscribe();
        active.insert(id, sender);
        Some(RunGuard { id, stop, active: self.active.clone() })
    }

    /// Locks the worktree cleanup of one task. The lock is per task, so a
    /// repository that hangs does not block the others.
    async fn cleanup_lock(&self, id: TaskId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut cleanups = self.cleanups.lock().unwrap_or_else(PoisonError::into_inner);
            cleanups.retain(|_, turn| Arc::strong_count(turn) > 1);
            cleanups.entry(id).or_default().clone()
        };
        turn.lock_owned().await
    }

    /// Sets the environment for all later steps of the task.
    fn keep_environment(&self, id: TaskId, env: BTreeMap<String, String>) {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).insert(id, env);
    }

    fn forget_environment(&self, id: TaskId) {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Returns the environment of the shell that started the task, unless the daemon has restarted since.
    pub(super) fn environment_of(&self, id: TaskId) -> Option<BTreeMap<String, String>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn is_active(&self, id: WorkflowId) -> bool {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&id)
    }

    /// Returns the stop sender, which closes when the run's guard is dropped.
    fn stop_sender(&self, id: WorkflowId) -> Option<watch::Sender<Option<Stop>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Requests a stop. Returns the stop sender, which closes when the run's guard is dropped.
    fn request_stop(&self, id: WorkflowId, stop: &Stop) -> Option<watch::Sender<Option<Stop>>> {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = active.get(&id)?;
        driver.send_if_modified(|requested| {
            let is_first = requested.is_none();
            if is_first {
                *requested = Some(stop.clone());
            }
            is_first
        });
        Some(driver.clone())
    }

    fn queue_of(&self, repository: &Repository) -> Arc<tokio::sync::Mutex<()>> {
        let mut merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        merging.entry(repository.top().to_owned()).or_default().clone()
    }
}

/// Waits for a stop request.
async fn stop_requested(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.ok().and_then(|requested| requested.clone()) {
        Some(asked) => asked,
        None => std::future::pending().await,
    }
}

/// Returns the name of a task's branch.
pub fn branch_of(task: TaskId) -> String {
    format!("coven/{task}")
}

impl Engine {
    pub(crate) fn worktree_dir(&self, task: TaskId) -> PathBuf {
        self.home.path().join("worktrees").join(task.to_string())
    }

    /// Returns the path of a task's worktree if the folder exists.
    pub fn worktree_path(&self, task: TaskId) -> Option<String> {
        Some(self.worktree_dir(task)).filter(|folder| folder.exists()).map(|folder| folder.display().to_string())
    }

    /// Returns the worktree of a task; its folder may not exist.
    pub(crate) async fn worktree_of(&self, task: &Task) -> Result<Worktree, EngineError> {
        let repo = task.repo.clone().map(PathBuf::from).or_else(|| self.home.project_root());
        let repo = repo.ok_or_else(|| {
            EngineError::Invalid(format!(
                "the task has no repository; set one with `coven task edit {} --repo DIR`",
                task.id
            ))
        })?;
        let (folder, branch, id) = (self.worktree_dir(task.id), branch_of(task.id), task.id);
        let found = with_git(move || {
            // The task may have been created in a linked worktree that was moved or deleted since. The task's own
            // worktree still links to the repository.
            let found = Repository::of(&repo);
            let repository = found.or_else(|error| Repository::of_worktree(&folder).map_err(|_| error))?;
            Ok(repository.worktree(&folder, &branch))
        })
        .await;
        found.map_err(|error| match error {
            EngineError::Git(GitError::NotARepository(path)) => EngineError::TaskOutsideGit { id, path },
            other => other,
        })
    }

    /// Returns a workflow's definition and the text of its file.
    pub async fn definition(&self, name: Option<&str>) -> Result<(WorkflowDefinition, String), EngineError> {
        let name = name.unwrap_or(BUILT_IN.0);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(self.unknown_definition(name));
        }
        let folder = self.home.path().join("grimoires");
        let file =
            ["yaml", "yml"].map(|ending| folder.join(format!("{name}.{ending}"))).into_iter().find(|it| it.is_file());
        let text = match (&file, name == BUILT_IN.0) {
            (Some(file), _) => coven_files::read_text(file, WORKFLOW_FILE, Links::Refuse)
                .map_err(|error| EngineError::Invalid(error.to_string()))?,
            (None, true) => BUILT_IN.1.to_owned(),
            (None, false) => return Err(self.unknown_definition(name)),
        };
        let read = WorkflowDefinition::parse(name, &text);
        let read = read.map_err(|problems| EngineError::BadDefinition { name: name.to_owned(), problems })?;
        if let Some(file) = file.and_then(|file| file.file_name()?.to_str().map(str::to_owned)) {
            let (home, definition, content) = (self.home.clone(), read.clone(), text.clone());
            let name = file.clone();
            let asked = move || Ok(trust::workflow_is_allowed(&home, &name, &definition, &content));
            let is_allowed = with_git(asked).await?;
            if !is_allowed {
                return Err(EngineError::untrusted(format!("the workflow file grimoires/{file}"), &self.home));
            }
        }
        Ok((read, text))
    }

    fn unknown_definition(&self, name: &str) -> EngineError {
        let mut known: Vec<String> = std::fs::read_dir(self.home.path().join("grimoires"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().to_str()?.to_owned();
                name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml")).map(str::to_owned)
            })
            .chain([BUILT_IN.0.to_owned()])
            .collect();
        known.sort();
        known.dedup();
        EngineError::UnknownDefinition { name: name.chars().take(64).collect(), known: known.join(", ") }
    }

    /// Finds a run by its id or a unique prefix. The id of a task selects the task's newest run.
    pub async fn find_workflow(&self, text: &str) -> Result<WorkflowRun, EngineError> {
        let unknown = || EngineError::WorkflowNotFound(text.chars().take(64).collect());
        if text.is_empty() || text.len() > 36 || !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(unknown());
        }
        let found = self.store.workflow_ids_with_prefix(text, MAX_CANDIDATES + 1).await?;
        match found.len() {
            1 => self.store.workflow(found[0]).await?.ok_or_else(unknown),
            0 => {
                let task = self.find_task(text).await.map_err(|_| unknown())?;
                self.latest_workflow(task).await?.ok_or_else(unknown)
            }
            _ => {
                let candidates = found.into_iter().take(MAX_CANDIDATES).map(|id| id.to_string()).collect();
                Err(EngineError::AmbiguousItem { what: "workflow runs", prefix: text.to_owned(), candidates })
            }
        }
    }

    pub async fn latest_workflow(&self, task: TaskId) -> Result<Option<WorkflowRun>, EngineError> {
        let query = WorkflowQuery { task: Some(task), limit: 1, ..WorkflowQuery::default() };
        Ok(self.store.workflows(&query).await?.items.pop())
    }

    pub async fn workflows(&self, query: &WorkflowQuery) -> Result<Page<WorkflowRun>, EngineError> {
        Ok(self.store.workflows(query).await?)
    }

    pub async fn agents(
        &self,
        query: AgentQuery,
        after: Option<RowPlace>,
        limit: usize,
    ) -> Result<Page<Agent>, EngineError> {
        Ok(self.store.agents(query, after, limit).await?)
    }

    pub async fn agent(&self, text: &str) -> Result<Agent, EngineError> {
        let unknown = || EngineError::AgentNotFound(text.chars().take(64).collect());
        let id: AgentId = text.parse().map_err(|_| unknown())?;
        self.store.agent(id).await?.ok_or_else(unknown)
    }

    pub(super) async fn known_task(&self, id: TaskId) -> Result<Task, EngineError> {
        self.store.task(id).await?.ok_or_else(|| EngineError::TaskNotFound(id.to_string()))
    }
}

/// Runs git on a blocking thread.
pub(crate) async fn with_git<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, EngineError> {
    Ok(blocking(work).await?)
}

/// Like `with_git`. When `stopping` completes, the running git command is killed and the call fails with
/// `GitError::Stopped`.
pub(crate) async fn with_git_unless<T: Send + 'static>(
    stopping: impl Future,
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, EngineError> {
    let cancel = CancelToken::default();
    // A daemon that shuts down drops this future without polling `stopping`.
    let _dropped = cancel.on_drop();
    let work = with_git({
        let cancel = cancel.clone();
        move || cancel.run(work)
    });
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done,
        _ = stopping => {
            cancel.cancel();
            work.await
        }
    }
}
