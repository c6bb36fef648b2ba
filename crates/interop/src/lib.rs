//! Files shared with other tools: question sets, conversations and the older coven's state. Needs no daemon.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod conversations;
pub mod legacy;
pub mod questions;
