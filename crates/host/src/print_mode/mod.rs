//! Print mode: one turn of a conversation, by a program that gets a prompt, answers and ends.

mod answer;
mod cancel;
mod child;
mod exchange;
mod formats;
mod session;
mod tail;
mod tool;
mod turn;
mod utf8;

pub use answer::Answer;
pub use cancel::Cancel;
pub use tool::{PrintHarness, ToolError, choose, wanted_tool};
pub use turn::{TurnDone, TurnError, TurnSpec, TurnStatus, Usage, run_turn};
