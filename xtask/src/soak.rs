//! `cargo xtask soak`: the fault test of the same name with more kills than CI has time for.

use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

#[derive(Debug, clap::Args)]
pub struct SoakArgs {
    /// Number of `kill -9` of the daemon
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// Seed of the moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(args: &SoakArgs) -> ExitCode {
    let build = ["build", "--package", "coven", "--package", "coven-testing", "--bins"];
    let test = ["test", "--package", "coven-testing", "--test", "faults", "soak::", "--", "--nocapture"];
    for step in [&build[..], &test[..]] {
        let status = Command::new(cargo())
            .args(step)
            .current_dir(root())
            .env("COVEN_SOAK_KILLS", args.kills.to_string())
            .env("COVEN_SOAK_SEED", args.seed.to_string())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
