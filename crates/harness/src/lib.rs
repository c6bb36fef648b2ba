//! Knowledge about agent programs: how to start and prompt each one, parse its output, and add coven's MCP server.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod agent;
pub mod agents;
pub mod generic_hooks;
pub mod hooks;
pub mod launch;
pub mod limit_text;
pub mod print_mode;
pub mod rules;
pub mod settings_file;
#[cfg(feature = "trial")]
pub mod trial;

pub use agent::{Agent, Missing};
pub use launch::{Harness, HarnessConfig, Program, PromptStyle, all, by_preference};
