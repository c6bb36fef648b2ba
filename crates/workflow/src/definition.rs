//! A parsed workflow file: steps of type agent, script, loop and merge.

use std::time::Duration;

use coven_domain::string_enum;
use coven_domain::workflow::WorkflowRun;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::check::{self, Problem};

/// The default workflow of a task: an agent works, then its work is reviewed and merged.
pub const BUILT_IN: (&str, &str) = (
    "implement",
    "description: An agent works on the task; its work is reviewed and merged.
steps:
  - name: work
    type: agent
    prompt: |
      {{ task.title }}

      {{ task.body }}
      {%- if review %}

      The existing work was rejected in review: {{ review }}
      {%- endif %}
  - name: merge
    type: merge
",
);

string_enum! {
    /// What happens to the run when a step fails.
    pub enum OnFail { Fail = "fail", Block = "block", Continue = "continue" }
}

string_enum! {
    /// What happens to the run when a loop reaches its maximum number of iterations.
    pub enum OnMax { Fail = "fail", Block = "block", Continue = "continue" }
}

string_enum! {
    /// How coven communicates with a step's agent.
    pub enum StepChannel { Print = "print", Terminal = "terminal", Acp = "acp" }
}

string_enum! {
    /// When a terminal agent has completed its step.
    pub enum EndsOn {
        /// Its program exits.
        Exit = "exit",
        /// It is idle after its prompt; coven then ends its session.
        Idle = "idle",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowDefinition {
    pub name: String,
    pub description: String,
    /// Timeout of the whole run, without the time spent waiting for a review.
    pub timeout: Option<Duration>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub line: u64,
    /// An expression; the step is skipped if it is false.
    pub when: Option<String>,
    pub timeout: Option<Duration>,
    pub on_fail: OnFail,
    /// Leaves the enclosing loop when the step succeeds.
    pub exits_loop: bool,
    pub kind: StepKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    Agent {
        /// `None` uses the task's harness.
        harness: Option<String>,
        channel: Option<StepChannel>,
        ends_on: EndsOn,
        prompt: String,
        /// Arguments for the harness; templates like the prompt.
        args: Vec<String>,
    },
    Script {
        command: String,
    },
    Loop {
        steps: Vec<Step>,
        max_iterations: u32,
        on_max: OnMax,
        /// An expression, evaluated after each iteration.
        until: Option<String>,
    },
    Merge {
        needs_review: bool,
        /// Commands that must succeed on the merge result.
        checks: Vec<String>,
    },
}

impl StepKind {
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Agent { .. } => "agent",
            Self::Script { .. } => "script",
            Self::Loop { .. } => "loop",
            Self::Merge { .. } => "merge",
        }
    }
}

impl WorkflowDefinition {
    /// Parses and checks a workflow file; `name` is the file's name. Reports every problem with its line.
    pub fn parse(name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        check::checked(name, text)
    }

    /// Returns the definition stored in a run, which was checked when the run started.
    pub fn of_run(run: &WorkflowRun) -> Result<Self, String> {
        Self::parse(&run.name, &run.definition).map_err(|problems| {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("the stored workflow definition is invalid: {}", all.join("; "))
        })
    }

    pub fn built_in() -> Self {
        Self::parse(BUILT_IN.0, BUILT_IN.1).expect("a test parses the built-in workflow")
    }

    /// Returns everything that the file executes: scripts, checks, and agents with their prompts. Prompts count because
    /// some harnesses, such as a shell, execute them.
    pub fn commands(&self) -> Vec<String> {
        fn collect(steps: &[Step], commands: &mut Vec<String>) {
            for step in steps {
                match &step.kind {
                    StepKind::Agent { harness, args, prompt, .. } => {
                        let harness = harness.as_deref().unwrap_or("the default agent");
                        let words: Vec<&str> = [harness].into_iter().chain(args.iter().map(String::as_str)).collect();
                        commands.push(format!("{}: {prompt}", words.join(" ")));
                    }
                    StepKind::Script { command } => commands.push(command.clone()),
                    StepKind::Loop { steps, .. } => collect(steps, commands),
                    StepKind::Merge { checks, needs_review } => {
                        commands.extend(checks.iter().cloned());
                        commands.extend((!needs_review).then(|| "merge without review".to_owned()));
                    }
                }
            }
        }
        let mut commands = Vec::new();
        collect(&self.steps, &mut commands);
        commands
    }

    /// Returns the step at this path: its index on each level.
    pub fn step(&self, path: &[usize]) -> Option<&Step> {
        let (last, above) = path.split_last()?;
        let mut steps = &self.steps;
        for place in above {
            match &steps.get(*place)?.kind {
                StepKind::Loop { steps: inner, .. } => steps = inner,
                StepKind::Agent { .. } | StepKind::Script { .. } | StepKind::Merge { .. } => return None,
            }
        }
        steps.get(*last)
    }

    /// Returns every step with its depth, in file order.
    pub fn flatten(&self) -> Vec<(usize, &Step)> {
        fn walk<'a>(steps: &'a [Step], depth: usize, out: &mut Vec<(usize, &'a Step)>) {
            for step in steps {
                out.push((depth, step));
                if let StepKind::Loop { steps, .. } = &step.kind {
                    walk(steps, depth + 1, out);
                }
            }
        }
        let mut out = Vec::new();
        walk(&self.steps, 0, &mut out);
        out
    }
}

