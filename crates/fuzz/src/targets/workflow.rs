//! Workflow files, their templates and conditions.

use coven_domain::task::Task;
use coven_domain::workflow::{RunProgress, StepResult};
use coven_domain::{TaskId, Timestamp};
use coven_workflow::{EvalContext, NextStep, RunEffect, Scope, StepCompletion, StepKind, WorkflowDefinition};

use crate::outcome::{saw, saw_message};

pub const WORKFLOW_WORDS: &[&str] = &[
    "steps:\n",
    "  - name: ",
    "    type: agent\n",
    "    type: script\n",
    "    type: loop\n",
    "    type: merge\n",
    "    prompt: ",
    "    command: ",
    "    when: ",
    "    until: ",
    "    timeout: 5m\n",
    "    max_iterations: 3\n",
    "    on_fail: continue\n",
    "    on_max: block\n",
    "    exits_loop: true\n",
    "    checks: [",
    "    review: false\n",
    "{{ task.title }}",
    "{{ steps.a.output }}",
    "{% if ",
    "{% endif %}",
    "{% for x in ",
    "&a ",
    "*a",
    "<<: ",
    "|\n",
    "!!str ",
    "---\n",
    "# ",
    "\t",
];
pub const TEMPLATE_WORDS: &[&str] = &[
    "{{ ",
    " }}",
    "{% for x in range(9) %}",
    "{% endfor %}",
    "{% if ",
    "{% endif %}",
    "{% macro m(a) %}",
    "{% endmacro %}",
    "{% set x = ",
    "task.title",
    "task.tags",
    "steps.work.output",
    "steps.work.outputs",
    "previous.success",
    "loop.iteration",
    "|safe",
    "|join(',')",
    "|replace('a','bb')",
    "|length",
    "|upper",
    "|list",
    "|batch(3)",
    "|indent(9)",
    "|tojson",
    "range(1000000)",
    "~",
    "*",
    "//",
    "%",
    "**",
    " and ",
    " or not ",
    " in ",
    "[1:2]",
    "'x'",
    "9223372036854775807",
    "none",
];

fn task() -> Task {
    let id: TaskId = "0190b3c4-0000-4000-8000-000000000001".parse().expect("an id");
    Task::new(id, "Fix the 'parser'", now()).expect("a task")
}

const fn now() -> Timestamp {
    Timestamp::from_millis(1_794_765_073_705)
}

/// Parses and checks a workflow file. A valid one is run to its end, with steps that succeed and fail.
pub fn workflow(data: &[u8]) {
    let definition = match WorkflowDefinition::parse("fuzz", &String::from_utf8_lossy(data)) {
        Ok(definition) => definition,
        Err(problems) => {
            assert!(!problems.is_empty(), "a rejected file has a reported problem");
            return problems.iter().for_each(|problem| saw_message(&problem.to_string()));
        }
    };
    assert!(definition.flatten().iter().all(|(_, step)| !step.name.is_empty()));
    let task = task();
    let mut progress = RunProgress::new(now());
    for turn in 0..24 {
        let context = EvalContext { task: &task, worktree: "/w", branch: "coven/x", now: now() };
        let step = match definition.next(&mut progress, context) {
            NextStep::Run(step) | NextStep::Merge(step) => step.clone(),
            NextStep::Done => return saw("done"),
            NextStep::Blocked(why) | NextStep::Failed(why) => return saw_message(&why),
        };
        let scope = definition.scope_of(&progress, &task, "/w", "coven/x");
        match &step.kind {
            StepKind::Agent { prompt, .. } => drop(scope.text(prompt)),
            StepKind::Script { command } => drop(scope.shell(command)),
            StepKind::Merge { checks, .. } => checks.iter().for_each(|check| drop(scope.shell(check))),
            StepKind::Loop { .. } => panic!("a loop is not a runnable step"),
        }
        definition.deadline(&progress, now());
        let result = StepResult { success: turn % 3 != 1, output: "x\n".into(), ..StepResult::default() };
        match definition.complete_step(&mut progress, StepCompletion::Ended(result)) {
            RunEffect::Continue => saw(("step", std::mem::discriminant(&step.kind), turn.min(4))),
            RunEffect::Blocked(why) | RunEffect::Failed(why) => return saw_message(&why),
        }
    }
}

/// Evaluates the input as a prompt template, as a command template and as a condition.
pub fn template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (task, mut progress) = (task(), RunProgress::new(now()));
    let result = StepResult { success: true, output: "it's done\n".into(), ..StepResult::default() };
    progress.results.insert("work".into(), result);
    progress.previous = Some("work".into());
    progress.iterations.insert("again".into(), 2);
    let scope = Scope {
        task: &task,
        workflow: "fuzz",
        worktree: "/w",
        branch: "coven/x",
        progress: &progress,
        enclosing_loop: Some(("again", 3)),
    };
    match scope.text(&text) {
        Ok(text) => saw(("text", text.len().min(3))),
        Err(error) => saw_message(&error.to_string()),
    }
    match scope.shell(&text) {
        Ok(text) => saw(("shell", text.len().min(3))),
        Err(error) => saw_message(&error.to_string()),
    }
    match scope.eval_condition(&text) {
        Ok(is_true) => saw(("condition", is_true)),
        Err(error) => saw_message(&error.to_string()),
    }
}
