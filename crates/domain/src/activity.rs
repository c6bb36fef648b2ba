//! What the agent of a live session is doing, and how observations of several sources decide it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lifecycle::Lifecycle;
use crate::text::one_line;
use crate::{RequestId, Timestamp, string_enum};

/// How long a weaker source must say the same, while the stronger one is silent, before it overrides the stronger one.
pub const OVERRIDE_DELAY: Duration = Duration::from_millis(400);
/// Number of observations kept per session.
pub const MAX_OBSERVATIONS: usize = 100;
const DETAIL_CHARS: usize = 200;
/// Reset times that differ by less are the same.
const RESET_TOLERANCE: Duration = Duration::from_secs(90);

string_enum! {
    pub enum Activity {
        Working = "working",
        /// The agent waits for an approval.
        Permission = "permission",
        /// The agent waits for an answer.
        Question = "question",
        /// The turn is over.
        Idle = "idle",
        /// The agent reached a quota or a rate limit.
        Limited = "limited",
        /// No source has reported anything.
        Unknown = "unknown",
    }
}

impl Activity {
    /// Reports whether a human should look at the session.
    pub const fn concerns_a_human(self) -> bool {
        match self {
            Self::Permission | Self::Question | Self::Idle | Self::Limited => true,
            Self::Working | Self::Unknown => false,
        }
    }

    /// Reports whether the agent waits for a human.
    pub const fn needs_a_human(self) -> bool {
        matches!(self, Self::Permission | Self::Question)
    }
}

string_enum! {
    pub enum ActivityFact {
        /// The agent works on a turn or runs a tool.
        Worked = "worked",
        PermissionAsked = "permission_asked",
        QuestionAsked = "question_asked",
        /// A permission or question was answered, or its dialog closed.
        Settled = "settled",
        TurnEnded = "turn_ended",
        /// The agent does not work: its turn is over, or it waits for an answer.
        Rested = "rested",
        LimitReached = "limit_reached",
        /// The evidence is gone.
        Lost = "lost",
    }
}

impl ActivityFact {
    /// Reports whether the agent asks a human.
    pub const fn asks(self) -> bool {
        matches!(self, Self::PermissionAsked | Self::QuestionAsked)
    }
}

impl Lifecycle for Activity {
    type Fact = ActivityFact;

    const NOUN: &'static str = "activity";
    const STATES: &'static [Self] = Self::ALL;
    const FACTS: &'static [ActivityFact] = ActivityFact::ALL;
    const TRANSITIONS: &'static [(Self, ActivityFact, Self)] = {
        use Activity::*;
        use ActivityFact as On;
        &[
            (Unknown, On::Worked, Working),
            (Unknown, On::PermissionAsked, Permission),
            (Unknown, On::QuestionAsked, Question),
            (Unknown, On::TurnEnded, Idle),
            (Unknown, On::Rested, Idle),
            (Unknown, On::LimitReached, Limited),
            (Working, On::Worked, Working),
            (Working, On::PermissionAsked, Permission),
            (Working, On::QuestionAsked, Question),
            (Working, On::TurnEnded, Idle),
            (Working, On::Rested, Idle),
            (Working, On::LimitReached, Limited),
            (Working, On::Lost, Unknown),
            (Permission, On::Worked, Working),
            (Permission, On::PermissionAsked, Permission),
            (Permission, On::QuestionAsked, Question),
            (Permission, On::Settled, Working),
            (Permission, On::TurnEnded, Idle),
            (Permission, On::LimitReached, Limited),
            (Permission, On::Lost, Unknown),
            (Question, On::Worked, Working),
            (Question, On::PermissionAsked, Permission),
            (Question, On::QuestionAsked, Question),
            (Question, On::Settled, Working),
            (Question, On::TurnEnded, Idle),
            (Question, On::LimitReached, Limited),
            (Question, On::Lost, Unknown),
            (Idle, On::Worked, Working),
            (Idle, On::PermissionAsked, Permission),
            (Idle, On::QuestionAsked, Question),
            (Idle, On::TurnEnded, Idle),
            (Idle, On::Rested, Idle),
            (Idle, On::LimitReached, Limited),
            (Idle, On::Lost, Unknown),
            (Limited, On::Worked, Working),
            (Limited, On::PermissionAsked, Permission),
            (Limited, On::QuestionAsked, Question),
            (Limited, On::TurnEnded, Idle),
            (Limited, On::LimitReached, Limited),
            (Limited, On::Lost, Unknown),
        ]
    };
}

