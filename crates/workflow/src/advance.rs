//! How a run goes on: from where it stands to the next step that has something to do.

use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::task::Task;
use coven_domain::workflow::{Progress, StepResult};

use crate::definition::{Definition, OnFail, OnMax, Step, StepKind};
use crate::template::Scope;

/// What a run needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'a> {
    /// An agent or a script.
    Run(&'a Step),
    Merge(&'a Step),
    Done,
    Blocked(String),
    Failed(String),
}

/// How a step came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum StepOver {
    Ended(StepResult),
    /// The time of the loop `depth` levels down was up while it ran.
    LoopTimedOut {
        depth: usize,
        why: String,
        result: StepResult,
    },
}

impl StepOver {
    pub fn error(&self) -> Option<&str> {
        let (Self::Ended(result) | Self::LoopTimedOut { result, .. }) = self;
        result.error.as_deref()
    }
}

/// What a step that ended means for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    GoOn,
    Blocked(String),
    Failed(String),
}

/// What stays the same while a run is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    pub task: &'a Task,
    pub worktree: &'a str,
    pub branch: &'a str,
    pub now: Timestamp,
}

/// A time that is up, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    Step,
    /// The loop that many levels down.
    Loop(usize),
    Whole,
}

impl Definition {
    /// Skips what is not to be done, enters loops and leaves them, until there is something to do. Only `progress` changes.
    pub fn next<'a>(&'a self, progress: &mut Progress, setting: Setting<'_>) -> Next<'a> {
        // Every turn goes a step further, and loops have limits; the bound is for definitions of steps that are all skipped.
        for _ in 0..1_000_000 {
            match self.look(progress, setting) {
                Ok(Some(next)) => return next,
                Ok(None) => {}
                Err(problem) => return Next::Failed(problem),
            }
        }
        Next::Failed("it goes round and round and does nothing".to_owned())
    }

    fn look<'a>(&'a self, progress: &mut Progress, setting: Setting<'_>) -> Result<Option<Next<'a>>, String> {
        let Some(step) = self.step(&progress.at) else { return self.end_of_list(progress, setting) };
        let wanted = match &step.when {
            Some(when) => {
                self.scope(progress, setting).holds(when).map_err(|bad| format!("{}: when: {bad}", step.name))?
            }
            None => true,
        };
        if !wanted {
            progress.results.insert(step.name.clone(), StepResult { skipped: true, ..StepResult::default() });
            forward(progress);
            return Ok(None);
        }
        match &step.kind {
            StepKind::Agent { .. } | StepKind::Script { .. } => Ok(Some(Next::Run(step))),
            StepKind::Merge { .. } => Ok(Some(Next::Merge(step))),
            StepKind::Loop { .. } => {
                progress.iterations.insert(step.name.clone(), 1);
                progress.entered.insert(step.name.clone(), setting.now);
                progress.at.push(0);
                Ok(None)
            }
        }
    }

    /// Behind the last step of a list: the run is done, or a loop's iteration is.
    fn end_of_list<'a>(&'a self, progress: &mut Progress, setting: Setting<'_>) -> Result<Option<Next<'a>>, String> {
        let above = &progress.at[..progress.at.len().saturating_sub(1)];
        let Some(around) = self.step(above) else { return Ok(Some(Next::Done)) };
        let StepKind::Loop { max_iterations, on_max, until, .. } = &around.kind else { return Ok(Some(Next::Done)) };
        let is_over = match until {
            Some(until) => {
                let held = self.scope(progress, setting).holds(until);
                held.map_err(|bad| format!("{}: until: {bad}", around.name))?
            }
            None => false,
        };
        let iteration = progress.iterations.get(&around.name).copied().unwrap_or(1);
        if !is_over && iteration < *max_iterations {
            progress.iterations.insert(around.name.clone(), iteration + 1);
            if let Some(last) = progress.at.last_mut() {
                *last = 0;
            }
            return Ok(None);
        }
        // Without a condition, so many iterations are what was asked for.
        let is_success = is_over || until.is_none();
        let exhausted = format!("{}: {max_iterations} iterations were not enough", around.name);
        let result = StepResult {
            success: is_success,
            error: (!is_success).then(|| exhausted.clone()),
            ..StepResult::default()
        };
        progress.results.insert(around.name.clone(), result);
        progress.at.pop();
        Ok(match on_max {
            _ if is_success => {
                forward(progress);
                None
            }
            OnMax::Continue => {
                forward(progress);
                None
            }
            // It stands at the loop: a retry goes round from the first iteration.
            OnMax::Block => Some(Next::Blocked(exhausted)),
            OnMax::Fail => match self.failed(progress, exhausted) {
                StepEnd::GoOn => None,
                StepEnd::Blocked(why) => Some(Next::Blocked(why)),
                StepEnd::Failed(why) => Some(Next::Failed(why)),
            },
        })
    }

