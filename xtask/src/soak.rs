//! `cargo xtask soak`: the fault test `soak` with more kills than CI has time for.

use std::ffi::OsStr;
use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

#[derive(Debug, clap::Args)]
pub struct SoakArgs {
    /// How many times to kill the daemon with `kill -9`
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// Seed for the random times of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(args: &SoakArgs) -> ExitCode {
    let (kills, seed) = (args.kills.to_string(), args.seed.to_string());
    run_fault_tests("soak::", &[("COVEN_SOAK_KILLS", kills.as_ref()), ("COVEN_SOAK_SEED", seed.as_ref())])
}

/// Builds the programs, then runs the fault tests whose names contain `filter`.
pub fn run_fault_tests(filter: &str, variables: &[(&str, &OsStr)]) -> ExitCode {
    let build = ["build", "--package", "coven", "--package", "coven-testing", "--bins"];
    let test = ["test", "--package", "coven-testing", "--test", "faults", filter, "--", "--nocapture"];
    for step in [&build[..], &test[..]] {
        let status = Command::new(cargo()).args(step).current_dir(root()).envs(variables.iter().copied()).status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
