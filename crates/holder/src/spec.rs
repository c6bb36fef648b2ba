//! What a holder is told when it starts, and what it answers.

use std::path::PathBuf;

use coven_domain::session::RecordInput;
use serde::{Deserialize, Serialize};

/// Where the harness's standard streams lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Terminal,
    /// Standard output is the log, standard error goes into the journal.
    Pipes,
}

/// Read as JSON from standard input: the environment must not show in a command line or a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The session's folder: exists, empty, 0700.
    pub dir: PathBuf,
    pub stage: Stage,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub rows: u16,
    pub cols: u16,
    /// Typed into the terminal at once.
    pub typed: String,
    /// The soft limit of open files that the harness is to have; the daemon's own is higher.
    #[serde(default)]
    pub open_files: Option<u64>,
    /// What the journal keeps of the keys that are typed into a terminal. Pipes carry a protocol, which is kept.
    #[serde(default)]
    pub record_input: RecordInput,
    pub max_output_bytes: u64,
    pub segment_bytes: u64,
}

/// Lines of JSON on standard output: `Spawned` where a process was made, then how the launch went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// The harness's process exists and has not yet become its program. It says so itself: a harness that ends or stops
    /// its holder at once is known all the same.
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