    /// Writes down what came of the step that ran. One that failed stays where it is, so that a retry repeats it.
    pub fn over(&self, progress: &mut Progress, over: StepOver) -> StepEnd {
        match over {
            StepOver::Ended(result) => self.ended(progress, result),
            StepOver::LoopTimedOut { depth, why, result } => self.loop_timed_out(progress, depth, &why, result),
        }
    }

    fn ended(&self, progress: &mut Progress, result: StepResult) -> StepEnd {
        let Some(step) = self.step(&progress.at).cloned() else {
            return StepEnd::Failed("it stands at no step".to_owned());
        };
        let (is_success, error) = (result.success, result.error.clone());
        progress.previous = Some(step.name.clone());
        progress.results.insert(step.name.clone(), result);
        if !is_success {
            return self.failed(progress, format!("{}: {}", step.name, error.unwrap_or_else(|| "failed".to_owned())));
        }
        if step.exits_loop && progress.at.len() > 1 {
            progress.at.pop();
            if let Some(around) = self.step(&progress.at) {
                let done = StepResult { success: true, ..StepResult::default() };
                progress.results.insert(around.name.clone(), done);
            }
        }
        forward(progress);
        StepEnd::GoOn
    }

    /// It stands at the loop then: a retry goes round anew.
    fn loop_timed_out(&self, progress: &mut Progress, depth: usize, why: &str, result: StepResult) -> StepEnd {
        if let Some(step) = self.step(&progress.at) {
            progress.previous = Some(step.name.clone());
            progress.results.insert(step.name.clone(), result);
        }
        progress.at.truncate(depth);
        let Some(around) = self.step(&progress.at) else {
            return StepEnd::Failed("it stands at no step".to_owned());
        };
        let failed = StepResult { error: Some(why.to_owned()), ..StepResult::default() };
        progress.results.insert(around.name.clone(), failed);
        self.failed(progress, format!("{}: {why}", around.name))
    }

    /// What becomes of the run when the step that it stands at has failed: its own rule says it, or that of a loop around it.
    fn failed(&self, progress: &mut Progress, why: String) -> StepEnd {
        for depth in (1..=progress.at.len()).rev() {
            let Some(step) = self.step(&progress.at[..depth]) else { continue };
            match step.on_fail {
                OnFail::Fail => {}
                OnFail::Block => return StepEnd::Blocked(why),
                OnFail::Continue => {
                    let is_around = depth < progress.at.len();
                    if is_around {
                        let failed = StepResult { error: Some(why), ..StepResult::default() };
                        progress.results.insert(step.name.clone(), failed);
                    }
                    progress.at.truncate(depth);
                    forward(progress);
                    return StepEnd::GoOn;
                }
            }
        }
        StepEnd::Failed(why)
    }

    /// What time the step that the run stands at has at most, with what would be up by then; `began` is when the step did.
    pub fn deadline(&self, progress: &Progress, began: Timestamp) -> Option<(Timestamp, Duration, Overdue)> {
        let mut all: Vec<(Timestamp, Duration, Overdue)> = Vec::new();
        all.extend(self.timeout.map(|limit| (progress.since.after(limit), limit, Overdue::Whole)));
        for depth in 1..=progress.at.len() {
            let Some(step) = self.step(&progress.at[..depth]) else { continue };
            let Some(limit) = step.timeout else { continue };
            all.push(match &step.kind {
                StepKind::Loop { .. } => {
                    let entered = progress.entered.get(&step.name).copied().unwrap_or(progress.since);
                    (entered.after(limit), limit, Overdue::Loop(depth))
                }
                StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => {
                    (began.after(limit), limit, Overdue::Step)
                }
            });
        }
        all.into_iter().min_by_key(|(until, ..)| *until)
    }

    /// What the templates of the step that runs can name.
    pub fn scope_of<'a>(
        &'a self,
        progress: &'a Progress,
        task: &'a Task,
        worktree: &'a str,
        branch: &'a str,
    ) -> Scope<'a> {
        let around = progress.at.split_last().and_then(|(_, above)| self.step(above));
        let around = around.and_then(|step| match &step.kind {
            StepKind::Loop { max_iterations, .. } => Some((step.name.as_str(), *max_iterations)),
            StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => None,
        });
        Scope { task, workflow: &self.name, worktree, branch, progress, around }
    }

    fn scope<'a>(&'a self, progress: &'a Progress, setting: Setting<'a>) -> Scope<'a> {
        self.scope_of(progress, setting.task, setting.worktree, setting.branch)
    }
}

