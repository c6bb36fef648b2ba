//! Checks a workflow file and reports every problem with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_saphyr::Spanned;

use crate::definition::{
    EndsOn, OnFail, OnMax, RawDuration, RawExpression, RawFile, RawStep, Step, StepChannel, StepKind,
    WorkflowDefinition,
};
use crate::{keys, template};

const MAX_STEPS: usize = 200;
const MAX_DEPTH: usize = 5;
const MAX_ITERATIONS: u32 = 1000;
const MAX_NAME: usize = 64;

/// A problem in a workflow file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1; 0 if the problem concerns the whole file.
    pub line: u64,
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

fn of_yaml(error: &serde_saphyr::Error, source: &[&str]) -> Problem {
    let line = error.location().map_or(0, |location| location.line());
    // The full text repeats the position and adds an excerpt of several lines.
    let text = error.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let text = text.split(" at line ").next().unwrap_or(text);
    if let Some((_, rest)) = text.split_once("duplicate mapping key: ") {
        let key = rest.split(',').next().unwrap_or(rest);
        return Problem { line, text: format!("{key}: duplicate key") };
    }
    if text.contains("expected mapping start") {
        return Problem { line, text: "expected keys and values, such as `name: build`".to_owned() };
    }
    // A problem with a value is unclear without its key.
    let here = usize::try_from(line).ok().and_then(|line| source.get(line.checked_sub(1)?));
    let key = here.and_then(|here| here.trim_start_matches([' ', '-']).split_once(": ")).map(|(key, _)| key.trim());
    let is_word = |key: &&str| !text.contains(key) && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match key.filter(is_word) {
        Some(key) => Problem { line, text: format!("{key}: {text}") },
        None => Problem { line, text: text.to_owned() },
    }
}

/// Parses and checks a file; reports all problems.
pub(super) fn checked(file_name: &str, text: &str) -> Result<WorkflowDefinition, Vec<Problem>> {
    let mut check = Check { source: text.lines().collect(), ..Check::default() };
    let keys = keys::unknown(text).map_err(|error| of_yaml(&error, &check.source));
    let definition = match serde_saphyr::from_str(text) {
        Ok(file) => {
            // If only the pass over the keys failed, no key was checked: report that.
            check.problems = keys.unwrap_or_else(|problem| vec![problem]);
            Some(check.file(file_name, file))
        }
        Err(error) => {
            check.problems = keys.unwrap_or_default();
            check.problems.push(of_yaml(&error, &check.source));
            None
        }
    };
    match definition {
        Some(definition) if check.problems.is_empty() => Ok(definition),
        _ => {
            check.problems.sort();
            Err(check.problems)
        }
    }
}

fn line<T>(value: &Spanned<T>) -> u64 {
    value.referenced.line()
}

#[derive(Default)]
struct Check<'a> {
    problems: Vec<Problem>,
    /// The lines of the file.
    source: Vec<&'a str>,
    /// Names of steps in the order of the file.
    seen: Vec<String>,
    /// The first line of each template and expression, by step and text.
    places: BTreeMap<(String, String), u64>,
}

