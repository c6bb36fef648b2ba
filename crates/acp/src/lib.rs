//! The client side of the Agent Client Protocol: lines in, changes and lines out. No I/O, no clock.
//!
//! The message types come from the official crate. Its connection type keeps pending requests only in memory and would
//! lose them with the daemon. Here they are part of a plain value that is stored with every change, so that the next
//! daemon can resume in the middle of a message.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod call;
mod effects;
mod lines;
mod machine;
mod opening;
mod requests;
mod state;
mod tool;
mod updates;
mod wire;

pub use call::{Call, CallKind};
pub use effects::{Effects, PermissionRequest, TurnChange};
pub use lines::{Lines, MAX_MESSAGE_BYTES, Taken};
pub use machine::Machine;
pub use state::{Opening, State};
pub use wire::RpcError;
