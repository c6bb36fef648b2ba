//! The trial of agents that speak ACP: create, prompt, permission, cancel, a killed daemon, and loaded again.

mod catalogue;
mod chunks;
mod conversation;
mod evidence;
mod load;
mod permission;
mod refusal;
mod rest;
mod row;
mod trial;

use super::install::Installed;
use super::stage::{self, Cast};
use super::{Bench, Outcome, choice};

use catalogue::AcpAgent;
pub use row::AcpRow;

pub fn choose(names: &[String]) -> Outcome<Vec<AcpAgent>> {
    choice::choose(catalogue::all, names)
}

/// An agent that cannot be installed is a row too: the others go on.
pub fn one_trial(agent: &AcpAgent, bench: &Bench) -> Outcome<AcpRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(&agent.packages, agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(AcpRow::not_installed(agent, error.to_string())),
    };
    let harness = Some(agent.harness_config(&installed.program.to_string_lossy()));
    let stage = stage::set(Cast { name: agent.name, settings: agent.settings, harness }, installed, bench)?;
    Ok(trial::run(agent, &stage.coven))
}
