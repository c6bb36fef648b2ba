//! `cargo xtask docs`: regenerates the documents in docs/generated. A test fails when they are stale.

use std::fs;
use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

pub fn run() -> ExitCode {
    // The test that compares the documents also writes them.
    let status = Command::new(cargo())
        .args(["test", "--package", "coven-testing", "--test", "docs"])
        .env("COVEN_WRITE_DOCS", "1")
        .current_dir(root())
        .status();
    let made = fs::read_dir(root().join("docs/generated")).map(|entries| entries.count()).unwrap_or(0);
    match status {
        Ok(status) if status.success() && made > 0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
