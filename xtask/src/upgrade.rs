//! `cargo xtask upgrade`: replaces the daemon of an older build during running work.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::soak;

#[derive(Debug, clap::Args)]
pub struct UpgradeArgs {
    /// The older coven binary
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
}

pub fn run(args: &UpgradeArgs) -> ExitCode {
    match args.from.canonicalize() {
        Ok(program) => soak::run_fault_tests("upgrade::", &[("COVEN_OLDER_BIN", program.as_os_str())]),
        Err(error) => {
            eprintln!("xtask: {}: {error}", args.from.display());
            ExitCode::FAILURE
        }
    }
}
