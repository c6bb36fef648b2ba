//! Runs of workflows: a task is claimed, its steps are sessions in its worktree, and every step's end is in the store before the
//! next one begins.

mod check;
pub mod claim;
mod drive;
mod ending;
mod launch;
pub mod merge;
pub mod recover;
mod tidy;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use coven_domain::agent::Agent;
use coven_domain::query::{AgentQuery, WorkflowQuery};
use coven_domain::task::Task;
use coven_domain::workflow::Workflow;
use coven_domain::{AgentId, TaskId, WorkflowId};
use coven_files::Links;
use coven_host::git::{Cancel, GitError, Repository, Worktree};
use coven_host::home::WORKFLOW_FILE;
use coven_host::trust;
use coven_workflow::{BUILT_IN, Definition};
use tokio::sync::watch;

pub use claim::Claimed;
pub use ending::titled;
pub use ending::{Stop, StopKind};

use super::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;

/// How many ids a message names.
const SHOWN: usize = 5;

/// What runs in this daemon.
#[derive(Default)]
pub(super) struct Runs {
    /// Whoever drives a run, or merges it, listens here for a word to stop.
    taken: Arc<Mutex<HashMap<WorkflowId, watch::Sender<Option<Stop>>>>>,
    /// One merge at a time for each repository; whoever waits is served in order.
    merging: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    /// The tasks whose worktrees are being put away: what one takes away, another must not look into.
    tidying: Mutex<HashMap<TaskId, Arc<tokio::sync::Mutex<()>>>>,
    /// The environments of the shells that started tasks which are not closed yet. Only here: never in the store or a file.
    environments: Mutex<HashMap<TaskId, BTreeMap<String, String>>>,
}

/// A run that somebody looks after, until this is dropped.
struct TakenUp {
    id: WorkflowId,
    word: watch::Receiver<Option<Stop>>,
    taken: Arc<Mutex<HashMap<WorkflowId, watch::Sender<Option<Stop>>>>>,
}

impl Drop for TakenUp {
    fn drop(&mut self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Runs {
    /// Nothing if somebody looks after it already.
    fn take_up(&self, id: WorkflowId) -> Option<TakenUp> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains_key(&id) {
            return None;
        }
        let sender = watch::Sender::new(None);
        let word = sender.subscribe();
        taken.insert(id, sender);
        Some(TakenUp { id, word, taken: self.taken.clone() })
    }

    /// One at a time for each task; whichever repository hangs, the others go on.
    async fn tidying_turn(&self, id: TaskId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = {
            let mut tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
            tidying.retain(|_, turn| Arc::strong_count(turn) > 1);
            tidying.entry(id).or_default().clone()
        };
        turn.lock_owned().await
    }

    /// All steps of the task get this environment from now on.
    fn keep_environment(&self, id: TaskId, env: BTreeMap<String, String>) {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).insert(id, env);
    }

    fn forget_environment(&self, id: TaskId) {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The environment of the shell that started the task, if this daemon was running then.
    pub(super) fn environment_of(&self, id: TaskId) -> Option<BTreeMap<String, String>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn is_taken(&self, id: WorkflowId) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&id)
    }

    /// What is closed once nobody looks after it any more.
    fn holder_of(&self, id: WorkflowId) -> Option<watch::Sender<Option<Stop>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Tells whoever looks after it to stop; gives what is closed once nobody does any more.
    fn tell_to_stop(&self, id: WorkflowId, stop: &Stop) -> Option<watch::Sender<Option<Stop>>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = taken.get(&id)?;
        driver.send_if_modified(|word| {
            let is_first = word.is_none();
            if is_first {
                *word = Some(stop.clone());
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

/// Waits for a word to stop.
async fn word(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.ok().and_then(|word| word.clone()) {
        Some(asked) => asked,
        None => std::future::pending().await,
    }
}

/// The branch of a task's work.
pub fn branch_of(task: TaskId) -> String {
    format!("coven/{task}")
}

impl Engine {
    pub(crate) fn worktree_dir(&self, task: TaskId) -> PathBuf {
        self.home.path().join("worktrees").join(task.to_string())
    }

    /// Where a task is worked on, as long as that is there.
    pub fn worktree_path(&self, task: TaskId) -> Option<String> {
        Some(self.worktree_dir(task)).filter(|folder| folder.exists()).map(|folder| folder.display().to_string())
    }

    /// The worktree of a task, whether it is there or not.
    pub(crate) async fn worktree_of(&self, task: &Task) -> Result<Worktree, EngineError> {
        let repo = task.repo.clone().map(PathBuf::from).or_else(|| self.home.project_root());
        let repo = repo.ok_or_else(|| {
            EngineError::Invalid(format!(
                "the task belongs to no repository; name one with `coven task edit {} --repo DIR`",
                task.id
            ))
        })?;
        let (folder, branch, id) = (self.worktree_dir(task.id), branch_of(task.id), task.id);
        let found = with_git(move || {
            // Made in a linked work tree that is gone, or moved: its own still knows where it belongs.
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

    /// A workflow's file, and what it says.
    pub async fn definition(&self, name: Option<&str>) -> Result<(Definition, String), EngineError> {
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
        let read = Definition::parse(name, &text);
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

    /// The run of that id, or the only one whose id begins so; a task's id stands for its newest run.
    pub async fn find_workflow(&self, text: &str) -> Result<Workflow, EngineError> {
        let unknown = || EngineError::WorkflowNotFound(text.chars().take(64).collect());
        if text.is_empty() || text.len() > 36 || !text.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
            return Err(unknown());
        }
        let found = self.store.workflow_ids_with_prefix(text, SHOWN + 1).await?;
        match found.len() {
            1 => self.store.workflow(found[0]).await?.ok_or_else(unknown),
            0 => {
                let task = self.find_task(text).await.map_err(|_| unknown())?;
                self.latest_workflow(task).await?.ok_or_else(unknown)
            }
            _ => {
                let candidates = found.into_iter().take(SHOWN).map(|id| id.to_string()).collect();
                Err(EngineError::AmbiguousItem { what: "workflow runs", prefix: text.to_owned(), candidates })
            }
        }
    }

    pub async fn latest_workflow(&self, task: TaskId) -> Result<Option<Workflow>, EngineError> {
        let query = WorkflowQuery { task: Some(task), limit: 1, ..WorkflowQuery::default() };
        Ok(self.store.workflows(&query).await?.pop())
    }

    pub async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<Workflow>, EngineError> {
        Ok(self.store.workflows(query).await?)
    }

    pub async fn agents(&self, query: AgentQuery) -> Result<Vec<Agent>, EngineError> {
        Ok(self.store.agents(query).await?)
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

/// git waits for the disk: beside the runtime's own threads.
pub(crate) async fn with_git<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, EngineError> {
    Ok(blocking(work).await?)
}

/// The same until `stopping` comes back: then the call of git that is under way is ended, and this fails as stopped.
pub(crate) async fn with_git_unless<T: Send + 'static>(
    stopping: impl Future,
    work: impl FnOnce() -> Result<T, GitError> + Send + 'static,
) -> Result<T, EngineError> {
    let cancel = Cancel::default();
    // A daemon that ends drops this before anybody is asked.
    let _dropped = cancel.on_drop();
    let work = with_git({
        let cancel = cancel.clone();
        move || cancel.unless(work)
    });
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done,
        _ = stopping => {
            cancel.now();
            work.await
        }
    }
}
