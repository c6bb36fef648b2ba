//! One step of a journey, and the comparison of what coven observed with what happened.

use std::time::{Duration, Instant};

use coven_domain::activity::{Activity, ActivitySource};
use serde::Serialize;

use super::super::coven::Coven;
use super::super::{TrialResult, eventually};

/// How long coven may take to notice; the delay is reported.
pub const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Right,
    Unknown,
    Wrong,
    /// Wrong, because the agent shows nothing from which coven could learn it.
    Hidden,
    /// The agent does not have this step, for the reason in the note.
    Skipped,
}

#[derive(Debug, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub expected: String,
    pub observed: String,
    pub source: Option<ActivitySource>,
    pub detail: Option<String>,
    pub delay_seconds: Option<f64>,
    pub verdict: Verdict,
    pub note: String,
}

impl Step {
    /// Returns a step that the agent does not have. Without a reason it counts as unknown.
    pub fn skipped(name: &'static str, reason: &str) -> Self {
        let verdict = if reason.is_empty() { Verdict::Unknown } else { Verdict::Skipped };
        Self { verdict, note: reason.to_owned(), ..Self::new(name) }
    }

    /// Returns a step that checks something other than the activity.
    pub fn checked(name: &'static str, expected: &str, observed: String, is_right: bool) -> Self {
        let verdict = if is_right { Verdict::Right } else { Verdict::Wrong };
        Self { expected: expected.to_owned(), observed, verdict, ..Self::new(name) }
    }

    fn new(name: &'static str) -> Self {
        Self {
            name,
            expected: String::new(),
            observed: String::new(),
            source: None,
            detail: None,
            delay_seconds: None,
            verdict: Verdict::Unknown,
            note: String::new(),
        }
    }

    /// Marks the step as wrong unless it is already. `later` says what was observed afterwards.
    pub fn went_wrong(&mut self, later: &str) {
        if self.verdict == Verdict::Right {
            self.observed = format!("{}, then {later}", self.observed);
            self.verdict = Verdict::Wrong;
        }
    }

    pub fn cells(&self) -> Vec<String> {
        let verdict = match self.verdict {
            Verdict::Right => "right",
            Verdict::Unknown => "unknown",
            Verdict::Wrong => "WRONG",
            Verdict::Hidden => "hidden",
            Verdict::Skipped => "-",
        };
        let delay = self.delay_seconds.map(|delay| format!("{delay:.1} s")).unwrap_or_default();
        let source = self.source.map(|source| source.to_string()).unwrap_or_default();
        let texts = [self.name, &self.expected, &self.observed, &source, &delay, verdict, &self.note];
        texts.map(str::to_owned).to_vec()
    }
}

/// Waits until coven observes one of the expected activities.
pub fn observe(coven: &Coven, id: &str, name: &'static str, expected: &[Activity]) -> TrialResult<Step> {
    let started = Instant::now();
    let mut last = None;
    let found = eventually(NOTICE_TIMEOUT, || {
        let session = coven.session(id).ok()?;
        let activity = session.activity;
        last = Some(session);
        expected.contains(&activity?).then_some(())
    });
    let session = last.ok_or("the session cannot be read")?;
    let observed = session.activity.map_or_else(|| "ended".to_owned(), |activity| activity.to_string());
    let verdict = match session.activity {
        _ if found.is_some() => Verdict::Right,
        Some(Activity::Unknown) => Verdict::Unknown,
        _ => Verdict::Wrong,
    };
    Ok(Step {
        expected: expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        observed,
        source: session.activity_source,
        detail: session.activity_detail,
        delay_seconds: found.map(|()| started.elapsed().as_secs_f64()),
        verdict,
        ..Step::new(name)
    })
}

/// Watches a state until `has_ended` accepts the screen or the time is over. Returns the first activity that is not allowed.
pub fn watch(
    coven: &Coven,
    id: &str,
    within: Duration,
    allowed: &[Activity],
    mut has_ended: impl FnMut(&str) -> bool,
) -> Option<Activity> {
    let mut other = None;
    eventually(within, || {
        // The activity is read first: the screen that follows still shows the state.
        let activity = coven.session(id).ok()?.activity;
        if has_ended(&coven.screen(id).ok()?) {
            return Some(());
        }
        other = activity.filter(|activity| !allowed.contains(activity));
        other.map(drop)
    });
    other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_skipped_without_a_reason_is_unknown() {
        assert_eq!(Step::skipped("question", "").verdict, Verdict::Unknown);
        assert_eq!(Step::skipped("question", "it has no tool for questions").verdict, Verdict::Skipped);
    }

    #[test]
    fn a_right_step_becomes_wrong_once() {
        let mut step = Step::checked("works", "working", "working".to_owned(), true);
        step.went_wrong("idle");
        step.went_wrong("limited");
        assert_eq!((step.verdict, step.observed.as_str()), (Verdict::Wrong, "working, then idle"));
    }
}
