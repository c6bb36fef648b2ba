//! Print mode: one turn of a conversation, by a program that gets a prompt, answers and ends.

mod cancel;
mod child;
mod exchange;
mod session;
mod tail;
mod tool;
mod turn;

pub use cancel::Cancel;
pub use tool::{PrintHarness, ToolError, choose, wanted_tool};
pub use turn::{TurnDone, TurnError, TurnSpec, TurnStatus, run_turn};
