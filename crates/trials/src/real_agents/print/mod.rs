//! The trial of agents that answer a single prompt: two turns, the second resumed, and how they stream, cancel and fail.

mod catalogue;
mod requests;
mod row;
mod trial;
pub mod turn;

use super::install::Installed;
use super::stage::{self, Cast};
use super::{Bench, Outcome, choice};

use catalogue::PrintAgent;
pub use row::PrintRow;

pub fn choose(names: &[String]) -> Outcome<Vec<PrintAgent>> {
    choice::choose(catalogue::all, names)
}

/// An agent that cannot be installed is a row too: the others go on.
pub fn one_trial(agent: &PrintAgent, bench: &Bench) -> Outcome<PrintRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(std::slice::from_ref(&agent.package), agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(PrintRow::not_installed(agent, error.to_string())),
    };
    let program = installed.program.clone();
    let stage = stage::set(Cast { name: agent.name, settings: agent.settings, harness: None }, installed, bench)?;
    Ok(trial::run(agent, &program, &stage.coven, &bench.root.join(agent.name)))
}
