//! What the terminal of a session says about its agent: signals and screen text that match a rule become observations.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use coven_domain::activity::{Activity, ActivityFact, ActivitySource, ActivityStatus, Observation};
use coven_domain::session::Session;
use coven_harness::rules::{Evidence, Match, RuleInput, RuleMeaning, RuleSet};
use coven_holder::clock;
use coven_screen::{Progress, TerminalSignal};
use tokio::time::Instant;

use super::Engine;
use super::live::LiveSession;
use super::model::Model;

/// Minimum time between two evaluations of a screen.
const SCREEN_INTERVAL: Duration = Duration::from_millis(200);
/// Delay before the first evaluation, so that a program can finish drawing.
const DRAWING_TIME: Duration = Duration::from_millis(50);

/// A fact that a rule found, with its detail.
pub type Finding = (ActivityFact, Option<String>);

/// Returns the first rule that matches a signal.
pub fn match_signal<'a>(rules: &'a RuleSet, signal: &TerminalSignal) -> Option<Match<'a>> {
    let find = |on, lines: &[&str]| rules.find(&Evidence { on, lines });
    match signal {
        TerminalSignal::Title(title) => find(RuleInput::Title, &[title]),
        TerminalSignal::Notification { title: None, body } => find(RuleInput::Notification, &[body]),
        TerminalSignal::Notification { title: Some(title), body } => find(RuleInput::Notification, &[title, body]),
        TerminalSignal::Progress(progress) => find(RuleInput::Progress, &[&progress_text(*progress)]),
        TerminalSignal::Bell => find(RuleInput::Bell, &[]),
        TerminalSignal::PromptShown => find(RuleInput::Shell, &["prompt"]),
        TerminalSignal::CommandStarted => find(RuleInput::Shell, &["command"]),
        TerminalSignal::CommandEnded { exit: None } => find(RuleInput::Shell, &["exit"]),
        TerminalSignal::CommandEnded { exit: Some(code) } => find(RuleInput::Shell, &[&format!("exit {code}")]),
    }
}

/// Returns the first rule that matches the text of a screen.
pub fn match_screen<'a>(rules: &'a RuleSet, text: &str) -> Option<Match<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    rules.find(&Evidence { on: RuleInput::Screen, lines: &lines })
}

fn progress_text(progress: Progress) -> String {
    match progress {
        Progress::Hidden => "hidden".to_owned(),
        Progress::Percent(percent) => format!("{percent}%"),
        Progress::Failed => "failed".to_owned(),
        Progress::Busy => "busy".to_owned(),
        Progress::Paused => "paused".to_owned(),
    }
}

/// The screen rule that matches now. Only changes are news: a dialog that stays on the screen says nothing new.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenMatch {
    shown: Option<Shown>,
    /// The rule did not match the last time. A program that redraws its screen may have erased it for a moment.
    is_missed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    rule: String,
    asks: bool,
    is_limit: bool,
    detail: Option<String>,
}

impl ScreenMatch {
    /// Returns the match that an earlier daemon found.
    fn restored(status: &ActivityStatus) -> Self {
        let asks = status.source == Some(ActivitySource::Screen) && status.activity.needs_a_human();
        let shown = Shown { rule: String::new(), asks, is_limit: false, detail: status.detail.clone() };
        Self { shown: asks.then_some(shown), is_missed: false }
    }

    /// Compares the screen with the one before, and returns what changed.
    pub fn update(&mut self, found: Option<&Match<'_>>) -> Vec<Finding> {
        let Some(found) = found else { return self.missed() };
        self.is_missed = false;
        let asks = matches!(found.rule.means, RuleMeaning::Permission | RuleMeaning::Question);
        let is_limit = found.rule.means == RuleMeaning::Limited;
        let next = Shown { rule: found.rule.name.clone(), asks, is_limit, detail: found.detail.clone() };
        if self.shown.as_ref() == Some(&next) {
            return Vec::new();
        }
        let asked = self.shown.replace(next).is_some_and(|before| before.asks);
        // A screen that rests does not close a dialog by itself.
        let is_closed = asked && found.rule.means == RuleMeaning::Resting;
        let closed = is_closed.then_some((ActivityFact::Settled, None));
        closed.into_iter().chain([(found.rule.means.fact(), found.detail.clone())]).collect()
    }

