//! A row of the browser: a session as the daemon sends it, or a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Sessions and conversations have different states, so the browser keeps them as words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub kind: String,
    pub id: String,
    pub harness: String,
    pub channel: String,
    pub title: String,
    pub status: String,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub cwd: String,
    pub created_at: String,
    pub updated_at: String,
    pub archived_at: Option<String>,
    pub metadata: Map<String, Value>,
    pub actions: Vec<String>,
}
