//! Runs fuzz targets; started by `cargo xtask fuzz`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use coven_fuzz::supervisor::{Plan, run};
use coven_fuzz::{TARGETS, Target, target, worker};

#[derive(Debug, Parser)]
#[command(name = "coven-fuzz")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs targets and reports their defects
    Run {
        /// Targets to run; all if none is given
        #[arg(value_name = "TARGET")]
        targets: Vec<String>,
        /// Seconds per target
        #[arg(long, default_value_t = 20.0)]
        seconds: f64,
        /// Seed of the mutations
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Maximum time for one input, in seconds
        #[arg(long, default_value_t = 10.0)]
        hang_seconds: f64,
        /// Folder for inputs that trigger a defect
        #[arg(long, default_value = "target/fuzz")]
        findings: PathBuf,
    },
    /// Runs one target for a limited time
    #[command(hide = true)]
    Worker { target: String, seed: u64, millis: u64, state: PathBuf },
}

fn main() -> ExitCode {
    match run_command(Args::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("coven-fuzz: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run_command(command: Command) -> Result<bool, String> {
    match command {
        Command::Run { targets, seconds, seed, hang_seconds, findings } => {
            let targets = match targets.is_empty() {
                true => TARGETS.iter().collect(),
                false => targets.iter().map(|name| find_target(name)).collect::<Result<_, _>>()?,
            };
            let duration = |seconds| Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
            let (time, hang) = (duration(seconds)?, duration(hang_seconds)?);
            run(&Plan { targets, time, seed, hang, findings: &findings })
                .map_err(|error| format!("cannot run the targets: {error}"))
        }
        Command::Worker { target, seed, millis, state } => {
            worker::work(find_target(&target)?, seed, Duration::from_millis(millis), &state)
                .map(|()| true)
                .map_err(|error| format!("the worker failed: {error}"))
        }
    }
}

fn find_target(name: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    target(name).ok_or_else(|| format!("unknown target {name:?}; known: {}", known()))
}
