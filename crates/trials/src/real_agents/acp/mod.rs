//! Trials over ACP: create, prompt, permission, cancel, killed daemon, load.

mod chunks;
mod conversation;
mod evidence;
mod load;
mod permission;
mod refusal;
mod rest;
mod row;
mod trial;

use coven_harness::HarnessConfig;
use coven_harness::trial::AcpTrial;
use serde_json::json;

use super::install::Installed;
use super::stage::{self, Cast};
use super::tried_agent::{TriedAgent, tried_over_acp};
use super::{Bench, TrialResult, choice};

pub use row::AcpRow;

pub type AcpAgent = TriedAgent<AcpTrial>;

pub fn choose(names: &[String]) -> TrialResult<Vec<AcpAgent>> {
    choice::choose(tried_over_acp, names)
}

/// Runs the trial of one agent. An agent that cannot be installed gets a row too, and the other trials continue.
pub fn one_trial(agent: &AcpAgent, bench: &Bench) -> TrialResult<AcpRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(&agent.packages, agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(AcpRow::not_installed(agent, error.to_string())),
    };
    let harness = Some(harness_config(agent, &installed.program.to_string_lossy()));
    let stage =
        stage::set(Cast { name: agent.name, settings: agent.settings, harness, prepare: None }, installed, bench)?;
    Ok(trial::run(agent, &stage.coven))
}

/// Returns the harness config of one trial.
fn harness_config(agent: &AcpAgent, program: &str) -> HarnessConfig {
    let args = agent.agent.acp.as_ref().map_or(&[][..], |acp| acp.args);
    let entry = json!({ "program": program, "acpArgs": args, "identity": agent.trial.identity });
    serde_json::from_value(entry).expect("known keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_a_valid_config() {
        for agent in tried_over_acp() {
            assert_eq!(harness_config(&agent, "/opt/program").check(agent.name), Ok(()), "{}", agent.name);
        }
    }
}
