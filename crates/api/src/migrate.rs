//! Taking over the older coven's files, on the wire.

use serde::{Deserialize, Serialize};

/// `POST /api/v1/migrate`: takes over what lies in the home, or only says what that would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MigrateRequest {
    pub dry_run: bool,
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateCounts {
    pub tasks: usize,
    pub agents: usize,
    pub workflows: usize,
    pub questions: usize,
}

/// Something that was not taken; its file stays where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateLeft {
    /// Relative to the home.
    pub file: String,
    pub what: String,
    pub why: String,
}

/// A file all of which is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateRenamed {
    pub file: String,
    pub to: String,
}

/// What was taken and what was not; with `dry_run` what would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateResponse {
    pub dry_run: bool,
    pub taken: MigrateCounts,
    /// In the store from before, and left as it is there.
    pub known: MigrateCounts,
    pub left: Vec<MigrateLeft>,
    /// Files that hold nothing to take, such as an interrupted write; they do not make a migration incomplete.
    #[serde(default)]
    pub leftovers: Vec<MigrateLeft>,
    pub renamed: Vec<MigrateRenamed>,
}