/// The file before validation. Unknown keys are found in a separate pass, so that they do not hide other problems.
#[derive(Debug, Deserialize)]
pub(super) struct RawFile {
    pub name: Option<Spanned<String>>,
    pub description: Option<String>,
    pub timeout: Option<Spanned<RawDuration>>,
    pub steps: Spanned<Vec<Spanned<RawStep>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawStep {
    pub name: Spanned<String>,
    #[serde(rename = "type")]
    pub kind: Spanned<String>,
    pub when: Option<Spanned<RawExpression>>,
    pub timeout: Option<Spanned<RawDuration>>,
    pub on_fail: Option<Spanned<String>>,
    pub on_success: Option<Spanned<String>>,
    pub harness: Option<Spanned<String>>,
    pub channel: Option<Spanned<String>>,
    pub ends_on: Option<Spanned<String>>,
    pub args: Option<Vec<Spanned<String>>>,
    #[serde(alias = "spell")]
    pub prompt: Option<Spanned<String>>,
    pub command: Option<Spanned<String>>,
    pub steps: Option<Spanned<Vec<Spanned<RawStep>>>>,
    pub max_iterations: Option<Spanned<u32>>,
    pub on_max_iterations: Option<Spanned<String>>,
    pub until: Option<Spanned<RawExpression>>,
    pub require_review: Option<Spanned<bool>>,
    pub checks: Option<Spanned<Vec<Spanned<String>>>>,
}

/// `30m` or a number of seconds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawDuration {
    Seconds(f64),
    Text(String),
}

/// An expression; YAML parses `true` and `false` as booleans.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum RawExpression {
    Plain(bool),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_workflow_is_an_agent_and_a_merge_with_review() {
        let built_in = WorkflowDefinition::built_in();
        assert_eq!(built_in.name, "implement");
        let kinds: Vec<_> = built_in.steps.iter().map(|step| (step.name.as_str(), step.kind.word())).collect();
        assert_eq!(kinds, [("work", "agent"), ("merge", "merge")]);
        let merge = StepKind::Merge { needs_review: true, checks: vec![] };
        assert_eq!(built_in.steps[1].kind, merge);
        assert_eq!(built_in.step(&[1]).map(|step| step.line), Some(13));
        assert_eq!(built_in.step(&[1, 0]), None);
        assert_eq!(built_in.step(&[]), None);
    }

    #[test]
    fn a_terminal_agent_may_end_when_it_is_idle() {
        let parse = |more: &str| {
            let text = format!("steps:\n  - name: work\n    type: agent\n    prompt: x\n{more}");
            WorkflowDefinition::parse("x", &text)
        };
        let ends_on = |more: &str| match &parse(more).expect("a valid file").steps[0].kind {
            StepKind::Agent { ends_on, .. } => *ends_on,
            other => panic!("not an agent: {other:?}"),
        };
        assert_eq!(ends_on(""), EndsOn::Exit);
        assert_eq!(ends_on("    channel: terminal\n    ends_on: exit\n"), EndsOn::Exit);
        assert_eq!(ends_on("    channel: terminal\n    ends_on: idle\n"), EndsOn::Idle);
        let problem = |more: &str| parse(more).expect_err("an invalid file").remove(0).to_string();
        assert_eq!(
            problem("    channel: terminal\n    ends_on: done\n"),
            "line 6: ends_on: unknown value \"done\"; known: exit, idle"
        );
        for channel in ["", "    channel: print\n", "    channel: acp\n"] {
            let found = problem(&format!("{channel}    ends_on: idle\n"));
            assert!(found.ends_with("ends_on: only allowed with `channel: terminal`; add it to the step"), "{found}");
        }
        let script = "steps:\n  - { name: a, type: script, command: x, ends_on: idle }\n";
        let found = WorkflowDefinition::parse("x", script).expect_err("a script").remove(0).to_string();
        assert_eq!(found, "line 2: ends_on: not allowed in a step of type script");
    }

    #[test]
    fn a_file_with_all_features_is_parsed() {
        let text = "
name: careful
description: build, test until green, merge
timeout: 2h
steps:
  - name: build
    type: agent
    harness: claude
    channel: acp
    args: [--model, opus]
    timeout: 1h30m
    prompt: 'Do {{ task.title }}'
  - name: until-green
    type: loop
    max_iterations: 3
    on_max_iterations: block
    until: steps.test.success
    steps:
      - name: test
        type: script
        command: make test
        timeout: 90
        on_fail: continue
      - name: fix
        type: agent
        when: steps.test.failed
        prompt: 'Fix this: {{ steps.test.output }}'
  - name: merge
    type: merge
    require_review: false
    checks: [make test]
";
        let read = WorkflowDefinition::parse("careful", text).expect("a valid file");
        assert_eq!(
            read.commands(),
            [
                "claude --model opus: Do {{ task.title }}",
                "make test",
                "the default agent: Fix this: {{ steps.test.output }}",
                "make test",
                "merge without review"
            ]
        );
        assert_eq!(read.timeout, Some(Duration::from_secs(7200)));
        assert_eq!(read.steps[0].timeout, Some(Duration::from_secs(5400)));
        assert!(matches!(&read.steps[0].kind, StepKind::Agent { args, .. } if args == &["--model", "opus"]));
        let inner = read.step(&[1, 0]).expect("a step of the loop");
        assert_eq!((inner.name.as_str(), inner.on_fail, inner.line), ("test", OnFail::Continue, 19));
        assert_eq!(inner.timeout, Some(Duration::from_secs(90)));
        let depths: Vec<_> = read.flatten().iter().map(|(depth, step)| (*depth, step.name.clone())).collect();
        let names = [(0, "build"), (0, "until-green"), (1, "test"), (1, "fix"), (0, "merge")];
        assert_eq!(depths, names.map(|(depth, name)| (depth, name.to_owned())));
        let merge = StepKind::Merge { needs_review: false, checks: vec!["make test".to_owned()] };
        assert_eq!(read.steps[2].kind, merge);
    }
}
