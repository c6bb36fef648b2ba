//! A Git repository that sessions are bound to.

use serde::{Deserialize, Serialize};

use crate::{RepoId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repo {
    pub id: RepoId,
    pub name: String,
    pub path: String,
    pub created_at: Timestamp,
    /// When the repository was removed from the list. Sessions bound to it still show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<Timestamp>,
}
