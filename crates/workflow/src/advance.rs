//! Computes the next step of a run from its current position.

use std::time::Duration;

use coven_domain::Timestamp;
use coven_domain::task::Task;
use coven_domain::workflow::{RunProgress, StepResult};

use crate::definition::{OnFail, OnMax, Step, StepKind, WorkflowDefinition};
use crate::template::Scope;

/// Error for a position that the definition does not have.
const NO_STEP: &str = "the run's position matches no step of its definition; cancel the run and start the task again";

/// The next action of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep<'a> {
    /// Run an agent or a script.
    Run(&'a Step),
    Merge(&'a Step),
    Done,
    Blocked(String),
    Failed(String),
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq)]
pub enum StepCompletion {
    Ended(StepResult),
    /// The enclosing loop at level `depth` timed out during the step.
    LoopTimedOut {
        depth: usize,
        why: String,
        result: StepResult,
    },
}

impl StepCompletion {
    pub fn error(&self) -> Option<&str> {
        let (Self::Ended(result) | Self::LoopTimedOut { result, .. }) = self;
        result.error.as_deref()
    }
}

/// The effect of an ended step on the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEffect {
    Continue,
    Blocked(String),
    Failed(String),
}

/// Inputs that do not change while the next step is computed.
#[derive(Debug, Clone, Copy)]
pub struct EvalContext<'a> {
    pub task: &'a Task,
    pub worktree: &'a str,
    pub branch: &'a str,
    pub now: Timestamp,
}

/// What timed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    Step,
    /// The enclosing loop at this level.
    Loop(usize),
    Whole,
}

impl WorkflowDefinition {
    /// Skips steps, enters and leaves loops until it finds the next action. Changes only `progress`.
    pub fn next<'a>(&'a self, progress: &mut RunProgress, context: EvalContext<'_>) -> NextStep<'a> {
        let next = self.find_next(progress, context);
        self.name_step(progress);
        next
    }

    /// Stores the step's name, so that readers do not need the definition.
    fn name_step(&self, progress: &mut RunProgress) {
        progress.step = self.step(&progress.position).map(|step| step.name.clone());
    }

    fn find_next<'a>(&'a self, progress: &mut RunProgress, context: EvalContext<'_>) -> NextStep<'a> {
        // Each pass advances and loops have limits; this bound stops nested loops whose steps are all skipped.
        for _ in 0..1_000_000 {
            match self.advance_once(progress, context) {
                Ok(Some(next)) => return next,
                Ok(None) => {}
                Err(problem) => return NextStep::Failed(problem),
            }
        }
        NextStep::Failed(
            "the workflow makes no progress: every step was skipped; check its `when` and `until` conditions"
                .to_owned(),
        )
    }