string_enum! {
    /// Where an observation comes from, strongest first.
    pub enum ActivitySource {
        /// The agent's protocol (ACP).
        Protocol = "protocol",
        /// A hook of the agent program.
        Hook = "hook",
        /// The title, a notification or another sequence in the terminal's output.
        Signal = "signal",
        /// A rule about the text on the screen.
        Screen = "screen",
        /// The state of the process.
        Process = "process",
    }
}

/// One report of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    pub source: ActivitySource,
    pub fact: ActivityFact,
    /// What the agent wants or does, on one line.
    pub detail: Option<String>,
    pub at: Timestamp,
    /// When the limit resets, if the source says so. Only the status keeps it.
    pub until: Option<Timestamp>,
}

impl Observation {
    pub fn new(source: ActivitySource, fact: ActivityFact, detail: Option<&str>, at: Timestamp) -> Self {
        let detail = detail.map(|detail| one_line(detail, DETAIL_CHARS)).filter(|detail| !detail.is_empty());
        Self { source, fact, detail, at, until: None }
    }

    /// Adds the time at which the limit resets.
    pub fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }
}

/// An observation with its effect, as `coven why` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedObservation {
    pub number: u64,
    pub observation: Observation,
    pub verdict: Verdict,
}

string_enum! {
    /// The effect of an observation.
    pub enum Verdict {
        /// It changed the activity.
        Changed = "changed",
        /// The activity was the same already.
        Confirmed = "confirmed",
        /// A stronger source says something else; it counts if that source stays silent.
        Held = "held",
        /// It does not apply to the current activity.
        Ignored = "ignored",
    }
}

/// The activity of a session, as stored in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityStatus {
    pub activity: Activity,
    pub since: Option<Timestamp>,
    pub source: Option<ActivitySource>,
    pub detail: Option<String>,
    /// It changed to something that concerns a human, and no client has looked since.
    pub is_unseen: bool,
    /// When the limit of a limited agent resets, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Default for ActivityStatus {
    fn default() -> Self {
        Self { activity: Activity::Unknown, since: None, source: None, detail: None, is_unseen: false, until: None }
    }
}

impl ActivityStatus {
    /// Records that a client looked at the session. Returns whether that changed anything.
    pub fn seen(&mut self) -> bool {
        std::mem::take(&mut self.is_unseen)
    }
}

/// The state beside the status and the evidence that the next daemon needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityCheckpoint {
    /// Subagents and background tasks that are running.
    pub background: u32,
    /// The turn ended while background tasks were running.
    pub is_turn_over: bool,
    /// Ids of the newest handled hook calls, oldest first, so that a repeated delivery is recognised.
    pub hook_calls: Vec<RequestId>,
}

/// Decides the activity of one session from the observations of all sources.
#[derive(Debug, Clone, Default)]
pub struct ActivityTracker {
    status: ActivityStatus,
    /// Subagents and background tasks that are running.
    background: u32,
    /// The turn ended while background tasks were running.
    is_turn_over: bool,
    /// Observations that wait for a stronger source to stay silent: at most one per source, strongest first.
    held: Vec<Observation>,
    /// The time of the newest observation of each source that applied.
    newest: BTreeMap<ActivitySource, Timestamp>,
}

impl ActivityTracker {
    pub fn new(status: ActivityStatus) -> Self {
        let newest = status.source.zip(status.since).into_iter().collect();
        Self { status, newest, ..Self::default() }
    }

