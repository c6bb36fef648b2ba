//! Access to the operating system: the home and its config, programs on PATH, working folders, Git, starting the
//! daemon, trust records, and print-mode turns.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod agent_definitions;
pub mod config;
pub mod daemon_start;
pub mod git;
pub mod home;
pub mod peer;
pub mod print_mode;
pub mod program;
pub mod spawner;
pub mod suggest;
pub mod trust;
pub mod work_dir;

pub use home::{Home, HomeError};
pub use work_dir::{WorkDir, WorkDirError};