    fn missed(&mut self) -> Vec<Finding> {
        if self.shown.is_none() || !std::mem::replace(&mut self.is_missed, true) {
            return Vec::new();
        }
        self.is_missed = false;
        let asked = self.shown.take().is_some_and(|shown| shown.asks);
        asked.then_some((ActivityFact::Settled, None)).into_iter().collect()
    }

    /// Reports whether the screen shows that a limit was reached.
    fn shows_limit(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.is_limit)
    }

    /// Reports whether the screen must be evaluated again even if it does not change.
    pub const fn must_be_confirmed(&self) -> bool {
        self.is_missed
    }
}

/// Reads the terminal of one session for its follower.
pub(crate) struct TerminalReader {
    rules: RuleSet,
    reads_screen: bool,
    on_screen: ScreenMatch,
    /// Version of the model at the last evaluation of its screen.
    evaluated: Option<u64>,
    next_evaluation: Option<Instant>,
    last_evaluation: Option<Instant>,
}

impl TerminalReader {
    /// Returns a reader, or `None` if the harness of the session has no rules.
    pub fn of(engine: &Engine, session: &Session) -> Option<Self> {
        let rules = &engine.harnesses.iter().find(|harness| harness.id == session.harness)?.rules;
        if rules.is_empty() {
            return None;
        }
        Some(Self {
            rules: rules.clone(),
            reads_screen: rules.reads(RuleInput::Screen),
            on_screen: ScreenMatch::restored(&session.activity),
            evaluated: None,
            next_evaluation: None,
            last_evaluation: None,
        })
    }

    /// Plans an evaluation of the screen, because it may have changed.
    pub fn plan_evaluation(&mut self, now: Instant) {
        if self.reads_screen {
            let earliest = self.last_evaluation.map_or(now, |last| last + SCREEN_INTERVAL);
            self.next_evaluation.get_or_insert(earliest.max(now + DRAWING_TIME));
        }
    }

    pub const fn next_evaluation(&self) -> Option<Instant> {
        self.next_evaluation
    }

    /// Evaluates the screen if it has changed. Returns what that says.
    fn evaluate(&mut self, model: &Model, now: Instant) -> Vec<Finding> {
        (self.next_evaluation, self.last_evaluation) = (None, Some(now));
        let version = model.version();
        if self.evaluated == Some(version) && !self.on_screen.must_be_confirmed() {
            return Vec::new();
        }
        // The rest of an old log is replayed first: its screens were evaluated before.
        let Some(text) = model.new_screen_text() else { return Vec::new() };
        self.evaluated = Some(version);
        let findings = self.on_screen.update(match_screen(&self.rules, &text).as_ref());
        if self.on_screen.must_be_confirmed() {
            self.next_evaluation = Some(now + SCREEN_INTERVAL);
        }
        findings
    }
}

impl Engine {
    /// Observes the signals that the model has collected.
    pub(crate) fn read_signals(&self, live: &LiveSession, reader: &TerminalReader) {
        let Some(model) = &live.model else { return };
        let new = model.take_signals();
        if let Some(title) = new.earlier_title {
            self.observe_earlier_title(live, reader, title);
        }
        let mut last: Option<(RuleInput, Finding)> = None;
        for found in new.signals.iter().filter_map(|signal| match_signal(&reader.rules, signal)) {
            let next = (found.rule.on, (found.rule.means.fact(), found.detail));
            // A spinner in a title says the same many times a second.
            if last.as_ref() == Some(&next) && next.0 != RuleInput::Notification {
                continue;
            }
            if !is_retry(live, reader, &next) {
                self.observe_signal(live, next.0, next.1.clone());
            }
            last = Some(next);
        }
    }

