//! Adds, lists and removes the repositories that sessions are bound to.

use std::path::{Path, PathBuf};

use coven_domain::RepoId;
use coven_domain::repo::Repo;
use coven_domain::text::Title;
use coven_holder::clock;
use coven_host::WorkDirError;
use coven_host::git::{self, GitError};
use coven_store::Change;
use uuid::Uuid;

use super::Engine;
use crate::error::EngineError;

impl Engine {
    /// Registers the Git repository that contains `path`. A repository that is already registered is returned, and gets
    /// the name if one is given. The second value is true if the repository is new.
    pub async fn add_repo(&self, path: &Path, name: Option<&str>) -> Result<(Repo, bool), EngineError> {
        if !path.is_absolute() {
            return Err(EngineError::Invalid(format!(
                "path: {} is not absolute; use an absolute path",
                path.display()
            )));
        }
        let name = name.map(Title::parse).transpose()?.map(Title::into_string);
        let top = self.top_of(path).await?;
        let folder_name = || top.file_name().map_or_else(|| "repo".into(), |name| name.to_string_lossy().into_owned());
        let now = clock::now();
        let Some(text) = top.to_str() else {
            return Err(EngineError::Invalid(format!("path: {} is not UTF-8; rename the folder", top.display())));
        };
        let mut tx = self.store.begin().await?;
        if let Some(mut repo) = tx.repo_at(text).await? {
            if repo.removed_at.take().is_some() {
                repo.name = name.unwrap_or_else(folder_name);
                tx.record(Change::RepoChanged { repo: repo.clone(), event: "added" }, now).await?;
                self.commit(tx).await?;
                return Ok((repo, true));
            }
            if let Some(name) = name.filter(|name| *name != repo.name) {
                repo.name = name;
                tx.record(Change::RepoChanged { repo: repo.clone(), event: "renamed" }, now).await?;
                self.commit(tx).await?;
            }
            return Ok((repo, false));
        }
        let id = RepoId::from_uuid(Uuid::new_v4());
        let name = name.unwrap_or_else(folder_name);
        let repo = Repo { id, name, path: text.to_owned(), created_at: now, removed_at: None };
        tx.record(Change::RepoAdded(repo.clone()), now).await?;
        self.commit(tx).await?;
        Ok((repo, true))
    }

    /// Returns the top folder of the repository that contains a path. Both must be inside the workspace.
    async fn top_of(&self, asked: &Path) -> Result<PathBuf, EngineError> {
        let real = std::fs::canonicalize(asked).map_err(|_| WorkDirError::Missing(asked.to_owned()))?;
        self.ensure_in_workspace(asked, &real)?;
        let top = tokio::task::spawn_blocking(move || git::top_of(&real)).await.expect("git does not panic")?;
        self.ensure_in_workspace(asked, &top)?;
        Ok(top)
    }

    /// Fails unless the canonical path is inside the workspace. Logs the attempt with the requested path.
    fn ensure_in_workspace(&self, asked: &Path, real: &Path) -> Result<(), EngineError> {
        let root = &self.workspace_root;
        if real.starts_with(root) {
            return Ok(());
        }
        tracing::warn!(
            asked = %asked.display(), path = %real.display(), root = %root.display(),
            "a client requested a repository outside the workspace"
        );
        Err(EngineError::RepoOutsideRoot { path: real.to_owned(), root: root.clone() })
    }

    pub async fn repos(&self) -> Result<Vec<Repo>, EngineError> {
        Ok(self.store.repos().await?)
    }

    /// Returns a repository that was not removed.
    pub async fn repo(&self, id: RepoId) -> Result<Repo, EngineError> {
        let repo = self.store.repo(id).await?.filter(|repo| repo.removed_at.is_none());
        repo.ok_or(EngineError::RepoNotFound(id))
    }

    /// Returns a repository for a new session: not removed, existing, and still the top of a repository in the workspace.
    pub(crate) async fn usable_repo(&self, id: RepoId) -> Result<Repo, EngineError> {
        let repo = self.repo(id).await?;
        let path = Path::new(&repo.path).to_owned();
        let top = self.top_of(&path).await?;
        match top == path {
            true => Ok(repo),
            // It was replaced by a link, or became a folder of another repository.
            false => Err(GitError::NotARepository(path).into()),
        }
    }

    /// Removes a repository from the list. Fails while a session uses it. The files stay.
    pub async fn remove_repo(&self, id: RepoId) -> Result<Repo, EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let repo = tx.repo(id).await?.filter(|repo| repo.removed_at.is_none());
        let mut repo = repo.ok_or(EngineError::RepoNotFound(id))?;
        let sessions = tx.active_sessions_of(id).await?;
        if sessions > 0 {
            return Err(EngineError::RepoInUse { id, sessions });
        }
        repo.removed_at = Some(now);
        tx.record(Change::RepoChanged { repo: repo.clone(), event: "removed" }, now).await?;
        self.commit(tx).await?;
        Ok(repo)
    }
}
