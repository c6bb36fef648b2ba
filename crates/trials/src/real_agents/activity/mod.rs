//! What coven knows about an agent in a terminal while the agent is led through a fixed journey.

mod journey;
mod step;
mod untouched;

use std::process::ExitCode;

use coven_harness::trial::ActivityTrial;
use serde::Serialize;

use super::install::Installed;
use super::stage::{self, Cast};
use super::tried_agent::{TriedAgent, tried};
use super::{Bench, TrialResult, choice, report};
use journey::{BY_INBOX, BY_TERMINAL};
use step::{Step, Verdict};
use untouched::Snapshot;

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
    /// The screen and the evidence when a step was wrong or the journey stopped.
    evidence: Option<String>,
}

impl Journey {
    fn count(&self, verdict: Verdict) -> usize {
        self.steps.iter().filter(|step| step.verdict == verdict).count()
    }

    fn has_passed(&self) -> bool {
        let unknown = self.count(Verdict::Unknown) + self.count(Verdict::Hidden);
        let has_few_unknown = !self.is_bound || unknown <= MAX_UNKNOWN;
        self.error.is_none() && self.count(Verdict::Wrong) == 0 && has_few_unknown
    }

    /// Returns the verdict and the number of steps with each verdict.
    fn summary(&self) -> String {
        let verdict = if self.has_passed() { "pass" } else { "FAIL" };
        let counts = [
            (Verdict::Right, "right"),
            (Verdict::Wrong, "wrong"),
            (Verdict::Unknown, "unknown"),
            (Verdict::Hidden, "hidden by the agent"),
            (Verdict::Skipped, "not possible"),
        ];
        let counts = counts.map(|(verdict, name)| format!("{} {name}", self.count(verdict)));
        format!("{verdict}, {}", counts.join(", "))
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
        evidence: None,
    };
    let installed = match Installed::ensure(&subject.packages, subject.program, &bench.cache) {
        Ok(installed) => installed,
        Err(error) => {
            journey.error = Some(format!("not installed: {error}"));
            return Ok(journey);
        }
    };
    let cast =
        Cast { name: subject.name, settings: subject.settings, harness: None, prepare: subject.trial.prepare.ok() };
    let stage = stage::set(cast, installed, bench)?;
    let before = Snapshot::take(&stage)?;
    journey::run(subject, &stage, &mut journey);
    if let Err(error) = stage.coven.stop() {
        eprintln!("  {error}");
    }
    journey.steps.push(before.compare(&stage, subject.trial.rewrites, &[BY_TERMINAL, BY_INBOX])?);
    Ok(journey)
}

fn table(journeys: &[Journey]) -> String {
    let head = ["agent", "step", "expected", "observed", "source", "delay", "verdict", "note"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for journey in journeys {
        lines.extend(journey.steps.iter().map(|step| [vec![journey.agent.to_owned()], step.cells()].concat()));
    }
    let mut text = report::aligned(&lines);
    for journey in journeys {
        text.push_str(&format!("{}: {}", journey.agent, journey.summary()));
        if let Some(error) = &journey.error {
            text.push_str(&format!("; {error}"));
        }
        text.push('\n');
        if let Some(evidence) = &journey.evidence {
            text.push_str(&format!("{evidence}\n"));
        }
    }
    text
}
