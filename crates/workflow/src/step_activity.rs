//! Decides from the activity of its agent whether a step is done or waits for a limit.

use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::activity::{Activity, ActivityStatus};

use crate::definition::EndsOn;

/// How long an agent that was never seen working must be idle: it may still be starting.
const SETTLE: Duration = Duration::from_secs(5);

/// What the activity of an agent means for its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepSignal {
    Running,
    /// The agent is done unless it starts to work before this time.
    DoneAt(Timestamp),
    /// The agent reached a limit, which resets at `until` if that is known.
    Limited {
        since: Timestamp,
        until: Option<Timestamp>,
        detail: Option<String>,
    },
}

/// What is known of the agent of a step.
#[derive(Debug, Clone, Copy)]
pub struct StepActivity<'a> {
    pub ends_on: EndsOn,
    /// When the agent got its prompt; `None` while it has not.
    pub prompted_at: Option<Timestamp>,
    /// The last time at which the agent was known to work.
    pub worked_at: Option<Timestamp>,
    pub status: &'a ActivityStatus,
}

impl StepActivity<'_> {
    pub fn judge(&self, now: Timestamp) -> StepSignal {
        match self.status.activity {
            Activity::Limited => {
                let (since, until) = (self.status.since.unwrap_or(now), self.status.until);
                match until.is_none_or(|until| until > now) {
                    true => StepSignal::Limited { since, until, detail: self.status.detail.clone() },
                    // The agent retries by itself; from now on the timeouts of the step count again.
                    false => StepSignal::Running,
                }
            }
            Activity::Idle => self.idle(),
            Activity::Working | Activity::Permission | Activity::Question | Activity::Unknown => StepSignal::Running,
        }
    }

    fn idle(&self) -> StepSignal {
        let (EndsOn::Idle, Some(prompted), Some(since)) = (self.ends_on, self.prompted_at, self.status.since) else {
            return StepSignal::Running;
        };
        if self.worked_at.is_some_and(|worked| worked >= prompted) {
            StepSignal::DoneAt(since)
        } else if since > prompted {
            StepSignal::DoneAt(since.after(SETTLE))
        } else {
            StepSignal::Running
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn status(activity: Activity, since: i64, until: Option<i64>) -> ActivityStatus {
        ActivityStatus { activity, since: Some(at(since)), until: until.map(at), ..ActivityStatus::default() }
    }

    fn judge(status: &ActivityStatus, prompted: Option<i64>, worked: Option<i64>, now: i64) -> StepSignal {
        let (prompted_at, worked_at) = (prompted.map(at), worked.map(at));
        StepActivity { ends_on: EndsOn::Idle, prompted_at, worked_at, status }.judge(at(now))
    }

    #[test]
    fn an_agent_that_worked_after_its_prompt_is_done_as_soon_as_it_is_idle() {
        let idle = status(Activity::Idle, 20, None);
        assert_eq!(judge(&idle, Some(10), Some(15), 20), StepSignal::DoneAt(at(20)));
        assert_eq!(judge(&idle, Some(10), Some(10), 30), StepSignal::DoneAt(at(20)));
    }

    #[test]
    fn an_agent_that_was_not_seen_working_must_stay_idle() {
        let idle = status(Activity::Idle, 20, None);
        assert_eq!(judge(&idle, Some(10), None, 20), StepSignal::DoneAt(at(25)));
        // The work was on something before the prompt.
        assert_eq!(judge(&idle, Some(10), Some(5), 20), StepSignal::DoneAt(at(25)));
    }

    #[test]
    fn idle_before_the_prompt_does_not_count() {
        let idle = status(Activity::Idle, 20, None);
        assert_eq!(judge(&idle, None, Some(15), 99), StepSignal::Running);
        assert_eq!(judge(&idle, Some(20), None, 99), StepSignal::Running);
        assert_eq!(judge(&idle, Some(30), Some(15), 99), StepSignal::Running);
    }

    #[test]
    fn no_other_activity_ends_a_step() {
        for activity in [Activity::Working, Activity::Permission, Activity::Question, Activity::Unknown] {
            assert_eq!(judge(&status(activity, 20, None), Some(10), Some(15), 99), StepSignal::Running, "{activity}");
        }
        let idle = status(Activity::Idle, 20, None);
        let ends_on_exit =
            StepActivity { ends_on: EndsOn::Exit, prompted_at: Some(at(10)), worked_at: Some(at(15)), status: &idle };
        assert_eq!(ends_on_exit.judge(at(99)), StepSignal::Running);
        assert_eq!(judge(&ActivityStatus::default(), Some(10), Some(15), 99), StepSignal::Running);
    }

    #[test]
    fn a_limit_lasts_until_it_resets() {
        let limited = |until| StepSignal::Limited { since: at(20), until, detail: None };
        assert_eq!(judge(&status(Activity::Limited, 20, None), None, None, 99), limited(None));
        let known = status(Activity::Limited, 20, Some(60));
        assert_eq!(judge(&known, Some(10), None, 59), limited(Some(at(60))));
        assert_eq!(judge(&known, Some(10), None, 60), StepSignal::Running);
    }
}