    /// Restores the tracker of an earlier daemon from its status, its evidence and its checkpoint.
    pub fn restored(
        status: ActivityStatus,
        observations: &[JudgedObservation],
        checkpoint: &ActivityCheckpoint,
    ) -> Self {
        let mut tracker = Self::new(status);
        for it in observations.iter().filter(|it| it.verdict != Verdict::Ignored) {
            tracker.note_time(it.observation.source, it.observation.at);
        }
        Self { background: checkpoint.background, is_turn_over: checkpoint.is_turn_over, ..tracker }
    }

    pub const fn status(&self) -> &ActivityStatus {
        &self.status
    }

    /// Records that a client looked at the session. Returns whether that changed anything.
    pub fn seen(&mut self) -> bool {
        self.status.seen()
    }

    /// Reports whether a source of the same or a higher rank said something newer.
    pub fn is_outdated(&self, source: ActivitySource, at: Timestamp) -> bool {
        self.newest.range(..=source).any(|(_, newest)| *newest > at)
    }

    /// Applies an observation that was delivered late. It changes nothing if it is outdated.
    pub fn observe_late(&mut self, observation: Observation) -> Verdict {
        match self.is_outdated(observation.source, observation.at) {
            true => Verdict::Ignored,
            false => self.observe(observation),
        }
    }

    /// Applies an observation.
    pub fn observe(&mut self, observation: Observation) -> Verdict {
        let (source, at) = (observation.source, observation.at);
        let verdict = self.decide(observation);
        if verdict != Verdict::Ignored {
            self.note_time(source, at);
        }
        verdict
    }

    fn note_time(&mut self, source: ActivitySource, at: Timestamp) {
        let newest = self.newest.entry(source).or_insert(at);
        *newest = at.max(*newest);
    }

    fn decide(&mut self, observation: Observation) -> Verdict {
        if observation.fact == ActivityFact::Settled {
            self.forget_held(observation.source);
        }
        let Ok(next) = self.status.activity.after(observation.fact) else { return Verdict::Ignored };
        let is_weaker = self.status.source.is_some_and(|current| observation.source > current);
        if is_weaker && self.status.activity != Activity::Unknown {
            // Hooks and protocols know what the dialog asks; a title is the same for all dialogs.
            let is_same_dialog = self.status.source.is_some_and(|current| current <= ActivitySource::Hook)
                && self.status.activity.needs_a_human()
                && next.needs_a_human();
            if next == self.status.activity || is_same_dialog {
                // Both agree, so an earlier contradiction of the weaker source is void.
                self.held.retain(|held| held.source < observation.source);
                return Verdict::Confirmed;
            }
            // A repetition does not start the delay again.
            let is_repeated = |held: &Observation| {
                // A permission without a text can be a notice about the question that the same source described.
                let is_notice = held.fact == ActivityFact::QuestionAsked
                    && observation.fact == ActivityFact::PermissionAsked
                    && observation.detail.is_none();
                held.source == observation.source && (held.fact == observation.fact || is_notice)
            };
            if !self.held.iter().any(is_repeated) {
                // What weaker sources said before is void; what stronger ones said takes effect first.
                self.held.retain(|held| held.source < observation.source);
                self.held.push(observation);
            }
            return Verdict::Held;
        }
        self.held.clear();
        // A permission without a text can be a notice about the question that the same source described.
        let is_notice = observation.detail.is_none() && self.status.source == Some(observation.source);
        if is_notice && (self.status.activity, next) == (Activity::Question, Activity::Permission) {
            return Verdict::Confirmed;
        }
        self.apply(next, observation)
    }

    /// Forgets a dialog that this source reported: one that closes before its delay has passed never counts.
    pub fn forget_held(&mut self, source: ActivitySource) {
        self.held.retain(|held| held.source < source || !held.fact.asks());
    }

