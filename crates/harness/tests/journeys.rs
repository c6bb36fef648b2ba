//! Replays the journeys of real agents without their programs: recorded hook calls, titles, notifications and screens
//! decide the activity. Each agent has a `journey.jsonl` beside its recordings, with one of these objects per line:
//!
//! - `step`: the name of the part that begins, one of `STEPS`.
//! - `hook` and `payload`: a hook call, or a line of the report file with its type as the event.
//! - `title`, `notification`: text that the terminal received.
//! - `screen`: the file with the screen that is shown from now on.
//! - `answered`: the oldest request was answered in the inbox.
//! - `expect`: the activity one second later.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::activity::{Activity, ActivityFact, ActivitySource, ActivityTracker, Observation, Verdict};
use coven_harness::agents;
use coven_harness::hooks::{HookMeaning, HookRequestBody, Hooks};
use coven_harness::rules::{Evidence, RuleInput, RuleSet};
use serde_json::Value;

const AGENTS: [&str; 7] = ["claude", "codex", "copilot", "gemini", "opencode", "pi", "qwen"];
/// A journey leaves out the steps that its agent does not have or that were not recorded.
const STEPS: [&str; 8] = [
    "starts",
    "works",
    "permission, answered in the terminal",
    "permission, answered from the inbox",
    "question",
    "Esc",
    "finishes",
    "rate limit",
];
const LINE_TIME: Duration = Duration::from_millis(100);
const EXPECT_TIME: Duration = Duration::from_secs(1);

type Finding = (ActivityFact, Option<String>);

/// The replay of one journey. It does what the engine does with the same reports.
struct Journey {
    folder: PathBuf,
    hooks: &'static Hooks,
    rules: RuleSet,
    tracker: ActivityTracker,
    now: Timestamp,
    /// Requests that the inbox can answer, oldest first, with the agent's own ids.
    pending: Vec<(Option<String>, ActivityFact)>,
    /// What the last title said.
    last_title: Option<Finding>,
    /// The screen rule that matches, with what it found.
    shown: Option<(String, Finding)>,
}

impl Journey {
    fn new(id: &str) -> Self {
        let agent = agents::find(id).unwrap_or_else(|| panic!("{id}: not an agent"));
        Self {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(id),
            hooks: agent.hooks.unwrap_or_else(|_| panic!("{id}: no hooks")),
            rules: RuleSet::parse(agent.rules.unwrap_or_else(|| panic!("{id}: no rules"))).expect("valid rules"),
            tracker: ActivityTracker::default(),
            now: Timestamp::from_millis(0),
            pending: Vec::new(),
            last_title: None,
            shown: None,
        }
    }

    fn file(&self, name: &str) -> String {
        let file = self.folder.join(name);
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Advances the clock and applies the observations that are due.
    fn advance(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(due) = self.tracker.due_at().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            let applied = self.tracker.apply_due(self.now);
            if applied.is_some_and(|(held, verdict)| held.fact == ActivityFact::Settled && verdict == Verdict::Changed)
            {
                self.repeat_title();
            }
            self.drop_closed_requests();
        }
        self.now = end;
    }

    fn observe(&mut self, source: ActivitySource, fact: ActivityFact, detail: Option<&str>) -> Verdict {
        let verdict = self.tracker.observe(Observation::new(source, fact, detail, self.now));
        self.drop_closed_requests();
        verdict
    }

    /// Forgets the requests whose dialog was closed in the terminal.
    fn drop_closed_requests(&mut self) {
        if !self.tracker.status().activity.needs_a_human() {
            self.pending.clear();
        }
    }

    fn settle(&mut self, source: ActivitySource) {
        if self.observe(source, ActivityFact::Settled, None) == Verdict::Changed {
            self.repeat_title();
        }
    }

    /// Lets the last title count again: one that rests is not repeated when a dialog closes.
    fn repeat_title(&mut self) {
        if let Some((fact, detail)) = self.last_title.clone().filter(|(fact, _)| !fact.asks()) {
            self.observe(ActivitySource::Signal, fact, detail.as_deref());
        }
    }

    /// Reports the next pending request, or that none is left.
    fn after_settling(&mut self) {
        match self.pending.first() {
            Some((_, fact)) => drop(self.observe(ActivitySource::Hook, *fact, None)),
            None => self.settle(ActivitySource::Hook),
        }
    }

