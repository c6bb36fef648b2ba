//! Reads input piped into a command, up to a limit.

use std::io;

use coven_files::{Limit, read_stream, read_stream_text};

use crate::failure::Failure;

/// Limit for prompts, questions, answers and tasks.
pub const PIPED: Limit = Limit::new("input piped into a command", 16 << 20);

/// Reads standard input to its end, as UTF-8 text.
pub fn text() -> Result<String, Failure> {
    read_stream_text(io::stdin().lock(), PIPED).map_err(Failure::Input)
}

/// Reads standard input to its end, as bytes.
pub fn bytes() -> Result<Vec<u8>, Failure> {
    read_stream(io::stdin().lock(), PIPED).map_err(Failure::Input)
}
