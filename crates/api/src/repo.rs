//! Repositories on the wire, in `/api/v1` and in the compatibility API.

use coven_domain::repo::Repo;
use coven_domain::{RepoId, Timestamp};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// A Git repository that sessions are bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Repo"))]
pub struct RepoRecord {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: RepoId,
    pub name: String,
    /// Absolute, without symbolic links.
    pub path: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::DateTime>"))]
    pub removed_at: Option<Timestamp>,
}

impl From<&Repo> for RepoRecord {
    fn from(repo: &Repo) -> Self {
        Self {
            id: repo.id,
            name: repo.name.clone(),
            path: repo.path.clone(),
            created_at: repo.created_at,
            removed_at: repo.removed_at,
        }
    }
}

/// `POST /api/v1/repos` and `POST /api/repos`. A path that is registered already gives the repo it has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AddRepoRequest {
    /// An absolute path of the repository or of a folder in it.
    pub path: String,
    /// The folder's name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A repository in the compatibility API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CompatRepo"))]
#[serde(rename_all = "camelCase")]
pub struct CompatRepoRecord {
    #[cfg_attr(feature = "schema", schemars(with = "schema::Id"))]
    pub id: RepoId,
    pub name: String,
    /// Absolute, without symbolic links.
    pub path: String,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub created_at: Timestamp,
}

impl From<&Repo> for CompatRepoRecord {
    fn from(repo: &Repo) -> Self {
        Self { id: repo.id, name: repo.name.clone(), path: repo.path.clone(), created_at: repo.created_at }
    }
}

/// `GET /api/repos`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompatRepoListResponse {
    pub repos: Vec<CompatRepoRecord>,
}
