//! Trials in print mode: two turns, the second one resumed, and streaming, cancelling and failures.

mod requests;
mod row;
mod trial;
pub mod turn;

use coven_harness::trial::PrintTrial;

use super::install::Installed;
use super::stage::{self, Cast};
use super::tried_agent::{TriedAgent, tried};
use super::{Bench, TrialResult, choice};

pub use row::PrintRow;

pub type PrintAgent = TriedAgent<PrintTrial>;

pub fn choose(names: &[String]) -> TrialResult<Vec<PrintAgent>> {
    choice::choose(|| tried(|trial| trial.print.as_ref()), names)
}

/// Runs the trial of one agent. An agent that cannot be installed gets a row too, and the other trials continue.
pub fn one_trial(agent: &PrintAgent, bench: &Bench) -> TrialResult<PrintRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(&agent.packages, agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(PrintRow::not_installed(agent, error.to_string())),
    };
    let program = installed.program.clone();
    let stage = stage::set(
        Cast { name: agent.name, settings: agent.settings, harness: None, prepare: None },
        installed,
        bench,
    )?;
    Ok(trial::run(agent, &program, &stage.coven, &bench.root.join(agent.name)))
}
