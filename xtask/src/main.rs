//! What developers and CI run: `cargo xtask test | docs | bench | fuzz | soak | real-agents`.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod bench;
mod docs;
mod fuzz;
mod real_agents;
mod soak;
mod test;

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
    /// Runs every check and test; what CI runs.
    Test(test::TestArgs),
    /// Writes the generated documents anew: lifecycles, OpenAPI, config schema, command line.
    Docs,
    /// Measures the figures of docs/benchmarks.md.
    Bench(bench::Args),
    /// Runs fuzz targets: mutated inputs for everything that is parsed.
    Fuzz(fuzz::FuzzArgs),
    /// Kills the daemon again and again amid all kinds of work.
    Soak(soak::SoakArgs),
    /// Runs real agent programs under coven against a stub model.
    RealAgents(real_agents::RealAgentsArgs),
    /// Runs one turn of an agent in print mode.
    #[command(hide = true)]
    PrintTurn(real_agents::PrintTurnArgs),
    #[command(flatten)]
    Program(bench::Program),
}

fn main() -> ExitCode {
    match Args::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Docs => docs::run(),
        Task::Bench(args) => bench::run(args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Soak(args) => soak::run(&args),
        Task::RealAgents(args) => real_agents::run(args),
        Task::PrintTurn(args) => real_agents::print_turn(args),
        Task::Program(program) => program.run(),
    }
}
