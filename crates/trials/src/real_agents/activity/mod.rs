//! What coven knows about an agent in a terminal while the agent is led through a fixed journey.

mod journey;
mod step;

use std::process::ExitCode;

use coven_harness::trial::ActivityTrial;
use serde::Serialize;

use super::install::Installed;
use super::stage::{self, Cast};
use super::tried_agent::{TriedAgent, tried};
use super::{Bench, TrialResult, choice, report};
use step::{Step, Verdict};

type Subject = TriedAgent<ActivityTrial>;

/// Number of steps of an agent that may be `unknown`, for agents whose trial requires it.
const MAX_UNKNOWN: usize = 1;

/// The results of one agent.
#[derive(Debug, Serialize)]
struct Journey {
    agent: &'static str,
    /// Reason why the journey did not start or stopped early.
    error: Option<String>,
    steps: Vec<Step>,
    is_bound: bool,
    limit: Option<&'static str>,
    /// The screen and the evidence when a step was wrong or the journey stopped.
    evidence: Option<String>,
}

impl Journey {
    fn count(&self, verdict: Verdict) -> usize {
        self.steps.iter().filter(|step| step.verdict == verdict).count()
    }

    fn has_passed(&self) -> bool {
        let has_few_unknown = !self.is_bound || self.count(Verdict::Unknown) <= MAX_UNKNOWN;
        self.error.is_none() && self.count(Verdict::Wrong) == 0 && has_few_unknown
    }
}

pub fn choose(names: &[String]) -> TrialResult<Vec<Subject>> {
    choice::choose(|| tried(|trial| trial.activity.as_ref()), names)
}

/// Leads all agents through their journeys and prints the table.
pub fn all_trials(subjects: &[Subject], bench: &Bench, is_json: bool) -> TrialResult<ExitCode> {
    let journeys = subjects.iter().map(|subject| one_trial(subject, bench)).collect::<TrialResult<Vec<_>>>()?;
    if is_json {
        println!("{}", serde_json::to_string_pretty(&journeys)?);
    } else {
        print!("{}", table(&journeys));
    }
    let has_passed = !journeys.is_empty() && journeys.iter().all(Journey::has_passed);
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn one_trial(subject: &Subject, bench: &Bench) -> TrialResult<Journey> {
    eprintln!("{}", subject.name);
    let mut journey = Journey {
        agent: subject.name,
        error: None,
        steps: Vec::new(),
        is_bound: subject.trial.is_bound,
        limit: subject.trial.limit,
        evidence: None,
    };
    let installed = match Installed::ensure(&subject.packages, subject.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => {
            journey.error = Some(format!("not installed: {error}"));
            return Ok(journey);
        }
    };
    let mut stage =
        stage::set(Cast { name: subject.name, settings: subject.settings, harness: None }, installed, bench)?;
    stage.coven.env.extend(subject.trial.env.iter().map(|(name, value)| (*name, value.into())));
    journey::run(subject, &stage.coven, &mut journey);
    if let Err(error) = stage.coven.stop() {
        eprintln!("  {error}");
    }
    Ok(journey)
}

fn table(journeys: &[Journey]) -> String {
    let head = ["agent", "step", "expected", "observed", "source", "delay", "verdict"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for journey in journeys {
        lines.extend(journey.steps.iter().map(|step| [vec![journey.agent.to_owned()], step.cells()].concat()));
    }
    let mut text = report::aligned(&lines);
    for journey in journeys {
        let verdict = if journey.has_passed() { "pass" } else { "FAIL" };
        let (wrong, unknown) = (journey.count(Verdict::Wrong), journey.count(Verdict::Unknown));
        text.push_str(&format!("{}: {verdict}, {wrong} wrong, {unknown} unknown", journey.agent));
        for note in journey.error.as_deref().into_iter().chain(journey.limit) {
            text.push_str(&format!("; {note}"));
        }
        text.push('\n');
        if let Some(evidence) = &journey.evidence {
            text.push_str(&format!("{evidence}\n"));
        }
    }
    text
}
