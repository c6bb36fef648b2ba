//! The client's side of the Agent Client Protocol: lines in, changes and lines out. No I/O, no clock.
//!
//! The messages are the official crate's. Its connection keeps what is in flight in memory and would forget it with the
//! daemon; here that is a plain value, stored with every change, so that the next daemon goes on in mid-sentence.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod call;
mod lines;
mod machine;
mod opening;
mod requests;
mod state;
mod step;
mod tool;
mod updates;
mod wire;

pub use call::{Call, CallKind};
pub use lines::{Lines, MAX_MESSAGE_BYTES, Taken};
pub use machine::Machine;
pub use state::{Activity, Opening, State};
pub use step::{Ask, Step, TurnChange};
pub use wire::RpcError;
