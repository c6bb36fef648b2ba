//! Print mode: runs one turn of a conversation with a program that reads a prompt, answers and exits.

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