    /// Observes the title that the session had when this daemon adopted it. An earlier daemon has judged it already, so it
    /// counts only if nothing is known, or if it says that the agent rests.
    fn observe_earlier_title(&self, live: &LiveSession, reader: &TerminalReader, title: String) {
        let Some(found) = match_signal(&reader.rules, &TerminalSignal::Title(title)) else { return };
        let finding = (found.rule.means.fact(), found.detail);
        let mut activity = live.activity.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unknown = activity.status().activity == Activity::Unknown;
        if is_unknown || finding.0 == ActivityFact::Rested {
            drop(activity);
            self.observe_signal(live, RuleInput::Title, finding);
        } else {
            activity.last_level = Some(finding);
        }
    }

    fn observe_signal(&self, live: &LiveSession, on: RuleInput, finding: Finding) {
        // Only titles and progress describe a state that lasts; the other signals are moments.
        if matches!(on, RuleInput::Title | RuleInput::Progress) {
            live.activity.lock().unwrap_or_else(PoisonError::into_inner).last_level = Some(finding.clone());
        }
        let (fact, detail) = finding;
        self.observe(live, Observation::new(ActivitySource::Signal, fact, detail.as_deref(), clock::now()));
    }

    /// Evaluates the screen rules.
    pub(crate) fn read_screen(&self, live: &LiveSession, reader: &mut TerminalReader) {
        let Some(model) = &live.model else { return };
        for (fact, detail) in reader.evaluate(model, Instant::now()) {
            match fact {
                ActivityFact::Settled => {
                    if !live.activity.lock().unwrap_or_else(PoisonError::into_inner).forget_screen() {
                        self.observe_settled(live, ActivitySource::Screen);
                    }
                }
                _ => drop(
                    self.observe(live, Observation::new(ActivitySource::Screen, fact, detail.as_deref(), clock::now())),
                ),
            }
        }
    }

    /// Reports that the dialog of an earlier daemon's screen rule is unknown now, because the harness has no such rules.
    pub(crate) fn forget_lost_screen_rules(&self, live: &Arc<LiveSession>, reader: Option<&TerminalReader>) {
        let status = live.activity.lock().unwrap_or_else(PoisonError::into_inner).status().clone();
        let by_rule = status.source == Some(ActivitySource::Screen) && status.activity.needs_a_human();
        if by_rule && !reader.is_some_and(|reader| reader.reads_screen) {
            self.observe(live, Observation::new(ActivitySource::Screen, ActivityFact::Lost, None, clock::now()));
        }
    }
}

