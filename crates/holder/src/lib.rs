//! The process that owns one session's terminal or pipes, its log and its socket.
//!
//! It outlives the daemon and does not use HTTP, parse terminal output or access the store.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod child;
pub mod client;
pub mod clock;
pub mod fault;
mod holder;
mod initial_input;
mod input_queue;
pub mod journal;
pub mod log;
pub mod memory;
mod pipe_backoff;
pub mod process;
mod recorder;
mod run;
mod signals;
pub mod spec;
mod stderr;
mod syncer;
mod termination;
mod viewer;
pub mod wire;

pub use run::run;
pub use spec::{LaunchReport, Spec, StdioMode};

/// File name of the holder's socket in a session's folder.
pub const SOCKET: &str = "holder.sock";
/// File name of the journal in a session's folder.
pub const JOURNAL: &str = "journal";
