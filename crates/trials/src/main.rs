//! Benchmarks and trials with real agents, started by `cargo xtask bench` and `cargo xtask real-agents`.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod bench;
mod real_agents;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Benchmarks and trials with real agents")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Measures the figures of docs/benchmarks.md.
    Bench(bench::Args),
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
        Task::Bench(args) => bench::run(args),
        Task::RealAgents(args) => real_agents::run(args),
        Task::PrintTurn(args) => real_agents::print_turn(args),
        Task::Program(program) => program.run(),
    }
}
