//! Harnesses on the wire.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HarnessListResponse {
    pub harnesses: Vec<HarnessRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HarnessesQuery {
    /// Ask each installed program for its version.
    pub versions: Option<bool>,
    /// Where to look for programs: the caller's PATH.
    pub path: Option<String>,
}
