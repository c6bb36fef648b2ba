//! How a run goes on: from where it stands to the next step that has something to do.

use super::definition::{Definition, OnFail, OnMax, Step, StepKind};
use super::run::{Progress, StepResult};
use super::template::Scope;
use crate::task::Task;

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

/// What a step that ended means for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    GoOn,
    Blocked(String),
    Failed(String),
}

/// What stays the same while a run is looked at.
#[derive(Debug, Clone, Copy)]
struct Setting<'a> {
    task: &'a Task,
    worktree: &'a str,
    branch: &'a str,
}

impl Definition {
    /// Skips what is not to be done, enters loops and leaves them, until there is something to do. Only `progress` changes.
    pub fn next<'a>(&'a self, progress: &mut Progress, task: &Task, worktree: &str, branch: &str) -> Next<'a> {
        let setting = Setting { task, worktree, branch };
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
        match on_max {
            _ if is_success => leave(progress),
            OnMax::Continue => leave(progress),
            OnMax::Block => return Ok(Some(Next::Blocked(exhausted))),
            OnMax::Fail => return Ok(Some(Next::Failed(exhausted))),
        }
        Ok(None)
    }

    /// Writes down what came of the step that ran. One that failed stays where it is, so that a retry repeats it.
    pub fn ended(&self, progress: &mut Progress, result: StepResult) -> StepEnd {
        let Some(step) = self.step(&progress.at).cloned() else {
            return StepEnd::Failed("it stands at no step".to_owned());
        };
        let (is_success, error) = (result.success, result.error.clone());
        progress.previous = Some(step.name.clone());
        progress.results.insert(step.name.clone(), result);
        let why = || format!("{}: {}", step.name, error.clone().unwrap_or_else(|| "failed".to_owned()));
        match (is_success, step.on_fail) {
            (true, _) if step.exits_loop && progress.at.len() > 1 => {
                let above = progress.at[..progress.at.len() - 1].to_vec();
                if let Some(around) = self.step(&above) {
                    let done = StepResult { success: true, ..StepResult::default() };
                    progress.results.insert(around.name.clone(), done);
                }
                leave(progress);
                StepEnd::GoOn
            }
            (true, _) | (false, OnFail::Continue) => {
                forward(progress);
                StepEnd::GoOn
            }
            (false, OnFail::Block) => StepEnd::Blocked(why()),
            (false, OnFail::Fail) => StepEnd::Failed(why()),
        }
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

/// Out of the loop, behind it.
fn leave(progress: &mut Progress) {
    progress.at.pop();
    forward(progress);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskId, Timestamp};
    use uuid::Uuid;

    /// Runs a definition to its end; `answer` says what comes of each step. Gives the steps that ran and how it ended.
    fn run(text: &str, mut answer: impl FnMut(&str, usize) -> bool) -> (Vec<String>, String, Progress) {
        let definition = Definition::parse("x", text).expect("a sound file");
        let task = Task::new(TaskId::from_uuid(Uuid::from_u128(1)), "t", Timestamp::default()).expect("a title");
        let mut progress = Progress::new(Timestamp::default());
        let mut ran = Vec::new();
        for nth in 0..100 {
            let step = match definition.next(&mut progress, &task, "/w", "b") {
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
            let next = definition.next(&mut progress, &task, "/w", "b");
            assert!(matches!(next, Next::Run(step) if step.name == "a"), "{next:?}");
            definition.ended(&mut progress, StepResult { success: true, ..StepResult::default() });
            let next = definition.next(&mut progress, &task, "/w", "b");
            assert!(matches!(next, Next::Merge(step) if step.name == "m"), "{next:?}");
        }
    }

    #[test]
    fn a_condition_that_cannot_be_asked_fails_the_run_with_its_name() {
        let text = "steps:\n  - { name: a, type: script, command: x, when: previous.success.x.y > 1 }\n";
        let (ran, end, _) = run(text, |_, _| true);
        assert!(ran.is_empty() && end.starts_with("Failed(\"a: when: "), "{end}");
    }
}
