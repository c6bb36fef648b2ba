//! Tasks for developers and CI: `cargo xtask test | docs | man | pictures | prose | bench | fuzz | soak | upgrade | real-agents`.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod docs;
mod man;
mod other;
mod prose;
mod soak;
mod test;
mod upgrade;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tasks of the coven workspace")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs all checks and tests, like CI.
    Test(test::TestArgs),
    /// Regenerates documents: lifecycles, OpenAPI, config schema, command line.
    Docs,
    /// Writes a manual page per command.
    Man(man::ManArgs),
    /// Draws the pictures of the app for the documents, from the real binary.
    Pictures,
    /// Counts unclear wordings and names the files with the most of them.
    Prose(prose::ProseArgs),
    /// Measures the figures of docs/benchmarks.md.
    #[command(disable_help_flag = true)]
    Bench(other::Args),
    /// Runs fuzz targets: mutated inputs for all parsers.
    #[command(disable_help_flag = true)]
    Fuzz(other::Args),
    /// Kills the daemon repeatedly during all kinds of work.
    Soak(soak::SoakArgs),
    /// Replaces the daemon of an older build during running work.
    Upgrade(upgrade::UpgradeArgs),
    /// Runs real agent programs under coven against a stub model.
    #[command(disable_help_flag = true)]
    RealAgents(other::Args),
}

fn main() -> ExitCode {
    match Args::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Docs => docs::run(),
        Task::Man(args) => man::run(&args),
        Task::Pictures => other::pictures(),
        Task::Prose(args) => prose::run(&args),
        Task::Bench(args) => args.run(&["--release", "--package", "coven-trials"], "bench"),
        Task::Fuzz(args) => args.run(&["--package", "coven-fuzz"], "run"),
        Task::Soak(args) => soak::run(&args),
        Task::Upgrade(args) => upgrade::run(&args),
        Task::RealAgents(args) => args.run(&["--package", "coven-trials"], "real-agents"),
    }
}
