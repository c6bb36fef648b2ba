//! The import of an older coven's files, on the wire.

use serde::{Deserialize, Serialize};

/// Maximum number of items in each list of a response.
pub const MAX_MIGRATE_ITEMS: usize = 100;

/// `POST /api/v1/migrate`: imports the old files in the home, or reports what an import would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MigrateRequest {
    pub dry_run: bool,
}

/// Number of records of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateCounts {
    pub tasks: usize,
    pub agents: usize,
    pub workflows: usize,
    pub questions: usize,
}

/// An item that was not imported; its file stays in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateSkipped {
    /// Relative to the home.
    pub file: String,
    pub what: String,
    pub why: String,
}

/// A file that was imported completely and renamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateRenamed {
    pub file: String,
    pub to: String,
}

/// Number of items of each list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateItemCounts {
    pub skipped: usize,
    pub leftovers: usize,
    pub renamed: usize,
}

/// The result of an import, or with `dry_run` the result that it would have: exact counts, and at most 100 items in
/// each list. Older versions named the fields `taken`, `known` and `left`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MigrateResponse {
    pub dry_run: bool,
    #[serde(alias = "taken")]
    pub imported: MigrateCounts,
    /// Records that the store already had; they are unchanged.
    #[serde(alias = "known")]
    pub already_present: MigrateCounts,
    /// Older versions list all items and do not have it.
    #[serde(default)]
    pub counts: MigrateItemCounts,
    /// A list has fewer items than its count.
    #[serde(default)]
    pub is_truncated: bool,
    /// Items that were not imported, with the reason.
    #[serde(alias = "left")]
    pub skipped: Vec<MigrateSkipped>,
    /// Files without anything to import, such as an interrupted write; they do not make an import incomplete.
    #[serde(default)]
    pub leftovers: Vec<MigrateSkipped>,
    pub renamed: Vec<MigrateRenamed>,
}
