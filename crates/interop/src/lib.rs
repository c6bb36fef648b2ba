//! Files that are shared with other tools: question sets, conversations, and the state of the older coven. Works without a daemon.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod conversations;
pub mod legacy;
pub mod questions;
