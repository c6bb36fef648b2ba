//! Removes worktrees of finished tasks. Unmerged work is saved under a ref before folder and branch are deleted.

use std::sync::Arc;

use coven_domain::task::{Task, TaskState};
use coven_domain::{AgentId, TaskId};
use coven_holder::clock;
use coven_host::git::{GitError, Repository, Rescued};
use coven_store::Change;

use super::launch::PROMPT_FILE;
use super::{branch_of, with_git_unless};
use crate::Engine;
use crate::error::EngineError;

/// Returns the current time in a form that is valid in a ref name.
fn rescue_ref_suffix() -> String {
    clock::now().to_string().replace([':', '.'], "-")
}

impl Engine {
    /// Removes the worktree of a closed or deleted task in the background.
    pub(crate) fn spawn_worktree_cleanup(self: &Arc<Self>, id: TaskId) {
        let engine = self.clone();
        // If the daemon stops first, the next retention pass removes the worktree.
        self.background.spawn(async move {
            if let Ok(task) = engine.known_task(id).await
                && (task.state == TaskState::Closed || task.deleted_at.is_some())
            {
                engine.rescue_and_remove_worktree(&task).await;
            }
        });
    }

    /// Deletes the prompt files of ended agents.
    async fn sweep_prompts(&self) -> Result<(), EngineError> {
        let Ok(entries) = std::fs::read_dir(self.home.path().join("worktrees")) else { return Ok(()) };
        for entry in entries.flatten() {
            let agent: Option<AgentId> =
                entry.file_name().to_str().and_then(|name| name.strip_prefix(PROMPT_FILE)?.parse().ok());
            let Some(agent) = agent else { continue };
            if self.store.agent(agent).await?.is_none_or(|agent| agent.is_over()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Removes worktrees that were not removed when their task ended.
    pub(crate) async fn sweep_worktrees(&self) -> Result<(), EngineError> {
        let folder = self.home.path().join("worktrees");
        let names = tokio::task::spawn_blocking(move || -> Vec<(TaskId, std::path::PathBuf)> {
            let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
            let named = |entry: std::fs::DirEntry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()));
            entries.flatten().filter_map(named).collect()
        })
        .await
        .unwrap_or_default();
        self.sweep_prompts().await?;
        for (id, folder) in names {
            match self.store.task(id).await? {
                Some(task) if task.state == TaskState::Closed || task.deleted_at.is_some() => {
                    self.rescue_and_remove_worktree(&task).await;
                }
                Some(_) => {}
                None => {
                    let name = format!("{id}/{}", rescue_ref_suffix());
                    let branch = branch_of(id);
                    let _turn = self.runs.cleanup_lock(id).await;
                    // A stopping daemon kills its git commands; the next daemon removes the remaining worktrees.
                    let put = with_git_unless(self.stopped(), move || {
                        Repository::of_worktree(&folder)?.worktree(&folder, &branch).put_away("HEAD", &name)
                    });
                    if let Err(error) = put.await {
                        tracing::warn!(task = %id, %error, "cannot remove the worktree of a deleted task");
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes a task's worktree and branch after saving unmerged work under a ref.
    pub(crate) async fn rescue_and_remove_worktree(&self, task: &Task) {
        self.runs.forget_environment(task.id);
        let _turn = self.runs.cleanup_lock(task.id).await;
        let worktree = match self.worktree_of(task).await {
            Ok(worktree) => worktree,
            Err(error) => {
                if self.worktree_dir(task.id).exists() {
                    self.report_left_worktree(task, &error);
                }
                return;
            }
        };
        let base = task.base_branch.clone().unwrap_or_else(|| "HEAD".to_owned());
        let base = task.base_commit.clone().map_or_else(|| base.clone(), |_| format!("refs/heads/{base}"));
        let name = format!("{}/{}", task.id, rescue_ref_suffix());
        let moment = clock::now();
        let result = with_git_unless(self.stopped(), move || {
            if !worktree.exists()
                && worktree.repository.commit_of(&format!("refs/heads/{}", worktree.branch))?.is_none()
            {
                return Ok(Rescued::Nothing);
            }
            worktree.put_away(&base, &name)
        })
        .await;
        match result {
            Ok(Rescued::Nothing) => {}
            Ok(Rescued::Under(reference)) => {
                tracing::info!(task = %task.id, reference, "saved unmerged work under a ref");
                let event = Change::TaskRescued { task: task.clone(), reference };
                if let Ok(mut tx) = self.store.begin().await
                    && tx.record(event, moment).await.is_ok()
                {
                    let _ = self.commit(tx).await;
                }
            }
            Err(EngineError::Git(GitError::Stopped { .. })) => {}
            Err(error) => self.report_left_worktree(task, &error),
        }
    }

    fn report_left_worktree(&self, task: &Task, error: &EngineError) {
        tracing::warn!(task = %task.id, %error, "cannot remove a worktree");
        self.report_problem(&format!("cannot remove the worktree of task {}: {error}", task.id.short()));
    }
}
