//! `cargo xtask fuzz`: runs the fuzz targets of crates/fuzz.

use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

#[derive(Debug, clap::Args)]
pub struct FuzzArgs {
    /// Targets to run; all of them if none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds per target
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Seed of the mutations
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The fuzzer has a program of its own, so that the other tasks do not build what it links.
pub fn run(args: &FuzzArgs) -> ExitCode {
    let status = Command::new(cargo())
        .args(["run", "--quiet", "-p", "coven-fuzz", "--", "run"])
        .args(["--seconds", &args.seconds.to_string(), "--seed", &args.seed.to_string()])
        .args(&args.targets)
        .current_dir(root())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask fuzz: cannot start cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
