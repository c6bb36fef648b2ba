//! `cargo xtask man`: the manual pages, one per command.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Folder to write to [default: target/man]
    dir: Option<PathBuf>,
}

pub fn run(args: &ManArgs) -> ExitCode {
    let dir = args.dir.clone().unwrap_or_else(|| root().join("target/man"));
    let Ok(dir) = std::path::absolute(&dir) else { return ExitCode::FAILURE };
    // The test that checks the pages writes them.
    let status = Command::new(cargo())
        .args(["test", "--quiet", "--package", "coven", "--bin", "coven", "man::"])
        .env("COVEN_WRITE_MAN", &dir)
        .current_dir(root())
        .status();
    match status {
        Ok(status) if status.success() => {
            eprintln!("xtask: the manual pages are in {}", dir.display());
            ExitCode::SUCCESS
        }
        _ => ExitCode::FAILURE,
    }
}
