//! What is known about agent programs: how each is started, spoken to, read, and told of coven's MCP server.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod launch;
pub mod print_mode;
pub mod settings_file;

pub use launch::{Harness, HarnessConfig, Program, PromptStyle, all, by_preference};
