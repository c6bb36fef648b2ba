//! Trials of `coven mcp`: the clients of the official SDKs, and agents that have it in their settings.

mod agent_row;
mod agent_trial;
mod bodies;
mod client;
mod client_row;
mod client_trial;
mod desk;
mod entry;
mod form_trial;
mod sdk_client;

use std::process::ExitCode;

use coven_harness::trial::{McpTrial, Settings};
use serde_json::json;

use super::choice::{self, Candidate};
use super::install::{Installed, Package};
use super::report::{self, Row};
use super::stage::{self, Cast};
use super::stub::BODIES;
use super::tried_agent::{TriedAgent, tried};
use super::{Bench, TrialResult};

use agent_row::AgentRow;
use agent_trial::AgentTrial;
use bodies::Bodies;
use client_row::ClientRow;
use client_trial::ClientTrial;
use desk::Desk;
use entry::Entry;
use sdk_client::{Script, SdkClient};

pub type McpAgent = TriedAgent<McpTrial>;

pub enum Subject {
    Client(SdkClient),
    Agent(McpAgent),
}

impl Candidate for Subject {
    fn name(&self) -> &'static str {
        match self {
            Self::Client(client) => client.name,
            Self::Agent(agent) => agent.name(),
        }
    }

    fn package(&mut self) -> &mut Package {
        match self {
            Self::Client(client) => &mut client.package,
            Self::Agent(agent) => agent.package(),
        }
    }
}

/// Number of clients and agents that must pass. All installed ones must pass, too.
const MUST_PASS: usize = 8;

pub fn choose(names: &[String]) -> TrialResult<Vec<Subject>> {
    choice::choose(all, names)
}

fn all() -> Vec<Subject> {
    let agents = tried(|trial| trial.mcp.as_ref()).into_iter().map(Subject::Agent);
    sdk_client::all().into_iter().map(Subject::Client).chain(agents).collect()
}

pub fn all_trials(subjects: &[Subject], bench: &Bench, is_json: bool) -> TrialResult<ExitCode> {
    let (mut clients, mut agents) = (Vec::new(), Vec::new());
    for subject in subjects {
        match subject {
            Subject::Client(sdk) => clients.push(client_trial(sdk, bench)?),
            Subject::Agent(agent) => agents.push(agent_trial(agent, bench)?),
        }
    }
    if is_json {
        println!("{}", serde_json::to_string_pretty(&json!({ "clients": clients, "agents": agents }))?);
    } else {
        let tables = [report::table(&clients), report::table(&agents)];
        print!("{}", tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n"));
    }
    let passed = count(&clients, Row::has_passed) + count(&agents, Row::has_passed);
    let tried = count(&clients, Row::was_tried) + count(&agents, Row::was_tried);
    let must_pass = tried.max(MUST_PASS).min(subjects.len());
    if !is_json {
        println!("{passed} of {} clients and agents passed, {must_pass} required", subjects.len());
    }
    Ok(if passed < must_pass { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn count<R: Row>(rows: &[R], matches: fn(&R) -> bool) -> usize {
    rows.iter().filter(|row| matches(row)).count()
}

/// Runs the trial of one client. A client that cannot be installed gets a row too, and the other trials continue.
fn client_trial(sdk: &SdkClient, bench: &Bench) -> TrialResult<ClientRow> {
    eprintln!("{}", sdk.name);
    let proof = match sdk.script {
        Script::TypeScript { .. } => "node_modules/@modelcontextprotocol",
        Script::Python => "bin/python",
    };
    let installed = match Installed::ensure(std::slice::from_ref(&sdk.package), proof, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(ClientRow::not_installed(sdk, error.to_string())),
    };
    let cast = Cast { name: sdk.name, settings: |_| Settings::default(), harness: None, prepare: None };
    let stage = stage::set(cast, installed, bench)?;
    let mut row = ClientRow { version: sdk.package.version(&bench.cache).into(), ..ClientRow::new(sdk) };
    let desk = Desk::new(&stage.coven, bench.root.join(sdk.name).join("home"));
    let folder = bench.cache.join(sdk.package.folder);
    ClientTrial { sdk, folder: &folder, coven: &stage.coven, desk }.run(&mut row);
    Ok(row)
}

fn agent_trial(agent: &McpAgent, bench: &Bench) -> TrialResult<AgentRow> {
    eprintln!("{}", agent.name);
    let installed = match Installed::ensure(&agent.packages, agent.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => return Ok(AgentRow::not_installed(agent, error.to_string())),
    };
    let program = installed.program.clone();
    let cast = Cast { name: agent.name, settings: agent.settings, harness: None, prepare: None };
    let mut stage = stage::set(cast, installed, bench)?;
    stage.coven.env.extend(agent.agent.env.iter().map(|(name, value)| (*name, (*value).into())));
    let mut row = AgentRow { version: agent.packages[0].version(&bench.cache).into(), ..AgentRow::new(agent) };
    let (folder, coven) = (bench.root.join(agent.name), &stage.coven);
    let home = folder.join("home");
    let mcp = agent.agent.mcp.as_ref().map_err(|missing| missing.to_string())?;
    let entry = Entry::new(coven, agent.name, mcp.file.located(|_| None, Some(home.clone()))?);
    let bodies = Bodies { folder: folder.join(BODIES) };
    AgentTrial { agent, program: &program, coven, desk: Desk::new(coven, home), bodies, entry }.run(&mut row);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_and_agents_have_unique_names() {
        let names: BTreeSet<&str> = all().iter().map(Candidate::name).collect();
        assert_eq!(names.len(), all().len());
    }
}
