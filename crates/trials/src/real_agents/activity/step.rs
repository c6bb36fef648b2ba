//! One step of a journey, and the comparison of what coven observed with what happened.

use std::time::{Duration, Instant};

use coven_domain::activity::{Activity, ActivitySource};
use serde::Serialize;

use super::super::coven::Coven;
use super::super::{TrialResult, eventually};

/// How long coven may take to notice; the delay is reported.
pub const NOTICE_TIMEOUT: Duration = Duration::from_secs(20);
/// Some agents repeat a refused request for minutes before they say so.
pub const LIMIT_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Right,
    Unknown,
    Wrong,
    /// The agent cannot do this step.
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
}

impl Step {
    pub fn skipped(name: &'static str) -> Self {
        Self {
            name,
            expected: String::new(),
            observed: String::new(),
            source: None,
            detail: None,
            delay_seconds: None,
            verdict: Verdict::Skipped,
        }
    }

    pub fn cells(&self) -> Vec<String> {
        let verdict = match self.verdict {
            Verdict::Right => "right",
            Verdict::Unknown => "unknown",
            Verdict::Wrong => "WRONG",
            Verdict::Skipped => "-",
        };
        let delay = self.delay_seconds.map(|delay| format!("{delay:.1} s")).unwrap_or_default();
        let source = self.source.map(|source| source.to_string()).unwrap_or_default();
        vec![self.name.to_owned(), self.expected.clone(), self.observed.clone(), source, delay, verdict.to_owned()]
    }
}

/// Waits until coven observes one of the expected activities.
pub fn observe(
    coven: &Coven,
    id: &str,
    (name, within): (&'static str, Duration),
    expected: &[Activity],
) -> TrialResult<Step> {
    let started = Instant::now();
    let mut last = None;
    let found = eventually(within, || {
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
        name,
        expected: expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
        observed,
        source: session.activity_source,
        detail: session.activity_detail,
        delay_seconds: found.map(|()| started.elapsed().as_secs_f64()),
        verdict,
    })
}

/// Watches a state while the screen says that it lasts. A step that was right becomes wrong if coven reports another
/// activity meanwhile.
pub fn watch(coven: &Coven, id: &str, step: &mut Step, allowed: &[Activity], has_ended: impl Fn(&str) -> bool) {
    if step.verdict != Verdict::Right {
        return;
    }
    let mut other = None;
    eventually(NOTICE_TIMEOUT, || {
        // The activity is read first: the screen that follows still shows the state.
        let activity = coven.session(id).ok()?.activity;
        if has_ended(&coven.screen(id).ok()?) {
            return Some(());
        }
        other = activity.filter(|activity| !allowed.contains(activity));
        other.map(drop)
    });
    if let Some(other) = other {
        step.observed = format!("{}, then {other}", step.observed);
        step.verdict = Verdict::Wrong;
    }
}