    fn advance_once<'a>(
        &'a self,
        progress: &mut RunProgress,
        context: EvalContext<'_>,
    ) -> Result<Option<NextStep<'a>>, String> {
        let Some(step) = self.step(&progress.position) else { return self.end_of_list(progress, context) };
        let is_enabled = match &step.when {
            Some(when) => self
                .scope(progress, context)
                .eval_condition(when)
                .map_err(|bad| format!("{}: when: {bad}", step.name))?,
            None => true,
        };
        if !is_enabled {
            progress.results.insert(step.name.clone(), StepResult { skipped: true, ..StepResult::default() });
            move_to_next(progress);
            return Ok(None);
        }
        match &step.kind {
            StepKind::Agent { .. } | StepKind::Script { .. } => Ok(Some(NextStep::Run(step))),
            StepKind::Merge { .. } => Ok(Some(NextStep::Merge(step))),
            StepKind::Loop { .. } => {
                progress.iterations.insert(step.name.clone(), 1);
                progress.entered.insert(step.name.clone(), context.now);
                progress.position.push(0);
                Ok(None)
            }
        }
    }

    /// Handles the end of a list of steps: the run or a loop iteration is complete.
    fn end_of_list<'a>(
        &'a self,
        progress: &mut RunProgress,
        context: EvalContext<'_>,
    ) -> Result<Option<NextStep<'a>>, String> {
        let above = &progress.position[..progress.position.len().saturating_sub(1)];
        let Some(enclosing_loop) = self.step(above) else { return Ok(Some(NextStep::Done)) };
        let StepKind::Loop { max_iterations, on_max, until, .. } = &enclosing_loop.kind else {
            return Ok(Some(NextStep::Done));
        };
        let is_over = match until {
            Some(until) => {
                let held = self.scope(progress, context).eval_condition(until);
                held.map_err(|bad| format!("{}: until: {bad}", enclosing_loop.name))?
            }
            None => false,
        };
        let iteration = progress.iterations.get(&enclosing_loop.name).copied().unwrap_or(1);
        if !is_over && iteration < *max_iterations {
            progress.iterations.insert(enclosing_loop.name.clone(), iteration + 1);
            if let Some(last) = progress.position.last_mut() {
                *last = 0;
            }
            return Ok(None);
        }
        // A loop without a condition succeeds after its fixed number of iterations.
        let is_success = is_over || until.is_none();
        let exhausted =
            format!("{}: the `until` condition was not met after {max_iterations} iterations", enclosing_loop.name);
        let result = StepResult {
            success: is_success,
            error: (!is_success).then(|| exhausted.clone()),
            ..StepResult::default()
        };
        progress.results.insert(enclosing_loop.name.clone(), result);
        progress.position.pop();
        Ok(match on_max {
            _ if is_success => {
                move_to_next(progress);
                None
            }
            OnMax::Continue => {
                move_to_next(progress);
                None
            }
            // The position is the loop itself: a retry restarts it at the first iteration.
            OnMax::Block => Some(NextStep::Blocked(exhausted)),
            OnMax::Fail => match self.failed(progress, exhausted) {
                RunEffect::Continue => None,
                RunEffect::Blocked(why) => Some(NextStep::Blocked(why)),
                RunEffect::Failed(why) => Some(NextStep::Failed(why)),
            },
        })
    }

    /// Records the result of a step. After a failure the position stays at the step, so that a retry repeats it.
    pub fn complete_step(&self, progress: &mut RunProgress, completion: StepCompletion) -> RunEffect {
        progress.step_ended();
        let end = match completion {
            StepCompletion::Ended(result) => self.ended(progress, result),
            StepCompletion::LoopTimedOut { depth, why, result } => self.loop_timed_out(progress, depth, &why, result),
        };
        self.name_step(progress);
        end
    }

    fn ended(&self, progress: &mut RunProgress, result: StepResult) -> RunEffect {
        let Some(step) = self.step(&progress.position).cloned() else {
            return RunEffect::Failed(NO_STEP.to_owned());
        };
        let (is_success, error) = (result.success, result.error.clone());
        progress.previous = Some(step.name.clone());
        progress.results.insert(step.name.clone(), result);
        if !is_success {
            return self.failed(progress, format!("{}: {}", step.name, error.unwrap_or_else(|| "failed".to_owned())));
        }
        if step.exits_loop && progress.position.len() > 1 {
            progress.position.pop();
            if let Some(enclosing_loop) = self.step(&progress.position) {
                let done = StepResult { success: true, ..StepResult::default() };
                progress.results.insert(enclosing_loop.name.clone(), done);
            }
        }
        move_to_next(progress);
        RunEffect::Continue
    }

    /// Fails a loop that timed out. The position becomes the loop itself, so that a retry restarts it.
    fn loop_timed_out(&self, progress: &mut RunProgress, depth: usize, why: &str, result: StepResult) -> RunEffect {
        if let Some(step) = self.step(&progress.position) {
            progress.previous = Some(step.name.clone());
            progress.results.insert(step.name.clone(), result);
        }
        progress.position.truncate(depth);
        let Some(enclosing_loop) = self.step(&progress.position) else {
            return RunEffect::Failed(NO_STEP.to_owned());
        };
        let failed = StepResult { error: Some(why.to_owned()), ..StepResult::default() };
        progress.results.insert(enclosing_loop.name.clone(), failed);
        self.failed(progress, format!("{}: {why}", enclosing_loop.name))
    }

    /// Returns the effect of a failed step, according to its `on_fail` or that of an enclosing loop.
    fn failed(&self, progress: &mut RunProgress, why: String) -> RunEffect {
        for depth in (1..=progress.position.len()).rev() {
            let Some(step) = self.step(&progress.position[..depth]) else { continue };
            match step.on_fail {
                OnFail::Fail => {}
                OnFail::Block => return RunEffect::Blocked(why),
                OnFail::Continue => {
                    let is_enclosing = depth < progress.position.len();
                    if is_enclosing {
                        let failed = StepResult { error: Some(why), ..StepResult::default() };
                        progress.results.insert(step.name.clone(), failed);
                    }
                    progress.position.truncate(depth);
                    move_to_next(progress);
                    return RunEffect::Continue;
                }
            }
        }
        RunEffect::Failed(why)
    }

    /// Returns the earliest deadline of the current step, the timeout behind it, and what times out. `started` is the
    /// start of the step. A step that waits has no deadline.
    pub fn deadline(&self, progress: &RunProgress, started: Timestamp) -> Option<(Timestamp, Duration, Overdue)> {
        if progress.waiting.is_some() {
            return None;
        }
        let started = started.after(progress.waited);
        let mut all: Vec<(Timestamp, Duration, Overdue)> = Vec::new();
        all.extend(self.timeout.map(|limit| (progress.started_at.after(limit), limit, Overdue::Whole)));
        for depth in 1..=progress.position.len() {
            let Some(step) = self.step(&progress.position[..depth]) else { continue };
            let Some(limit) = step.timeout else { continue };
            all.push(match &step.kind {
                StepKind::Loop { .. } => {
                    let entered = progress.entered.get(&step.name).copied().unwrap_or(progress.started_at);
                    (entered.after(limit), limit, Overdue::Loop(depth))
                }
                StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => {
                    (started.after(limit), limit, Overdue::Step)
                }
            });
        }
        all.into_iter().min_by_key(|(until, ..)| *until)
    }

    /// Returns the variables for the current step's templates.
    pub fn scope_of<'a>(
        &'a self,
        progress: &'a RunProgress,
        task: &'a Task,
        worktree: &'a str,
        branch: &'a str,
    ) -> Scope<'a> {
        let enclosing_loop = progress.position.split_last().and_then(|(_, above)| self.step(above));
        let enclosing_loop = enclosing_loop.and_then(|step| match &step.kind {
            StepKind::Loop { max_iterations, .. } => Some((step.name.as_str(), *max_iterations)),
            StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => None,
        });
        Scope { task, workflow: &self.name, worktree, branch, progress, enclosing_loop }
    }

    fn scope<'a>(&'a self, progress: &'a RunProgress, context: EvalContext<'a>) -> Scope<'a> {
        self.scope_of(progress, context.task, context.worktree, context.branch)
    }
}