fn forward(progress: &mut Progress) {
    if let Some(last) = progress.at.last_mut() {
        *last += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::{TaskId, Timestamp};
    use uuid::Uuid;

    fn setting(task: &Task) -> Setting<'_> {
        Setting { task, worktree: "/w", branch: "b", now: Timestamp::from_millis(1_000) }
    }

    /// Runs a definition to its end; `answer` says what comes of each step. Gives the steps that ran and how it ended.
    fn run(text: &str, mut answer: impl FnMut(&str, usize) -> bool) -> (Vec<String>, String, Progress) {
        let definition = Definition::parse("x", text).expect("a sound file");
        let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
        let mut progress = Progress::new(Timestamp::default());
        let mut ran = Vec::new();
        for nth in 0..100 {
            let step = match definition.next(&mut progress, setting(&task)) {
                Next::Run(step) => step,
                other => return (ran, format!("{other:?}"), progress),
            };
            ran.push(step.name.clone());
            let success = answer(&step.name, nth);
            let error = (!success).then(|| "exit 1".to_owned());
            match definition.ended(&mut progress, StepResult { success, error, ..StepResult::default() }) {
                StepEnd::GoOn => {}
                ended => return (ran, format!("{ended:?}"), progress),
            }
        }
        panic!("it does not end: {ran:?}");
    }

    const LOOP: &str = "
steps:
  - { name: build, type: script, command: x }
  - name: again
    type: loop
    max_iterations: 3
    until: steps.test.success
    steps:
      - { name: test, type: script, command: x, on_fail: continue }
      - { name: fix, type: script, command: x, when: steps.test.failed }
  - { name: last, type: script, command: x, when: loops.again.iteration > 1 }
";

    #[test]
    fn steps_run_in_order_loops_end_when_their_condition_holds() {
        let (ran, end, progress) = run(LOOP, |name, nth| name != "test" || nth > 2);
        assert_eq!(ran, ["build", "test", "fix", "test", "last"]);
        assert_eq!(end, "Done");
        assert!(progress.results["fix"].skipped && progress.results["again"].success);
        // Straight through: nothing to fix, nothing left for the last.
        let (ran, end, progress) = run(LOOP, |_, _| true);
        assert_eq!((ran, end.as_str()), (vec!["build".to_owned(), "test".to_owned()], "Done"));
        assert!(progress.results["last"].skipped);
    }

    #[test]
    fn a_loop_that_runs_out_fails_blocks_or_goes_on() {
        for (rule, ends) in [("fail", "Failed("), ("block", "Blocked("), ("continue", "Done")] {
            let text = LOOP.replace("max_iterations: 3", &format!("max_iterations: 3\n    on_max_iterations: {rule}"));
            let (ran, end, _) = run(&text, |name, _| name != "test");
            assert_eq!(ran.iter().filter(|name| *name == "test").count(), 3, "{ran:?}");
            assert!(end.starts_with(ends), "{end}");
            assert_eq!(ran.last().map(String::as_str), Some(if rule == "continue" { "last" } else { "fix" }));
        }
    }

    #[test]
    fn a_loop_without_a_condition_goes_round_so_often_and_can_be_left() {
        let text = |rule: &str| {
            format!(
                "steps:\n  - name: l\n    type: loop\n    max_iterations: 2\n    steps:\n      - name: inner\n        type: loop\n        \
                 max_iterations: 2\n        steps:\n          - {{ name: a, type: script, command: x{rule} }}\n      - {{ name: b, type: script, command: x }}\n"
            )
        };
        let (ran, end, _) = run(&text(""), |_, _| true);
        assert_eq!((ran.concat().as_str(), end.as_str()), ("aabaab", "Done"));
        let (ran, end, progress) = run(&text(", on_success: exit_loop"), |_, _| true);
        assert_eq!((ran.concat().as_str(), end.as_str()), ("abab", "Done"));
        assert_eq!(progress.iterations["l"], 2);
    }

    #[test]
    fn a_step_that_failed_stays_the_next_one() {
        for (rule, ends) in [("", "Failed(\"a: exit 1\")"), (", on_fail: block", "Blocked(\"a: exit 1\")")] {
            let text =
                format!("steps:\n  - {{ name: a, type: script, command: x{rule} }}\n  - {{ name: m, type: merge }}\n");
            let (_, end, mut progress) = run(&text, |_, _| false);
            assert_eq!(end, ends);
            let definition = Definition::parse("x", &text).expect("a sound file");
            let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
            let next = definition.next(&mut progress, setting(&task));
            assert!(matches!(next, Next::Run(step) if step.name == "a"), "{next:?}");
            definition.ended(&mut progress, StepResult { success: true, ..StepResult::default() });
            let next = definition.next(&mut progress, setting(&task));
            assert!(matches!(next, Next::Merge(step) if step.name == "m"), "{next:?}");
        }
    }

    #[test]
    fn a_loop_that_ran_out_goes_round_anew_when_it_is_tried_again() {
        for (rule, ends) in [("fail", "Failed("), ("block", "Blocked(")] {
            let text = LOOP.replace("max_iterations: 3", &format!("max_iterations: 2\n    on_max_iterations: {rule}"));
            let (_, end, mut progress) = run(&text, |name, _| name != "test");
            assert!(end.starts_with(ends), "{end}");
            let definition = Definition::parse("x", &text).expect("a sound file");
            let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
            let next = definition.next(&mut progress, setting(&task));
            assert!(matches!(next, Next::Run(step) if step.name == "test"), "{next:?}");
            assert_eq!(progress.iterations["again"], 1);
        }
    }

    const NESTED: &str = "
timeout: 100
steps:
  - name: outer
    type: loop
    max_iterations: 2
    timeout: 50
    steps:
      - name: inner
        type: loop
        max_iterations: 2
        timeout: 20
        on_fail: RULE
        steps:
          - { name: a, type: script, command: x, timeout: 5 }
      - { name: b, type: script, command: x }
";

    #[test]
    fn a_loop_says_what_becomes_of_a_step_in_it_that_fails() {
        let (ran, end, progress) = run(&NESTED.replace("RULE", "continue"), |name, _| name != "a");
        assert_eq!((ran.concat().as_str(), end.as_str()), ("abab", "Done"));
        assert_eq!(progress.results["inner"].error.as_deref(), Some("a: exit 1"));
        let (ran, end, progress) = run(&NESTED.replace("RULE", "block"), |name, _| name != "a");
        assert_eq!((ran.concat().as_str(), end.as_str()), ("a", "Blocked(\"a: exit 1\")"));
        assert_eq!(progress.at, [0, 0, 0], "a retry repeats the step that failed");
        let (_, end, _) = run(&NESTED.replace("RULE", "fail"), |name, _| name != "a");
        assert_eq!(end, "Failed(\"a: exit 1\")");
    }

    #[test]
    fn the_time_that_is_up_first_counts() {
        let definition = Definition::parse("x", &NESTED.replace("RULE", "continue")).expect("a sound file");
        let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
        let mut progress = Progress::new(Timestamp::default());
        definition.next(&mut progress, setting(&task));
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let until = |progress: &Progress, began| definition.deadline(progress, at(began)).expect("a time");
        assert_eq!(until(&progress, 1), (at(6), Duration::from_secs(5), Overdue::Step));
        assert_eq!(until(&progress, 17), (at(21), Duration::from_secs(20), Overdue::Loop(2)));
        progress.entered.insert("inner".to_owned(), at(40));
        assert_eq!(until(&progress, 49), (at(51), Duration::from_secs(50), Overdue::Loop(1)));
        progress.entered.insert("outer".to_owned(), at(90));
        assert_eq!(until(&progress, 99), (at(60), Duration::from_secs(20), Overdue::Loop(2)));
        progress.entered.insert("inner".to_owned(), at(90));
        assert_eq!(until(&progress, 99), (at(100), Duration::from_secs(100), Overdue::Whole));
        // The inner one's rule says to go on behind it.
        let end = definition.loop_timed_out(&mut progress, 2, "timed out", StepResult::default());
        assert_eq!(end, StepEnd::GoOn);
        assert_eq!(progress.results["inner"].error.as_deref(), Some("timed out"));
        let next = definition.next(&mut progress, setting(&task));
        assert!(matches!(next, Next::Run(step) if step.name == "b"), "{next:?}");
        let end = definition.loop_timed_out(&mut progress, 1, "timed out", StepResult::default());
        assert_eq!(end, StepEnd::Failed("outer: timed out".to_owned()));
        assert_eq!(progress.at, [0]);
    }

    #[test]
    fn a_condition_that_cannot_be_asked_fails_the_run_with_its_name() {
        let text = "steps:\n  - { name: a, type: script, command: x, when: previous.success.x.y > 1 }\n";
        let (ran, end, _) = run(text, |_, _| true);
        assert!(ran.is_empty() && end.starts_with("Failed(\"a: when: "), "{end}");
    }
}
