//! Tasks in separate programs, so that the other tasks need not build their dependencies.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::test::{cargo, root};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Arguments for the program; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

/// Builds coven and draws its screens.
pub fn pictures() -> ExitCode {
    let steps = [
        &["build", "--bins", "-p", "coven", "-p", "coven-testing"][..],
        &["run", "-p", "coven-testing", "--example", "pictures"],
    ];
    for step in steps {
        match Command::new(cargo()).args(step).current_dir(root()).status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask: cannot start cargo: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

impl Args {
    pub fn run(&self, program: &[&str], task: &str) -> ExitCode {
        let status = Command::new(cargo())
            .arg("run")
            .args(program)
            .args(["--", task])
            .args(&self.args)
            .current_dir(root())
            .status();
        match status {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("xtask: cannot start cargo: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
