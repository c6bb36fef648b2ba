//! Repos on the wire: the AGENT interface's names, camelCase.

use coven_domain::repo::Repo;
use serde::{Deserialize, Serialize};

/// A Git repository that sessions are bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RepoRecord {
    pub id: String,
    pub name: String,
    /// Absolute, without symbolic links.
    pub path: String,
    pub created_at: String,
}

impl From<&Repo> for RepoRecord {
    fn from(repo: &Repo) -> Self {
        Self {
            id: repo.id.to_string(),
            name: repo.name.clone(),
            path: repo.path.clone(),
            created_at: repo.created_at.to_string(),
        }
    }
}

/// `POST /api/repos`. A path that is registered already gives the repo it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AddRepoRequest {
    /// An absolute path; anything inside a repository stands for its top folder.
    pub path: String,
    /// The folder's name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RepoListResponse {
    pub repos: Vec<RepoRecord>,
}