impl Check<'_> {
    fn file(&mut self, file_name: &str, file: RawFile) -> WorkflowDefinition {
        if let Some(name) = &file.name
            && name.value != file_name
        {
            self.refuse(line(name), format!("name: {:?} does not match the file name {file_name:?}", name.value));
        }
        if file.steps.value.is_empty() {
            self.refuse(line(&file.steps), "steps: at least one step is required".to_owned());
        }
        let timeout = file.timeout.as_ref().and_then(|timeout| self.duration(timeout));
        let steps = self.steps(&file.steps.value, 0);
        if self.seen.len() > MAX_STEPS {
            self.refuse(0, format!("the workflow has {} steps; at most {MAX_STEPS} are allowed", self.seen.len()));
        }
        let description = file.description.unwrap_or_default();
        let definition = WorkflowDefinition { name: file_name.to_owned(), description, timeout, steps };
        self.order(&definition);
        definition
    }

    /// Returns the line in the file of the nth line of a text that starts at line `at`.
    fn line_in(&self, at: u64, text: &str, nth: usize) -> u64 {
        let Some(wanted) = text.lines().nth(nth).map(str::trim).filter(|line| !line.is_empty()) else { return at };
        let start = usize::try_from(at).unwrap_or(0).saturating_sub(1);
        let further = self.source.iter().skip(start).position(|line| line.contains(wanted));
        further.map_or(at, |further| at + further as u64)
    }

    fn refuse(&mut self, line: u64, text: String) {
        self.problems.push(Problem { line, text });
    }

    fn steps(&mut self, raw: &[Spanned<RawStep>], depth: usize) -> Vec<Step> {
        raw.iter().filter_map(|step| self.step(step, depth)).collect()
    }

    fn step(&mut self, spanned: &Spanned<RawStep>, depth: usize) -> Option<Step> {
        let (raw, at) = (&spanned.value, line(spanned));
        let name = &raw.name.value;
        let is_name = name.len() <= MAX_NAME
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            let rule = format!("use at most {MAX_NAME} letters, digits, - and _, starting with a letter");
            self.refuse(line(&raw.name), format!("name: invalid name {name:?}: {rule}"));
        }
        if self.seen.iter().any(|known| template::variable(known) == template::variable(name)) {
            self.refuse(line(&raw.name), format!("name: {name:?} is used twice"));
        }
        self.seen.push(name.clone());
        self.misplaced_keys(raw);
        let kind = self.kind(raw, at, depth)?;
        let when = raw.when.as_ref().and_then(|when| self.expression(name, "when", when));
        let timeout = raw.timeout.as_ref().and_then(|timeout| self.duration(timeout));
        let on_fail = self.word("on_fail", raw.on_fail.as_ref(), OnFail::Fail);
        let exits_loop = match raw.on_success.as_ref() {
            None => false,
            Some(word) if word.value == "continue" => false,
            Some(word) if word.value == "exit_loop" => {
                if depth == 0 {
                    self.refuse(line(word), "on_success: exit_loop is only allowed inside a loop".to_owned());
                }
                true
            }
            Some(word) => {
                self.refuse(
                    line(word),
                    format!("on_success: unknown value {:?}; known: exit_loop, continue", word.value),
                );
                false
            }
        };
        Some(Step { name: name.clone(), line: at, when, timeout, on_fail, exits_loop, kind })
    }

    fn kind(&mut self, raw: &RawStep, at: u64, depth: usize) -> Option<StepKind> {
        match raw.kind.value.as_str() {
            "agent" => Some(StepKind::Agent {
                harness: raw.harness.as_ref().map(|harness| harness.value.clone()),
                channel: raw.channel.as_ref().and_then(|word| match word.value.parse() {
                    Ok(channel) => Some(channel),
                    Err(unknown) => {
                        self.refuse(line(word), format!("channel: {unknown}"));
                        None
                    }
                }),
                ends_on: self.ends_on(raw),
                prompt: self.template(raw, "prompt", raw.prompt.as_ref(), at)?,
                args: {
                    let args = raw.args.iter().flatten();
                    args.map(|arg| self.template(raw, "args", Some(arg), at)).collect::<Option<_>>()?
                },
            }),
            "script" => {
                let command = self.template(raw, "command", raw.command.as_ref(), at)?;
                self.command("command", raw.command.as_ref(), &command);
                Some(StepKind::Script { command })
            }
            "loop" => {
                if depth + 1 >= MAX_DEPTH {
                    self.refuse(at, format!("loops can be nested at most {} deep", MAX_DEPTH - 1));
                    return None;
                }
                let Some(inner) = &raw.steps else {
                    self.refuse(at, "steps: required in a loop".to_owned());
                    return None;
                };
                let Some(max) = raw.max_iterations.as_ref() else {
                    self.refuse(at, "max_iterations: required in a loop".to_owned());
                    return None;
                };
                if !(1..=MAX_ITERATIONS).contains(&max.value) {
                    self.refuse(
                        line(max),
                        format!("max_iterations: {} is not between 1 and {MAX_ITERATIONS}", max.value),
                    );
                }
                if inner.value.is_empty() {
                    self.refuse(line(inner), "steps: at least one step is required".to_owned());
                }
                let until = raw.until.as_ref().and_then(|until| self.expression(&raw.name.value, "until", until));
                let on_max = self.word("on_max_iterations", raw.on_max_iterations.as_ref(), OnMax::Fail);
                Some(StepKind::Loop {
                    steps: self.steps(&inner.value, depth + 1),
                    max_iterations: max.value,
                    on_max,
                    until,
                })
            }
            "merge" => {
                if depth > 0 {
                    self.refuse(at, "a merge is not allowed inside a loop".to_owned());
                }
                let checks = raw.checks.as_ref().map(|checks| &checks.value[..]).unwrap_or_default();
                for check in checks {
                    if let Some(text) = self.template(raw, "checks", Some(check), at) {
                        self.command("checks", Some(check), &text);
                    }
                }
                Some(StepKind::Merge {
                    needs_review: raw.require_review.as_ref().is_none_or(|it| it.value),
                    checks: checks.iter().map(|check| check.value.clone()).collect(),
                })
            }
            other => {
                self.refuse(
                    line(&raw.kind),
                    format!("type: unknown type {other:?}; known: agent, script, loop, merge"),
                );
                None
            }
        }
    }

    fn ends_on(&mut self, raw: &RawStep) -> EndsOn {
        let Some(word) = &raw.ends_on else { return EndsOn::Exit };
        // Without a channel, the harness decides: most then exit by themselves.
        let is_terminal = raw.channel.as_ref().is_some_and(|channel| channel.value == StepChannel::Terminal.as_str());
        if !is_terminal {
            self.refuse(line(word), "ends_on: only allowed with `channel: terminal`; add it to the step".to_owned());
        }
        self.word("ends_on", Some(word), EndsOn::Exit)
    }

    /// Reports keys that do not apply to this type of step, instead of ignoring them.
    fn misplaced_keys(&mut self, raw: &RawStep) {
        let kind = raw.kind.value.as_str();
        let given: [(&str, Option<u64>, &[&str]); 13] = [
            ("harness", raw.harness.as_ref().map(line), &["agent"]),
            ("channel", raw.channel.as_ref().map(line), &["agent"]),
            ("ends_on", raw.ends_on.as_ref().map(line), &["agent"]),
            ("prompt", raw.prompt.as_ref().map(line), &["agent"]),
            ("command", raw.command.as_ref().map(line), &["script"]),
            ("steps", raw.steps.as_ref().map(line), &["loop"]),
            ("max_iterations", raw.max_iterations.as_ref().map(line), &["loop"]),
            ("on_max_iterations", raw.on_max_iterations.as_ref().map(line), &["loop"]),
            ("until", raw.until.as_ref().map(line), &["loop"]),
            ("require_review", raw.require_review.as_ref().map(line), &["merge"]),
            ("checks", raw.checks.as_ref().map(line), &["merge"]),
            ("on_success", raw.on_success.as_ref().map(line), &["agent", "script"]),
            ("on_fail", raw.on_fail.as_ref().map(line), &["agent", "script", "loop"]),
        ];
        for (key, at, kinds) in given {
            if let Some(at) = at
                && ["agent", "script", "loop", "merge"].contains(&kind)
                && !kinds.contains(&kind)
            {
                self.refuse(at, format!("{key}: not allowed in a step of type {kind}"));
            }
        }
    }

    fn duration(&mut self, raw: &Spanned<RawDuration>) -> Option<Duration> {
        let read = match &raw.value {
            RawDuration::Seconds(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            RawDuration::Text(text) => parse_duration(text),
        };
        if read.is_none_or(|it| it.is_zero()) {
            self.refuse(line(raw), "timeout: invalid duration; write it like 90s, 30m or 1h30m".to_owned());
        }
        read
    }

    fn expression(&mut self, step: &str, key: &str, raw: &Spanned<RawExpression>) -> Option<String> {
        let text = match &raw.value {
            RawExpression::Plain(value) => value.to_string(),
            // Users often write the braces of a template here too.
            RawExpression::Text(text) => template::bare(text).to_owned(),
        };
        if let Err(problem) = template::check_expression(&text) {
            self.refuse(line(raw), format!("{key}: {problem}"));
            return None;
        }
        self.places.insert((step.to_owned(), text.clone()), line(raw));
        Some(text)
    }

    fn template(&mut self, step: &RawStep, key: &str, raw: Option<&Spanned<String>>, at: u64) -> Option<String> {
        let Some(raw) = raw else {
            self.refuse(at, format!("{key}: missing"));
            return None;
        };
        if raw.value.trim().is_empty() {
            self.refuse(line(raw), format!("{key}: empty"));
        }
        match template::check(&raw.value) {
            Ok(()) => {
                self.places.insert((step.name.value.clone(), raw.value.clone()), line(raw));
                Some(raw.value.clone())
            }
            Err((nth, problem)) => {
                self.refuse(self.line_in(line(raw), &raw.value, nth), format!("{key}: {problem}"));
                None
            }
        }
    }

    fn command(&mut self, key: &str, raw: Option<&Spanned<String>>, text: &str) {
        if let Err(problem) = template::check_command(text) {
            self.refuse(raw.map_or(0, line), format!("{key}: {problem}"));
        }
    }

    fn word<T: std::str::FromStr>(&mut self, key: &str, raw: Option<&Spanned<String>>, default: T) -> T
    where
        T::Err: fmt::Display,
    {
        let Some(raw) = raw else { return default };
        raw.value.parse().unwrap_or_else(|unknown| {
            self.refuse(line(raw), format!("{key}: {unknown}"));
            default
        })
    }

    /// Checks that a merge is the last step and that templates use only steps that have run.
    fn order(&mut self, definition: &WorkflowDefinition) {
        let last = definition.steps.len().saturating_sub(1);
        for (place, step) in definition.steps.iter().enumerate() {
            if matches!(step.kind, StepKind::Merge { .. }) && place != last {
                self.refuse(step.line, format!("{}: a merge closes the task; it can only be the last step", step.name));
            }
        }
        let mut known = BTreeSet::new();
        let all: BTreeSet<String> = self.seen.iter().map(|name| template::variable(name)).collect();
        for (depth, step) in definition.flatten() {
            // In a loop, a step may refer to a later one: it has run from the second iteration on.
            let reach = if depth == 0 { &known } else { &all };
            let is_in_loop = depth > 0 || matches!(step.kind, StepKind::Loop { .. });
            let texts = match &step.kind {
                StepKind::Agent { prompt, args, .. } => {
                    [prompt].into_iter().chain(args).map(|text| (text, false)).collect()
                }
                StepKind::Script { command } => vec![(command, false)],
                StepKind::Loop { until, .. } => until.iter().map(|until| (until, true)).collect(),
                StepKind::Merge { checks, .. } => checks.iter().map(|check| (check, false)).collect(),
            };
            let texts = texts.into_iter().chain(step.when.as_ref().map(|when| (when, true)));
            for (text, is_expression) in texts {
                let reach = if matches!(step.kind, StepKind::Loop { .. }) { &all } else { reach };
                for (name, problem) in template::unknown_names(text, is_expression, reach, &all, is_in_loop) {
                    let at = self.places.get(&(step.name.clone(), text.clone())).copied().unwrap_or(step.line);
                    let nth = text.lines().position(|line| line.contains(&name)).unwrap_or(0);
                    self.refuse(self.line_in(at, text, nth), format!("{}: {problem}", step.name));
                }
            }
            known.insert(template::variable(&step.name));
        }
    }
}