fn move_to_next(progress: &mut RunProgress) {
    if let Some(last) = progress.position.last_mut() {
        *last += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::workflow::{StepWait, WaitCause};
    use coven_domain::{TaskId, Timestamp};
    use uuid::Uuid;

    fn context(task: &Task) -> EvalContext<'_> {
        EvalContext { task, worktree: "/w", branch: "b", now: Timestamp::from_millis(1_000) }
    }

    /// Runs a definition to its end; `answer` decides whether a step succeeds. Returns the steps that ran and the end.
    fn run(text: &str, mut answer: impl FnMut(&str, usize) -> bool) -> (Vec<String>, String, RunProgress) {
        let definition = WorkflowDefinition::parse("x", text).expect("a valid file");
        let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
        let mut progress = RunProgress::new(Timestamp::default());
        let mut ran = Vec::new();
        for nth in 0..100 {
            let step = match definition.next(&mut progress, context(&task)) {
                NextStep::Run(step) => step,
                other => return (ran, format!("{other:?}"), progress),
            };
            ran.push(step.name.clone());
            let success = answer(&step.name, nth);
            let error = (!success).then(|| "exit 1".to_owned());
            match definition.ended(&mut progress, StepResult { success, error, ..StepResult::default() }) {
                RunEffect::Continue => {}
                ended => return (ran, format!("{ended:?}"), progress),
            }
        }
        panic!("the run does not end: {ran:?}");
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
    fn steps_run_in_order_and_loops_end_when_their_condition_is_true() {
        let (ran, end, progress) = run(LOOP, |name, nth| name != "test" || nth > 2);
        assert_eq!(ran, ["build", "test", "fix", "test", "last"]);
        assert_eq!(end, "Done");
        assert!(progress.results["fix"].skipped && progress.results["again"].success);
        // All steps succeed: `fix` and `last` are skipped.
        let (ran, end, progress) = run(LOOP, |_, _| true);
        assert_eq!((ran, end.as_str()), (vec!["build".to_owned(), "test".to_owned()], "Done"));
        assert!(progress.results["last"].skipped);
    }

    #[test]
    fn an_exhausted_loop_fails_blocks_or_continues() {
        for (rule, ends) in [("fail", "Failed("), ("block", "Blocked("), ("continue", "Done")] {
            let text = LOOP.replace("max_iterations: 3", &format!("max_iterations: 3\n    on_max_iterations: {rule}"));
            let (ran, end, _) = run(&text, |name, _| name != "test");
            assert_eq!(ran.iter().filter(|name| *name == "test").count(), 3, "{ran:?}");
            assert!(end.starts_with(ends), "{end}");
            assert_eq!(ran.last().map(String::as_str), Some(if rule == "continue" { "last" } else { "fix" }));
        }
    }

    #[test]
    fn a_loop_without_a_condition_runs_all_iterations_and_can_be_left() {
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
    fn a_failed_step_is_repeated() {
        for (rule, ends) in [("", "Failed(\"a: exit 1\")"), (", on_fail: block", "Blocked(\"a: exit 1\")")] {
            let text =
                format!("steps:\n  - {{ name: a, type: script, command: x{rule} }}\n  - {{ name: m, type: merge }}\n");
            let (_, end, mut progress) = run(&text, |_, _| false);
            assert_eq!(end, ends);
            let definition = WorkflowDefinition::parse("x", &text).expect("a valid file");
            let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
            let next = definition.next(&mut progress, context(&task));
            assert!(matches!(next, NextStep::Run(step) if step.name == "a"), "{next:?}");
            definition.ended(&mut progress, StepResult { success: true, ..StepResult::default() });
            let next = definition.next(&mut progress, context(&task));
            assert!(matches!(next, NextStep::Merge(step) if step.name == "m"), "{next:?}");
        }
    }

    #[test]
    fn an_exhausted_loop_restarts_when_it_is_retried() {
        for (rule, ends) in [("fail", "Failed("), ("block", "Blocked(")] {
            let text = LOOP.replace("max_iterations: 3", &format!("max_iterations: 2\n    on_max_iterations: {rule}"));
            let (_, end, mut progress) = run(&text, |name, _| name != "test");
            assert!(end.starts_with(ends), "{end}");
            let definition = WorkflowDefinition::parse("x", &text).expect("a valid file");
            let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
            let next = definition.next(&mut progress, context(&task));
            assert!(matches!(next, NextStep::Run(step) if step.name == "test"), "{next:?}");
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
    fn a_loop_decides_the_effect_of_a_failed_inner_step() {
        let (ran, end, progress) = run(&NESTED.replace("RULE", "continue"), |name, _| name != "a");
        assert_eq!((ran.concat().as_str(), end.as_str()), ("abab", "Done"));
        assert_eq!(progress.results["inner"].error.as_deref(), Some("a: exit 1"));
        let (ran, end, progress) = run(&NESTED.replace("RULE", "block"), |name, _| name != "a");
        assert_eq!((ran.concat().as_str(), end.as_str()), ("a", "Blocked(\"a: exit 1\")"));
        assert_eq!(progress.position, [0, 0, 0], "a retry repeats the failed step");
        let (_, end, _) = run(&NESTED.replace("RULE", "fail"), |name, _| name != "a");
        assert_eq!(end, "Failed(\"a: exit 1\")");
    }

    #[test]
    fn the_earliest_deadline_applies() {
        let definition = WorkflowDefinition::parse("x", &NESTED.replace("RULE", "continue")).expect("a valid file");
        let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
        let mut progress = RunProgress::new(Timestamp::default());
        definition.next(&mut progress, context(&task));
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let until = |progress: &RunProgress, started| definition.deadline(progress, at(started)).expect("a deadline");
        assert_eq!(until(&progress, 1), (at(6), Duration::from_secs(5), Overdue::Step));
        assert_eq!(until(&progress, 17), (at(21), Duration::from_secs(20), Overdue::Loop(2)));
        progress.entered.insert("inner".to_owned(), at(40));
        assert_eq!(until(&progress, 49), (at(51), Duration::from_secs(50), Overdue::Loop(1)));
        progress.entered.insert("outer".to_owned(), at(90));
        assert_eq!(until(&progress, 99), (at(60), Duration::from_secs(20), Overdue::Loop(2)));
        progress.entered.insert("inner".to_owned(), at(90));
        assert_eq!(until(&progress, 99), (at(100), Duration::from_secs(100), Overdue::Whole));
        // Time spent waiting does not count, and a step that waits has no deadline.
        let mut waited = progress.clone();
        waited.waiting =
            Some(StepWait { cause: WaitCause::Limit, since: at(92), until: None, detail: Some("a limit".to_owned()) });
        assert_eq!(definition.deadline(&waited, at(91)), None);
        waited.wait_ended(at(192));
        assert_eq!(until(&waited, 91), (at(196), Duration::from_secs(5), Overdue::Step));
        // `on_fail: continue` of the inner loop continues after it.
        let end = definition.loop_timed_out(&mut progress, 2, "timed out", StepResult::default());
        assert_eq!(end, RunEffect::Continue);
        assert_eq!(progress.results["inner"].error.as_deref(), Some("timed out"));
        let next = definition.next(&mut progress, context(&task));
        assert!(matches!(next, NextStep::Run(step) if step.name == "b"), "{next:?}");
        let end = definition.loop_timed_out(&mut progress, 1, "timed out", StepResult::default());
        assert_eq!(end, RunEffect::Failed("outer: timed out".to_owned()));
        assert_eq!(progress.position, [0]);
    }

    #[test]
    fn a_condition_that_cannot_be_evaluated_fails_the_run_with_its_name() {
        let text = "steps:\n  - { name: a, type: script, command: x, when: previous.success.x.y > 1 }\n";
        let (ran, end, _) = run(text, |_, _| true);
        assert!(ran.is_empty() && end.starts_with("Failed(\"a: when: "), "{end}");
    }
}
