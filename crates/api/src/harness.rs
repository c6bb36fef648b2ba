//! Harnesses on the wire.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Harness"))]
pub struct HarnessRecord {
    pub id: String,
    pub label: String,
    pub program: String,
    /// How the daemon starts it in a terminal, or over ACP where it has no terminal mode; `{prompt}` marks the prompt's place.
    pub argv: Vec<String>,
    pub identity: String,
    pub is_builtin: bool,
    pub is_installed: bool,
    pub path: Option<String>,
    /// Known only where `versions` asked for it.
    pub version: Option<String>,
    /// How to install it, or for an installed one, a remark about it.
    pub note: String,
}

/// `GET /api/v1/harnesses`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListHarnessesQuery {
    /// Ask each installed program for its version.
    pub versions: Option<bool>,
    /// Where to look for programs: the caller's PATH.
    pub path: Option<String>,
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page.
    pub cursor: Option<String>,
}

/// `GET /api/v1/harnesses/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HarnessQuery {
    /// Ask the program for its version.
    pub versions: Option<bool>,
    /// Where to look for the program: the caller's PATH.
    pub path: Option<String>,
}
