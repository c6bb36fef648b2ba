//! `cargo xtask docs`: documents that are written by the code they describe. A test fails when they are stale.

use std::fs;
use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

pub fn run() -> ExitCode {
    // One place knows how they are made: the test that compares them, asked to write instead.
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
