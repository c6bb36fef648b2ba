//! `cargo xtask test`: checks formatting and lints, then runs all tests with the built binary. Installs nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Run only tests whose name contains this.
    filter: Option<String>,
    /// Skip formatting and lints.
    #[arg(long)]
    quick: bool,
}

pub fn run(args: &TestArgs) -> ExitCode {
    let steps = steps(args);
    for step in steps {
        let mut shown: Vec<String> = vec!["cargo".to_owned()];
        shown.extend(step.iter().cloned());
        eprintln!("xtask: {}", shown.join(" "));
        let status = Command::new(cargo()).args(&step).current_dir(root()).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("xtask: failed: {}", shown.join(" "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn steps(args: &TestArgs) -> Vec<Vec<String>> {
    let step = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut steps = Vec::new();
    if !args.quick {
        if has("fmt") {
            steps.push(step("fmt --all --check"));
        } else {
            eprintln!("xtask: SKIPPED formatting: rustfmt is not installed (rustup component add rustfmt)");
        }
        if has("clippy") {
            steps.push(step("clippy --workspace --all-targets --locked -- -D warnings"));
        } else {
            eprintln!("xtask: SKIPPED lints: clippy is not installed (rustup component add clippy)");
        }
    }
    // The scenarios run the built binary.
    steps.push(step("build --package coven --package coven-testing --bins --locked"));
    let mut tests = match has("nextest") {
        true => step("nextest run --workspace --locked --no-fail-fast"),
        false => step("test --workspace --locked --no-fail-fast"),
    };
    tests.extend(args.filter.clone());
    steps.push(tests);
    steps
}

fn has(subcommand: &str) -> bool {
    Command::new(cargo()).args([subcommand, "--version"]).output().is_ok_and(|output| output.status.success())
}

pub fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// Returns the root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}
