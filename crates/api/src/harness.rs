//! Harnesses on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HarnessRecord {
    pub id: String,
    pub label: String,
    pub program: String,
    /// How it is started in a terminal, or over ACP where it has no terminal; `{prompt}` stands for the prompt.
    pub argv: Vec<String>,
    pub identity: String,
    pub is_builtin: bool,
    pub is_installed: bool,
    pub path: Option<String>,
    /// Filled by the doctor, which asks the program itself.
    pub version: Option<String>,
    /// What to do if it is not installed, else what to know about it.
    pub note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HarnessListResponse {
    pub harnesses: Vec<HarnessRecord>,
}