    /// Returns the time at which the next held observation takes effect.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.held.first().map(|held| held.at.after(OVERRIDE_DELAY))
    }

    /// Applies the next held observation if it is due. Returns it with its verdict.
    pub fn apply_due(&mut self, now: Timestamp) -> Option<(Observation, Verdict)> {
        if self.due_at()? > now {
            return None;
        }
        let held = self.held.remove(0);
        let next = self.status.activity.after(held.fact).ok()?;
        let verdict = self.apply(next, held.clone());
        Some((held, verdict))
    }

    /// Sets the number of subagents and background tasks that are running. If the turn is over, the number is news: returns
    /// the end of the turn as an observation with its verdict.
    pub fn set_background(&mut self, count: u32, at: Timestamp) -> Option<(Observation, Verdict)> {
        if std::mem::replace(&mut self.background, count) == count
            || !self.is_turn_over
            || self.status.activity != Activity::Working
        {
            return None;
        }
        let source = self.status.source.unwrap_or(ActivitySource::Hook);
        let over = Observation::new(source, ActivityFact::TurnEnded, None, at);
        let verdict = self.observe(over.clone());
        Some((over, verdict))
    }

    pub const fn background(&self) -> u32 {
        self.background
    }

    pub const fn is_turn_over(&self) -> bool {
        self.is_turn_over
    }

    fn apply(&mut self, next: Activity, observation: Observation) -> Verdict {
        let Observation { source, fact, mut detail, at, until } = observation;
        let until = until.filter(|_| fact == ActivityFact::LimitReached);
        let mut next = next;
        self.is_turn_over = matches!(fact, ActivityFact::TurnEnded | ActivityFact::Rested);
        if next == Activity::Idle && self.background > 0 {
            next = Activity::Working;
            let tasks = if self.background == 1 { "background task" } else { "background tasks" };
            detail = Some(format!("{} {tasks}", self.background));
        }
        let is_same = next == self.status.activity;
        let has_new_detail = detail.is_some() && detail != self.status.detail;
        // A text such as "in 5 minutes" gives another time with each repetition.
        let is_other = |known: Timestamp, new: Timestamp| known.since(new).max(new.since(known)) > RESET_TOLERANCE;
        let has_new_reset = until.is_some_and(|new| self.status.until.is_none_or(|known| is_other(known, new)));
        if is_same && !((has_new_detail || has_new_reset) && next.concerns_a_human()) {
            // A repetition by a stronger source makes that source the authority.
            self.status.source = self.status.source.map(|known| known.min(source)).or(Some(source));
            if has_new_detail {
                self.status.detail = detail;
            }
            return Verdict::Confirmed;
        }
        self.status = ActivityStatus {
            activity: next,
            since: if is_same { self.status.since } else { Some(at) },
            // The stronger source stays the authority, also if the weaker one says more.
            source: self.status.source.filter(|known| is_same && *known < source).or(Some(source)),
            detail: detail.or_else(|| self.status.detail.take().filter(|_| is_same)),
            is_unseen: next.concerns_a_human(),
            // A repetition without a time keeps the known one.
            until: until.filter(|_| has_new_reset || !is_same).or(self.status.until.filter(|_| is_same)),
        };
        Verdict::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn said(source: ActivitySource, fact: ActivityFact, millis: i64) -> Observation {
        Observation::new(source, fact, None, at(millis))
    }

    fn tracker(observations: &[(ActivitySource, ActivityFact, i64)]) -> ActivityTracker {
        let mut tracker = ActivityTracker::default();
        for (source, fact, millis) in observations {
            tracker.observe(said(*source, *fact, *millis));
        }
        tracker
    }

    use ActivityFact::*;
    use ActivitySource::{Hook, Protocol, Screen, Signal};

    #[test]
    fn the_default_is_unknown_and_the_first_source_decides() {
        let mut it = ActivityTracker::default();
        assert_eq!(it.status().activity, Activity::Unknown);
        assert_eq!(it.observe(said(Screen, QuestionAsked, 1)), Verdict::Changed);
        assert_eq!((it.status().activity, it.status().source), (Activity::Question, Some(Screen)));
        assert!(it.status().is_unseen);
        assert!(it.seen() && !it.status().is_unseen && !it.seen());
    }

    #[test]
    fn every_state_says_what_each_fact_does() {
        for state in Activity::ALL {
            for fact in [Worked, PermissionAsked, QuestionAsked, TurnEnded, LimitReached] {
                assert!(state.after(fact).is_ok(), "{state} {fact}");
            }
        }
        for waiting in [Activity::Permission, Activity::Question, Activity::Limited] {
            assert!(waiting.after(Rested).is_err(), "{waiting}: a title cannot close it");
        }
        for other in [Activity::Working, Activity::Idle, Activity::Unknown, Activity::Limited] {
            assert!(other.after(Settled).is_err(), "{other}: nothing to settle");
        }
    }

    #[test]
    fn a_stronger_source_overrides_immediately() {
        let it = tracker(&[(Screen, Worked, 1), (Signal, TurnEnded, 2), (Hook, PermissionAsked, 3)]);
        assert_eq!((it.status().activity, it.status().source), (Activity::Permission, Some(Hook)));
        let it = tracker(&[(Hook, Worked, 1), (Protocol, TurnEnded, 2)]);
        assert_eq!(it.status().activity, Activity::Idle);
    }

    #[test]
    fn a_weaker_source_overrides_only_after_silence_of_the_stronger_one() {
        // Esc fires no hook, but the title says that the agent rests.
        let mut it = tracker(&[(Hook, Worked, 0)]);
        assert_eq!(it.observe(said(Signal, Rested, 100)), Verdict::Held);
        assert_eq!(it.apply_due(at(499)), None);
        // Repetitions do not extend the delay.
        assert_eq!(it.observe(said(Signal, Rested, 450)), Verdict::Held);
        let (held, verdict) = it.apply_due(at(500)).expect("the delay has passed");
        assert_eq!((held.at, verdict), (at(100), Verdict::Changed));
        assert_eq!((it.status().activity, it.status().source), (Activity::Idle, Some(Signal)));
    }

    #[test]
    fn a_screen_that_says_more_than_the_title_counts_after_it() {
        // The title rests, and the screen shows that a limit was reached.
        let mut it = tracker(&[(Hook, Worked, 0), (Signal, Rested, 100), (Screen, LimitReached, 110)]);
        it.apply_due(at(500)).expect("the title");
        assert_eq!((it.status().activity, it.due_at()), (Activity::Idle, Some(at(510))));
        it.apply_due(at(510)).expect("the screen");
        assert_eq!((it.status().activity, it.status().source), (Activity::Limited, Some(Screen)));
        // A title that comes later than the screen voids it.
        let mut it = tracker(&[(Hook, Worked, 0), (Screen, LimitReached, 100), (Signal, Rested, 110)]);
        it.apply_due(at(9999)).expect("the title");
        assert_eq!((it.status().activity, it.due_at()), (Activity::Idle, None));
    }

    #[test]
    fn a_notice_without_a_text_does_not_turn_a_question_into_a_permission() {
        let mut it = ActivityTracker::default();
        it.observe(Observation::new(Hook, QuestionAsked, Some("asks: which colour?"), at(0)));
        assert_eq!(it.observe(said(Hook, PermissionAsked, 10)), Verdict::Confirmed);
        assert_eq!(
            (it.status().activity, it.status().detail.as_deref()),
            (Activity::Question, Some("asks: which colour?"))
        );
        let next = Observation::new(Hook, PermissionAsked, Some("wants to run: ls"), at(20));
        assert_eq!((it.observe(next), it.status().activity), (Verdict::Changed, Activity::Permission));

        // Also while the question waits for a stronger source to stay silent.
        let mut it = tracker(&[(Hook, Worked, 0)]);
        it.observe(Observation::new(Signal, QuestionAsked, Some("Plan mode prompt"), at(100)));
        assert_eq!(it.observe(said(Signal, PermissionAsked, 100)), Verdict::Held);
        it.observe(Observation::new(Screen, QuestionAsked, Some("asks: which colour?"), at(110)));
        it.apply_due(at(500));
        it.apply_due(at(510));
        assert_eq!(it.observe(said(Signal, PermissionAsked, 600)), Verdict::Confirmed);
        assert_eq!(it.status().activity, Activity::Question);
    }

    #[test]
    fn a_late_title_never_overrides_a_newer_hook() {
        let mut it = tracker(&[(Hook, TurnEnded, 0), (Signal, Worked, 10), (Hook, TurnEnded, 200)]);
        assert_eq!((it.due_at(), it.apply_due(at(9999))), (None, None));
        // The weaker source takes its contradiction back.
        assert_eq!(it.observe(said(Signal, Worked, 300)), Verdict::Held);
        assert_eq!(it.observe(said(Signal, Rested, 350)), Verdict::Confirmed);
        assert_eq!(it.apply_due(at(9999)), None);
        assert_eq!(it.status().activity, Activity::Idle);
    }

    #[test]
    fn a_dialog_that_closes_within_the_delay_never_counts() {
        let mut it = tracker(&[(Hook, Worked, 0), (Screen, QuestionAsked, 100)]);
        assert_eq!(it.due_at(), Some(at(500)));
        assert_eq!(it.observe(said(Screen, Settled, 300)), Verdict::Ignored);
        assert_eq!((it.apply_due(at(9999)), it.status().activity), (None, Activity::Working));
    }

    #[test]
    fn a_weaker_source_does_not_change_what_a_hook_says_about_a_dialog() {
        let mut it = tracker(&[(Hook, QuestionAsked, 0)]);
        assert_eq!(it.observe(said(Signal, PermissionAsked, 10)), Verdict::Confirmed);
        assert_eq!((it.due_at(), it.status().activity), (None, Activity::Question));
        let mut it = tracker(&[(Signal, PermissionAsked, 0)]);
        assert_eq!(it.observe(said(Screen, QuestionAsked, 10)), Verdict::Held, "the screen shows more than the title");
        it.apply_due(at(9999));
        assert_eq!(it.status().activity, Activity::Question);
    }

    #[test]
    fn a_title_that_rests_closes_no_permission_but_work_does() {
        let mut it = tracker(&[(Hook, Worked, 0), (Hook, PermissionAsked, 10)]);
        assert_eq!(it.observe(said(Signal, Rested, 20)), Verdict::Ignored);
        assert_eq!(it.observe(said(Signal, Worked, 1000)), Verdict::Held);
        assert!(it.apply_due(at(1400)).is_some());
        assert_eq!(it.status().activity, Activity::Working);
    }

    #[test]
    fn the_reset_of_a_limit_is_kept_until_the_agent_continues() {
        let limit = |millis, until| said(Hook, LimitReached, millis).until(Some(at(until)));
        let mut it = tracker(&[(Hook, Worked, 0)]);
        assert_eq!(it.observe(said(Hook, LimitReached, 1)), Verdict::Changed);
        assert_eq!(it.status().until, None);
        assert_eq!(it.observe(limit(2, 600_000)), Verdict::Changed, "the time is news");
        assert_eq!((it.status().until, it.status().since), (Some(at(600_000)), Some(at(1))));
        // Neither a repetition without a time nor a slightly different time changes it.
        assert_eq!(it.observe(said(Hook, LimitReached, 3)), Verdict::Confirmed);
        assert_eq!(it.observe(limit(4, 600_900)), Verdict::Confirmed);
        assert_eq!(it.status().until, Some(at(600_000)));
        assert_eq!(it.observe(limit(5, 6_000_000)), Verdict::Changed);
        assert_eq!(it.status().until, Some(at(6_000_000)));
        it.observe(said(Hook, Worked, 6));
        assert_eq!((it.status().activity, it.status().until), (Activity::Working, None));
        // Only a limit has a reset.
        it.observe(said(Hook, TurnEnded, 7).until(Some(at(9))));
        assert_eq!(it.status().until, None);
    }

    #[test]
    fn background_tasks_keep_a_session_working() {
        let mut it = tracker(&[(Hook, Worked, 0)]);
        it.set_background(2, at(1));
        it.observe(said(Hook, TurnEnded, 2));
        assert_eq!(
            (it.status().activity, it.status().detail.as_deref()),
            (Activity::Working, Some("2 background tasks"))
        );
        let over = |millis| said(Hook, TurnEnded, millis);
        assert_eq!(it.set_background(1, at(3)), Some((over(3), Verdict::Confirmed)));
        assert_eq!(it.status().detail.as_deref(), Some("1 background task"));
        assert_eq!(it.set_background(1, at(3)), None);
        assert_eq!(it.set_background(0, at(4)), Some((over(4), Verdict::Changed)));
        assert_eq!((it.status().activity, it.status().since), (Activity::Idle, Some(at(4))));
        // Work that is not over does not become idle when a subagent ends.
        let mut it = tracker(&[(Hook, Worked, 0)]);
        it.set_background(1, at(1));
        assert_eq!(it.set_background(0, at(2)), None);
        assert_eq!(it.status().activity, Activity::Working);
    }

    #[test]
    fn a_late_observation_does_not_replace_a_newer_one_of_the_same_or_a_higher_rank() {
        let mut it = tracker(&[(Hook, Worked, 0), (Hook, TurnEnded, 20)]);
        assert!(it.is_outdated(Hook, at(10)) && it.is_outdated(Signal, at(10)) && !it.is_outdated(Protocol, at(10)));
        assert_eq!(it.observe_late(said(Hook, Worked, 10)), Verdict::Ignored);
        assert_eq!(it.status().activity, Activity::Idle);
        assert_eq!(it.observe_late(said(Hook, Worked, 30)), Verdict::Changed);
        // A weaker source makes nothing outdated, and neither does a fact that did not apply.
        let mut it = tracker(&[(Hook, TurnEnded, 0), (Signal, Worked, 20), (Hook, Settled, 30)]);
        assert_eq!(it.observe_late(said(Hook, LimitReached, 10)), Verdict::Changed);
    }

    #[test]
    fn a_restored_tracker_knows_background_tasks_and_the_time_of_the_evidence() {
        let mut first = tracker(&[(Hook, Worked, 0)]);
        first.set_background(1, at(1));
        let over = said(Hook, TurnEnded, 20);
        let verdict = first.observe(over.clone());
        let checkpoint = ActivityCheckpoint {
            background: first.background(),
            is_turn_over: first.is_turn_over(),
            hook_calls: Vec::new(),
        };
        let evidence = JudgedObservation { number: 1, observation: over, verdict };
        let mut next = ActivityTracker::restored(first.status().clone(), &[evidence], &checkpoint);
        assert!(next.is_outdated(Hook, at(19)) && !next.is_outdated(Hook, at(20)));
        assert_eq!(next.observe_late(said(Hook, LimitReached, 10)), Verdict::Ignored);
        next.set_background(0, at(30));
        assert_eq!(next.status().activity, Activity::Idle);
    }

    #[test]
    fn a_new_detail_of_the_same_state_is_a_change_and_keeps_since() {
        let mut it = ActivityTracker::default();
        it.observe(Observation::new(Hook, PermissionAsked, Some("wants to run: ls"), at(1)));
        it.seen();
        let next = Observation::new(Hook, PermissionAsked, Some("wants to run: rm x"), at(9));
        assert_eq!(it.observe(next), Verdict::Changed);
        assert_eq!((it.status().since, it.status().is_unseen), (Some(at(1)), true));
        assert_eq!(it.observe(said(Hook, PermissionAsked, 10)), Verdict::Confirmed);
    }
}