/// Reports whether a title only repeats that the agent works while the screen shows a limit: the agent retries a request
/// that was refused, and its spinner moves.
fn is_retry(live: &LiveSession, reader: &TerminalReader, (on, finding): &(RuleInput, Finding)) -> bool {
    let is_level = matches!(on, RuleInput::Title | RuleInput::Progress);
    if !is_level || finding.0 != ActivityFact::Worked || !reader.on_screen.shows_limit() {
        return false;
    }
    let activity = live.activity.lock().unwrap_or_else(PoisonError::into_inner);
    activity.last_level.as_ref().is_some_and(|(fact, _)| *fact == ActivityFact::Worked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
tested_with = "1"
[[rule]]
name = "trust"
on = "screen"
means = "question"
all = ["Do you trust"]
detail = "asks: {line}"
[[rule]]
name = "waiting"
on = "screen"
means = "resting"
all = ["type here"]
[[rule]]
name = "busy"
on = "progress"
means = "working"
any = ["busy", "%"]
[[rule]]
name = "bell"
on = "bell"
means = "idle"
[[rule]]
name = "approval"
on = "notification"
means = "permission"
all = ["Agent", "approve"]
detail = "{after}"
[[rule]]
name = "failed"
on = "shell"
means = "limited"
starts = ["exit 75"]
"#;

    fn rules() -> RuleSet {
        RuleSet::parse(RULES).expect("valid rules")
    }

    fn of_signal(signal: &TerminalSignal) -> Option<(String, Option<String>)> {
        match_signal(&rules(), signal).map(|found| (found.rule.name.clone(), found.detail))
    }

    #[test]
    fn every_signal_is_matched_as_text_of_its_input() {
        let named = |name: &str| Some((name.to_owned(), None));
        assert_eq!(of_signal(&TerminalSignal::Progress(Progress::Busy)), named("busy"));
        assert_eq!(of_signal(&TerminalSignal::Progress(Progress::Percent(7))), named("busy"));
        assert_eq!(of_signal(&TerminalSignal::Progress(Progress::Hidden)), None);
        assert_eq!(of_signal(&TerminalSignal::Bell), named("bell"));
        assert_eq!(of_signal(&TerminalSignal::CommandEnded { exit: Some(75) }), named("failed"));
        assert_eq!(of_signal(&TerminalSignal::PromptShown), None);
        let body = "approve ls".to_owned();
        let notification = TerminalSignal::Notification { title: Some("Agent".to_owned()), body: body.clone() };
        assert_eq!(of_signal(&notification), Some(("approval".to_owned(), Some(body))));
        assert_eq!(of_signal(&TerminalSignal::Title(String::new())), None);
    }

    fn update(state: &mut ScreenMatch, text: &str) -> Vec<Finding> {
        let rules = rules();
        state.update(match_screen(&rules, text).as_ref())
    }

    #[test]
    fn a_dialog_is_reported_once_and_settled_after_two_screens_without_it() {
        let mut state = ScreenMatch::default();
        let asked = (ActivityFact::QuestionAsked, Some("asks: Do you trust it?".to_owned()));
        assert_eq!(update(&mut state, "Do you trust it?"), std::slice::from_ref(&asked));
        assert_eq!(update(&mut state, "Do you trust it?\n> yes"), []);
        // A redraw erases the dialog for a moment.
        assert_eq!(update(&mut state, ""), []);
        assert!(state.must_be_confirmed());
        assert_eq!(update(&mut state, "Do you trust it?"), []);
        assert_eq!(update(&mut state, "hello"), []);
        assert_eq!(update(&mut state, "hello"), [(ActivityFact::Settled, None)]);
        assert!(!state.must_be_confirmed());
        assert_eq!(update(&mut state, "hello"), [], "a screen without a match means nothing");
        assert_eq!(update(&mut state, "Do you trust it?"), [asked]);
    }

    #[test]
    fn another_match_replaces_a_dialog_immediately() {
        let mut state = ScreenMatch::default();
        update(&mut state, "Do you trust it?");
        let rested = (ActivityFact::Rested, None);
        assert_eq!(update(&mut state, "type here"), [(ActivityFact::Settled, None), rested.clone()]);
        assert_eq!((update(&mut state, "x"), update(&mut state, "x")), (vec![], vec![]), "only dialogs are settled");
        assert_eq!(update(&mut state, "type here"), [rested]);
    }

    #[test]
    fn a_dialog_that_an_earlier_daemon_saw_is_settled_too() {
        let asked = ActivityStatus {
            activity: Activity::Question,
            source: Some(ActivitySource::Screen),
            ..ActivityStatus::default()
        };
        let mut state = ScreenMatch::restored(&asked);
        assert_eq!((update(&mut state, ""), update(&mut state, "")), (vec![], vec![(ActivityFact::Settled, None)]));
        let by_hook = ActivityStatus { source: Some(ActivitySource::Hook), ..asked };
        assert_eq!(ScreenMatch::restored(&by_hook), ScreenMatch::default());
    }
}
