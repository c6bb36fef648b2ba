//! Worktrees that nobody needs any more: what is only there is kept under a ref, then folder and branch go.

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

/// A moment as a part of a ref's name.
fn moment_name() -> String {
    clock::now().to_string().replace([':', '.'], "-")
}

impl Engine {
    /// Once nobody needs a task's worktree any more.
    pub(crate) fn tidy_worktree_later(self: &Arc<Self>, id: TaskId) {
        let engine = self.clone();
        // What it does not come to is swept with the next retention.
        self.background.spawn(async move {
            if let Ok(task) = engine.known_task(id).await
                && (task.state == TaskState::Closed || task.deleted_at.is_some())
            {
                engine.put_worktree_away(&task).await;
            }
        });
    }

    /// Prompts that were written for agents which are over.
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

    /// Worktrees that nobody needs and that were not put away when their task ended.
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
                    self.put_worktree_away(&task).await;
                }
                Some(_) => {}
                None => {
                    let name = format!("{id}/{}", moment_name());
                    let branch = branch_of(id);
                    let _turn = self.runs.tidying_turn(id).await;
                    // A daemon that stops takes its git along; what is not put away then is, after the next start.
                    let put = with_git_unless(self.stopped(), move || {
                        Repository::of_worktree(&folder)?.worktree(&folder, &branch).put_away("HEAD", &name)
                    });
                    if let Err(error) = put.await {
                        tracing::warn!(task = %id, %error, "the worktree of a deleted task stays where it is");
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes folder and branch away; what is only there is kept under a ref.
    pub(crate) async fn put_worktree_away(&self, task: &Task) {
        self.runs.forget_environment(task.id);
        let _turn = self.runs.tidying_turn(task.id).await;
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
        let name = format!("{}/{}", task.id, moment_name());
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
                tracing::info!(task = %task.id, reference, "work that was not merged is kept");
                let event = Change::Noted {
                    kind: "task.rescued".to_owned(),
                    subject: task.id.to_string(),
                    payload: serde_json::json!({ "task_id": task.id, "ref": reference }),
                };
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
        tracing::warn!(task = %task.id, %error, "a worktree stays where it is");
        self.report_problem(&format!("the worktree of task {} was left alone: {error}", task.id.short()));
    }
}
