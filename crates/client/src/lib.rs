//! The client of the daemon: the only HTTP client of the workspace.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod connection;

pub use connection::{Client, ClientError};