/// Parses durations such as `90s`, `30m`, `1h30m` and `2d`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest[digits..].chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(unit)?))?;
        rest = &rest[digits + 1..];
    }
    Some(total).filter(|total| !total.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match WorkflowDefinition::parse("x", text) {
            Ok(read) => panic!("accepted: {read:?}"),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn every_problem_is_reported_with_its_line() {
        let text = "
name: other
timeout: soon
steps:
  - name: 1st
    type: agent
    prompt: 'Do {{ task.titel }} {{ nothing }}'
  - name: build
    type: script
    prompt: no
    command: '{{ steps.later.output }}'
    on_fail: explode
  - name: again
    type: loop
    max_iterations: 0
    steps:
      - name: build
        type: script
        command: 'echo {{ loop.iteration'
      - name: inner
        type: merge
  - name: land
    type: merge
    on_fail: continue
    checks: [\"test '{{ task.title }}'\"]
  - name: later
    type: script
    command: echo
    when: steps.(
    on_success: exit_loop
  - name: what
    type: dance
";
        assert_eq!(
            problems(text),
            [
                "line 2: name: \"other\" does not match the file name \"x\"",
                "line 3: timeout: invalid duration; write it like 90s, 30m or 1h30m",
                "line 5: name: invalid name \"1st\": use at most 64 letters, digits, - and _, starting with a letter",
                "line 7: 1st: task has no field \"titel\"; known: id, title, body, type, priority, tags, parent_id, branch",
                "line 7: 1st: unknown variable \"nothing\"; known: task, steps, previous, loop, loops, worktree, branch, base_branch, base_commit, workflow, review",
                "line 10: prompt: not allowed in a step of type script",
                "line 11: build: step \"later\" has not run at this point",
                "line 12: on_fail: unknown value \"explode\"; known: fail, block, continue",
                "line 15: max_iterations: 0 is not between 1 and 1000",
                "line 17: name: \"build\" is used twice",
                "line 19: command: unexpected end of input, expected end of variable block",
                "line 20: a merge is not allowed inside a loop",
                "line 22: land: a merge closes the task; it can only be the last step",
                "line 24: on_fail: not allowed in a step of type merge",
                "line 25: checks: {{ task.title }} is inside quotes; remove them, coven quotes values itself",
                "line 29: when: unexpected `(`, expected identifier or integer",
                "line 30: on_success: exit_loop is only allowed inside a loop",
                "line 32: type: unknown type \"dance\"; known: agent, script, loop, merge",
            ]
        );
    }

    #[test]
    fn a_problem_in_a_long_text_is_reported_with_its_own_line() {
        let text = "
steps:
  - name: work
    type: agent
    when: |
      task.priority > 1
      and task.kind == 'bug'
    prompt: |
      Do this:

        {{ task.title }}
        {{ task.name }}
  - name: build
    type: script
    comand: make
    command: |
      set -e
      make {{ branch
  - name: again
    type: script
    command: \"make
      {{ nothing }}\"
";
        assert_eq!(
            problems(text),
            [
                "line 7: work: task has no field \"kind\"; known: id, title, body, type, priority, tags, parent_id, branch",
                "line 12: work: task has no field \"name\"; known: id, title, body, type, priority, tags, parent_id, branch",
                "line 15: unknown key comand; did you mean command?",
                "line 18: command: unexpected end of input, expected end of variable block",
                "line 21: again: unknown variable \"nothing\"; known: task, steps, previous, loop, loops, worktree, branch, base_branch, base_commit, workflow, review",
            ]
        );
    }

    #[test]
    fn an_invalid_workflow_file_is_reported() {
        for (text, line, words) in [
            ("steps: [", 1, ""),
            ("- a\n- b\n", 1, "expected keys and values"),
            (
                "steps:\n  - {name: a, type: script, command: 'echo {{ loop.iteration }}'}\n",
                2,
                "only defined inside a loop",
            ),
            ("steps:\n  - name: a\n    type: script\n    comand: x\n", 2, "command: missing"),
            ("steps:\n  - {name: a, type: script, command: x, command: y}\n", 2, "command: duplicate key"),
            ("steps:\n  - name: a\n    type: merge\n    require_review: perhaps\n", 4, "require_review: invalid"),
            ("steps:\n  - type: script\n    command: x\n", 3, "name"),
            ("description: nothing\n", 1, "steps"),
            ("steps: []\n", 1, "at least one step"),
            ("steps:\n  - { name: a, type: script, command: x, steps: ~, comand: y }\n", 2, ""),
        ] {
            let found = WorkflowDefinition::parse("x", text).expect_err("an invalid file");
            assert_eq!(found[0].line, line, "{text:?}: {found:?}");
            assert!(found[0].text.contains(words) && !found[0].text.contains('\n'), "{text:?}: {found:?}");
        }
    }

    #[test]
    fn durations_combine_several_units() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800), (" 5m ", 300)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "0s", "5", "m", "5x", "-5m", "99999999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