    fn hook(&mut self, event: &str, payload: &Value) {
        for meaning in (self.hooks.read)(event, payload) {
            match meaning {
                HookMeaning::Started | HookMeaning::Conversation { .. } => {}
                HookMeaning::Activity { fact, .. } if self.is_beside_a_request(fact) => {}
                HookMeaning::Activity { fact, detail } => {
                    self.observe(ActivitySource::Hook, fact, detail.as_deref());
                }
                HookMeaning::LimitReached { detail, .. } => {
                    self.observe(ActivitySource::Hook, ActivityFact::LimitReached, detail.as_deref());
                }
                HookMeaning::Asked(request) => {
                    let (fact, detail) = match request.body {
                        HookRequestBody::Permission { title, .. } => (ActivityFact::PermissionAsked, title),
                        HookRequestBody::Question { questions } => {
                            (ActivityFact::QuestionAsked, format!("asks: {}", questions[0].prompt))
                        }
                    };
                    self.observe(ActivitySource::Hook, fact, Some(&detail));
                    if request.is_answerable {
                        self.pending.push((request.key, fact));
                    }
                }
                HookMeaning::Settled { key } => {
                    let before = self.pending.len();
                    self.pending.retain(|(known, _)| key.is_some() && known.is_some() && *known != key);
                    if self.pending.len() < before {
                        self.after_settling();
                    }
                }
                HookMeaning::BackgroundChanged(change) => {
                    self.set_background(self.tracker.background().saturating_add_signed(change));
                }
                HookMeaning::BackgroundCount(count) => self.set_background(count),
            }
        }
    }

    fn set_background(&mut self, count: u32) {
        self.tracker.set_background(count, self.now);
    }

    /// Reports whether the call of a hook says something about another tool than the one that waits for an answer.
    fn is_beside_a_request(&self, fact: ActivityFact) -> bool {
        let is_background = self.tracker.background() > 0;
        !self.pending.is_empty() && (fact == ActivityFact::Worked || (fact == ActivityFact::TurnEnded && is_background))
    }

    fn signal(&mut self, on: RuleInput, text: &str) {
        let found = self.rules.find(&Evidence { on, lines: &[text] });
        let Some((fact, detail)) = found.map(|found| (found.rule.means.fact(), found.detail)) else { return };
        if on == RuleInput::Title {
            let before = self.last_title.replace((fact, detail.clone()));
            let is_repeated = fact == ActivityFact::Worked && before.is_some_and(|(before, _)| before == fact);
            let shows_limit = self.shown.as_ref().is_some_and(|(_, (shown, _))| *shown == ActivityFact::LimitReached);
            if is_repeated && shows_limit {
                return;
            }
        }
        self.observe(ActivitySource::Signal, fact, detail.as_deref());
    }

    /// Shows a screen. It stays, so a dialog that it does not have is missed twice.
    fn screen(&mut self, name: &str) {
        let text = self.file(name);
        let lines: Vec<&str> = text.lines().collect();
        let found = self.rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let next = found.map(|found| (found.rule.name.clone(), (found.rule.means.fact(), found.detail)));
        if next == self.shown {
            return;
        }
        let before = std::mem::replace(&mut self.shown, next.clone());
        let is_resting = next.as_ref().is_none_or(|(_, (fact, _))| *fact == ActivityFact::Rested);
        if is_resting && before.is_some_and(|(_, (fact, _))| fact.asks()) {
            let status = self.tracker.status();
            let is_of_hook = status.source.is_some_and(|source| source < ActivitySource::Signal);
            if is_of_hook && status.activity.needs_a_human() {
                self.tracker.forget_held(ActivitySource::Screen);
            } else {
                self.settle(ActivitySource::Screen);
            }
        }
        if let Some((_, (fact, detail))) = next {
            self.observe(ActivitySource::Screen, fact, detail.as_deref());
        }
    }

    /// Replays the journey and checks each expectation.
    fn replay(&mut self) {
        let (mut step, mut is_checked) = (String::new(), true);
        for (number, line) in self.file("journey.jsonl").lines().enumerate() {
            let at = format!("{}/journey.jsonl:{} ({step})", self.folder.display(), number + 1);
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{at}: {error}"));
            self.advance(LINE_TIME);
            let text = |name: &str| line[name].as_str();
            if let Some(name) = text("step") {
                assert!(is_checked && STEPS.contains(&name), "{at}: {name} is unknown, or the step before has no end");
                step = name.to_owned();
            } else if let Some(event) = text("hook") {
                self.hook(event, &line["payload"]);
            } else if let Some(title) = text("title") {
                self.signal(RuleInput::Title, title);
            } else if let Some(notification) = text("notification") {
                self.signal(RuleInput::Notification, notification);
            } else if let Some(name) = text("screen") {
                self.screen(name);
            } else if line["answered"] == true {
                assert!(!self.pending.is_empty(), "{at}: the inbox has no request");
                self.pending.remove(0);
                self.after_settling();
            } else {
                let expected = Activity::ALL.iter().find(|it| Some(it.as_str()) == text("expect"));
                self.advance(EXPECT_TIME);
                assert_eq!(Some(&self.tracker.status().activity), expected, "{at}: {:?}", self.tracker);
            }
            is_checked = text("expect").is_some();
        }
        assert!(is_checked && !step.is_empty(), "{}: the journey has no end", self.folder.display());
    }
}

#[test]
fn the_journey_of_every_agent_has_the_expected_activities() {
    for agent in AGENTS {
        Journey::new(agent).replay();
    }
}
