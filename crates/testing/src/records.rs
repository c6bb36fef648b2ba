//! Records as plain JSON, like a client in another language reads them, so that tests do not depend on coven's types.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRecord {
    pub kind: String,
    pub id: String,
    pub harness: String,
    pub channel: String,
    pub title: String,
    pub status: String,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub project_root: String,
    pub cwd: String,
    pub repo_id: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub archived_at: Option<String>,
    pub activity: Option<String>,
    pub activity_since: Option<String>,
    pub activity_source: Option<String>,
    pub activity_detail: Option<String>,
    pub activity_until: Option<String>,
    pub unseen: bool,
    pub metadata: Map<String, Value>,
    pub actions: Vec<String>,
}

/// A session of the compatibility API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompatSessionRecord {
    pub id: String,
    pub repo_id: Option<String>,
    pub status: String,
    pub created_at: String,
    pub updated_at: String,
    pub harness: String,
    pub title: String,
    pub metadata: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CompatSessionList {
    pub sessions: Vec<CompatSessionRecord>,
    pub total: u64,
    pub limit: usize,
    pub offset: usize,
}

/// A repository of the compatibility API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RepoRecord {
    pub id: String,
    pub name: String,
    pub path: String,
    pub created_at: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RepoList {
    pub repos: Vec<RepoRecord>,
}
