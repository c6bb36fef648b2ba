//! The spec that starts a holder, and the launch report it prints.

use std::path::PathBuf;

use coven_domain::session::RecordInput;
use serde::{Deserialize, Serialize};

/// What the harness's standard streams are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StdioMode {
    Terminal,
    /// Standard output goes to the log, standard error to the journal.
    Pipes,
}

/// Sent as JSON on standard input: the environment must not appear in a command line or a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The session's folder. It must exist, be empty and have mode 0700.
    pub dir: PathBuf,
    #[serde(rename = "stage")]
    pub stdio: StdioMode,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub rows: u16,
    pub cols: u16,
    /// Initial input: typed into a terminal once the harness is ready, written to a pipe immediately.
    pub typed: String,
    /// Soft limit of open files for the harness; the daemon's own limit is higher.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// Which terminal input the journal stores. Input to pipes is always stored, because it is protocol data.
    #[serde(default)]
    pub record_input: RecordInput,
    pub max_output_bytes: u64,
    pub segment_bytes: u64,
}

/// Lines of JSON on standard output: `Spawned` once the process exists, then the result of the launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchReport {
    /// The harness's process exists but has not yet executed its program. The process writes this itself, so the daemon
    /// knows its pid even if the harness kills or stops its holder immediately.
    Spawned {
        pid: u32,
    },
    Running {
        holder: u32,
        pid: u32,
        started_ticks: u64,
        boot_id: String,
    },
    Failed {
        reason: String,
    },
}
