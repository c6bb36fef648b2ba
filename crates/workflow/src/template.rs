//! Templates of prompts and commands, and the expressions of conditions.

use std::collections::BTreeSet;

use coven_domain::task::Task;
use coven_domain::workflow::{Progress, StepResult};
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use serde::Deserialize as _;

const ROOTS: [&str; 11] = [
    "task",
    "steps",
    "previous",
    "loop",
    "loops",
    "worktree",
    "branch",
    "base_branch",
    "base_commit",
    "workflow",
    "review",
];
const TASK: [&str; 8] = ["id", "title", "body", "type", "priority", "tags", "parent_id", "branch"];
const RESULT: [&str; 7] = ["success", "failed", "skipped", "exit_code", "output", "outputs", "error"];
const LOOP: [&str; 2] = ["iteration", "max"];
/// Far beyond what a sensible template needs; ends one that goes on for ever.
const FUEL: u64 = 1_000_000;

/// Bytes of one expression, without its quoted texts. The engine parses a chain of operators by recursion; a longer one could
/// exhaust the stack of the daemon's threads.
const MAX_EXPRESSION: usize = 2_000;
/// Statements in one template; a chain of `elif` is recursion too.
const MAX_STATEMENTS: usize = 500;

/// A template that could not be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTemplate(String);

/// What templates can name.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub task: &'a Task,
    pub workflow: &'a str,
    pub worktree: &'a str,
    pub branch: &'a str,
    pub progress: &'a Progress,
    /// The loop that the step stands in, and its limit.
    pub around: Option<(&'a str, u32)>,
}

/// A step's result as templates see it.
fn shown(result: &StepResult) -> serde_json::Value {
    serde_json::json!({
        "success": result.success,
        "failed": !result.success && !result.skipped,
        "skipped": result.skipped,
        "exit_code": result.exit_code,
        "output": result.output,
        "outputs": result.outputs,
        "error": result.error,
    })
}

impl Scope<'_> {
    /// As it stands.
    pub fn text(&self, template: &str) -> Result<String, BadTemplate> {
        self.rendered(template, |text, _| text)
    }

    /// What is filled in becomes one word of the shell, whatever it holds; `|safe` leaves it as it is.
    pub fn shell(&self, template: &str) -> Result<String, BadTemplate> {
        self.rendered(template, |text, is_safe| if is_safe { text } else { quoted(&text) })
    }

    fn rendered(&self, template: &str, shape: fn(String, bool) -> String) -> Result<String, BadTemplate> {
        check_template_size(template).map_err(|(_, problem)| BadTemplate(problem))?;
        let mut environment = environment();
        environment.set_formatter(move |out, _, value| {
            // What is not there is an error here too.
            if value.is_undefined() {
                return Err(minijinja::Error::from(ErrorKind::UndefinedError));
            }
            let text = match value.kind() {
                ValueKind::Bool => value.is_true().to_string(),
                ValueKind::None => String::new(),
                _ => value.to_string(),
            };
            let shaped = shape(text, value.is_safe());
            out.write_str(&shaped).map_err(|_| minijinja::Error::from(ErrorKind::WriteFailure))
        });
        environment.render_str(template, self.values()).map_err(|error| BadTemplate(explained(&error)))
    }

    pub fn holds(&self, expression: &str) -> Result<bool, BadTemplate> {
        let bad = |error: minijinja::Error| BadTemplate(explained(&error));
        check_expression_size(expression).map_err(BadTemplate)?;
        let environment = environment();
        let value = environment.compile_expression(expression).map_err(bad)?.eval(self.values()).map_err(bad)?;
        Ok(value.is_true())
    }

    fn values(&self) -> Value {
        let task = self.task;
        let results: serde_json::Map<String, serde_json::Value> =
            self.progress.results.iter().map(|(name, result)| (variable(name), shown(result))).collect();
        let previous = self.progress.previous.as_ref().and_then(|name| results.get(&variable(name))).cloned();
        let loops: serde_json::Map<String, serde_json::Value> = self
            .progress
            .iterations
            .iter()
            .map(|(name, iteration)| (variable(name), serde_json::json!({ "iteration": iteration })))
            .collect();
        let around = self.around.map(|(name, max)| {
            serde_json::json!({ "iteration": self.progress.iterations.get(name).copied().unwrap_or(1), "max": max })
        });
        let values = serde_json::json!({
            "task": {
                "id": task.id, "title": task.title, "body": task.body, "type": task.kind, "priority": task.priority,
                "tags": task.tags, "parent_id": task.parent, "branch": self.branch,
            },
            "steps": results,
            "previous": previous,
            "loop": around,
            "loops": loops,
            "worktree": self.worktree,
            "branch": self.branch,
            "base_branch": task.base_branch,
            "base_commit": task.base_commit,
            "workflow": self.workflow,
            "review": self.progress.rejected,
        });
        Value::deserialize(values).expect("JSON is made of what a template knows")
    }
}

fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    // So that `|safe` is known from what is not; what it means is up to the formatter.
    environment.set_auto_escape_callback(|_| AutoEscape::Custom("word".into()));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment
}

fn explained(error: &minijinja::Error) -> String {
    let mut text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if error.kind() == ErrorKind::UndefinedError {
        text = format!("something that is named is not there: {text}");
    }
    if error.kind() == ErrorKind::OutOfFuel {
        text = "it does not come to an end".to_owned();
    }
    text
}

/// A step's name where a template can spell it: `my-step` is a subtraction there.
pub(super) fn variable(name: &str) -> String {
    name.replace('-', "_")
}

/// An expression without the braces that people are used to.
pub(super) fn bare(expression: &str) -> &str {
    let text = expression.trim();
    text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}")).map_or(text, str::trim)
}

/// What is wrong with it, and in which of its lines, from 0.
pub(super) fn check(template: &str) -> Result<(), (usize, String)> {
    check_template_size(template)?;
    let told = |error: minijinja::Error| (error.line().unwrap_or(1).saturating_sub(1), explained(&error));
    environment().template_from_str(template).map(drop).map_err(told)
}

/// A value becomes a word of the shell by being quoted; inside quotes of the command that would undo them, and the value would be
/// read as a part of the command.
pub(super) fn check_command(template: &str) -> Result<(), String> {
    let (mut quote, mut is_word_start): (Option<char>, bool) = (None, true);
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let end = |mark: &str| rest.find(mark).map_or(rest.len(), |at| at + mark.len());
        let taken = if rest.starts_with("{{") {
            let value = &rest[2..end("}}").saturating_sub(2).max(2)];
            let is_safe =
                value.rsplit('|').next().is_some_and(|last| last.trim().trim_end_matches('-').trim() == "safe");
            if quote.is_some() && !is_safe {
                let value = value.trim();
                return Err(format!("{{{{ {value} }}}} stands inside quotes; it is quoted already, so leave them out"));
            }
            end("}}")
        } else if rest.starts_with("{%") {
            end("%}")
        } else if rest.starts_with("{#") {
            end("#}")
        } else if quote.is_none() && first == '#' && is_word_start {
            end("\n")
        } else {
            match (quote, first) {
                // What is behind a backslash is no quote, except between single ones.
                (None | Some('"'), '\\') => {
                    let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                    rest = &rest[1 + escaped..];
                    continue;
                }
                (None, '\'' | '"') => quote = Some(first),
                (Some(open), found) if open == found => quote = None,
                _ => {}
            }
            first.len_utf8()
        };
        is_word_start = first.is_whitespace();
        rest = &rest[taken..];
    }
    Ok(())
}

/// Refuses an expression that is too long to be parsed safely.
fn check_expression_size(expression: &str) -> Result<(), String> {
    let (size, _) = measure(expression, "");
    match size <= MAX_EXPRESSION {
        true => Ok(()),
        false => Err(format!("an expression has {size} bytes, at most {MAX_EXPRESSION} are allowed; split it")),
    }
}

/// Bytes of an expression without its quoted texts, and where it ends.
fn measure(text: &str, end_mark: &str) -> (usize, usize) {
    let (mut quote, mut is_escaped, mut size) = (None, false, 0);
    for (at, byte) in text.bytes().enumerate() {
        match quote {
            Some(_) if std::mem::take(&mut is_escaped) => {}
            Some(_) if byte == b'\\' => is_escaped = true,
            Some(open) if open == byte => quote = None,
            Some(_) => {}
            None if !end_mark.is_empty() && text.as_bytes()[at..].starts_with(end_mark.as_bytes()) => {
                return (size, at);
            }
            None if matches!(byte, b'\'' | b'"') => quote = Some(byte),
            None => size += 1,
        }
    }
    (size, text.len())
}

/// The same for every expression of a template; gives the line of the first that is too long, from 0.
fn check_template_size(template: &str) -> Result<(), (usize, String)> {
    let (mut at, mut statements) = (0, 0);
    while let Some(start) = template[at..].find('{').map(|found| at + found) {
        let inner = template.get(start + 2..).unwrap_or_default();
        let length = match template.as_bytes().get(start + 1) {
            Some(b'{') => measure(inner, "}}").1,
            Some(b'%') => {
                statements += 1;
                measure(inner, "%}").1
            }
            Some(b'#') => inner.find("#}").unwrap_or(inner.len()),
            _ => {
                at = start + 1;
                continue;
            }
        };
        let line = || template[..start].matches('\n').count();
        if template.as_bytes().get(start + 1) != Some(&b'#') {
            check_expression_size(&inner[..length]).map_err(|problem| (line(), problem))?;
        }
        if statements > MAX_STATEMENTS {
            return Err((
                line(),
                format!("a template can have at most {MAX_STATEMENTS} statements; split it into steps"),
            ));
        }
        at = start + 2 + length;
    }
    Ok(())
}

pub(super) fn check_expression(expression: &str) -> Result<(), String> {
    check_expression_size(expression)?;
    environment().compile_expression(expression).map(drop).map_err(|error| explained(&error))
}

/// Names that nothing will stand behind, with what is wrong with them. `reach` are the steps that may have run by then, `all` those there are.
pub(super) fn unknown_names(
    text: &str,
    is_expression: bool,
    reach: &BTreeSet<String>,
    all: &BTreeSet<String>,
    is_in_loop: bool,
) -> Vec<(String, String)> {
    let is_too_long = match is_expression {
        true => check_expression_size(text).is_err(),
        false => check_template_size(text).is_err(),
    };
    if is_too_long {
        // Reported where it is checked.
        return Vec::new();
    }
    let environment = environment();
    let names = match is_expression {
        true => environment.compile_expression(text).map(|it| it.undeclared_variables(true)),
        false => environment.template_from_str(text).map(|it| it.undeclared_variables(true)),
    };
    let names: BTreeSet<String> = names.unwrap_or_default().into_iter().collect();
    let told = |name: String| {
        let why = match name.split('.').next() {
            Some("loop") if !is_in_loop => "loop: stands in no loop; loops.NAME tells of one that is over".to_owned(),
            _ => unknown(&name, reach, all)?,
        };
        Some((name, why))
    };
    names.into_iter().filter_map(told).collect()
}

fn unknown(name: &str, reach: &BTreeSet<String>, all: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let among = |what: &str, field: &str, known: &[&str]| {
        (!known.contains(&field)).then(|| format!("{what} has no {field:?}; it has: {}", known.join(", ")))
    };
    match parts[..] {
        [root, ..] if !ROOTS.contains(&root) => Some(format!("there is no {root:?}; there are: {}", ROOTS.join(", "))),
        ["task", field, ..] => among("task", field, &TASK),
        ["previous", field, ..] => among("previous", field, &RESULT),
        ["loop", field, ..] => among("loop", field, &LOOP),
        ["steps", step, ..] if !all.contains(step) => Some(format!("there is no step {step:?}")),
        ["steps", step, ..] if !reach.contains(step) => Some(format!("the step {step:?} has not run by then")),
        ["steps", _, field, ..] => among("a step's result", field, &RESULT),
        _ => None,
    }
}

/// One word of the shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\0', "").replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_inside_quotes_is_refused() {
        for fine in [
            "echo {{ task.title }} 'a b' \"c\"",
            "echo \\\"{{ task.title }}",
            "echo \"{{ task.title|safe }}\"",
            "{% if x == 'y' %}echo {{ a }}{% endif %}",
            "echo 'it''s' {{ a }}",
            "echo \"a\\\"b\" {{ a }}",
            "echo {{ a",
            "# don't\necho {{ a }}",
        ] {
            assert_eq!(check_command(fine), Ok(()), "{fine}");
        }
        for bad in ["echo \"{{ task.title }}\"", "echo '{{ a }}'", "sh -c \"x {% if a %}{{ a }}{% endif %}\""] {
            assert!(check_command(bad).is_err_and(|why| why.contains("stands inside quotes")), "{bad}");
        }
    }
    use coven_domain::{TaskId, Timestamp};
    use uuid::Uuid;

    fn filled(use_scope: impl FnOnce(Scope<'_>)) {
        let mut task = Task::new(TaskId::from_uuid(Uuid::from_u128(7)), "Fix $(rm -rf /) it's", Timestamp::default())
            .expect("a title");
        task.tags = vec!["a".into(), "b".into()];
        let mut progress = Progress::new(Timestamp::default());
        let outputs = serde_json::json!({ "file": "a.rs", "count": 3 });
        let result = StepResult { success: true, output: "done\n".into(), outputs, ..StepResult::default() };
        progress.results.insert("my-step".into(), result);
        progress.previous = Some("my-step".into());
        progress.iterations.insert("again".into(), 2);
        let around = Some(("again", 5));
        use_scope(Scope { task: &task, workflow: "w", worktree: "/w", branch: "b", progress: &progress, around });
    }

    #[test]
    fn fields_of_the_task_earlier_outputs_and_counters_are_filled_in() {
        filled(|scope| {
            let text = "{{ task.title }} {{ task.tags|join('+') }} {{ steps.my_step.outputs.file }} \
                        {{ previous.success }} {{ loop.iteration }}/{{ loop.max }} {{ loops.again.iteration }} {{ branch }}";
            assert_eq!(scope.text(text), Ok("Fix $(rm -rf /) it's a+b a.rs true 2/5 2 b".to_owned()));
            assert_eq!(scope.holds("steps.my_step.outputs.count > 2 and not previous.failed"), Ok(true));
            assert_eq!(scope.holds("loop.iteration == 3"), Ok(false));
        });
    }

    #[test]
    fn a_command_gets_what_is_filled_in_as_one_word() {
        filled(|scope| {
            let made = scope.shell("echo {{ task.title }} {{ steps.my_step.outputs.file }} {{ 'a b'|safe }}");
            assert_eq!(made, Ok(r"echo 'Fix $(rm -rf /) it'\''s' a.rs a b".to_owned()));
        });
    }

    #[test]
    fn what_is_not_there_is_an_error_and_no_empty_text() {
        filled(|scope| {
            assert!(scope.text("{{ steps.other.output }}").is_err());
            assert!(scope.text("{{ task.nothing }}").is_err());
            assert_eq!(scope.text("{% if steps.other %}x{% endif %}y"), Ok("y".to_owned()));
            let endless = scope.text("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}");
            assert_eq!(endless, Err(BadTemplate("it does not come to an end".to_owned())));
        });
    }

    #[test]
    fn an_expression_that_could_exhaust_the_stack_is_refused() {
        filled(|scope| {
            let chain = "- ".repeat(20_000) + "1";
            for template in [
                format!("{{{{ {chain} }}}}"),
                format!("{{{{ '}}}}' ~ '\\'' ~ {chain} }}}}"),
                format!("{{% if {chain} %}}x{{% endif %}}"),
                format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(20_000)),
            ] {
                assert!(scope.text(&template).is_err(), "{}", &template[..40]);
                assert!(check(&template).is_err(), "{}", &template[..40]);
            }
            assert!(scope.holds(&chain).is_err() && check_expression(&chain).is_err());
            let (line, problem) = check(&format!("one\ntwo {{{{ {chain} }}}}")).expect_err("too long");
            assert!(line == 1 && problem.contains("split it"), "{line}: {problem}");
            // Long texts are fine, in quotes and outside of expressions.
            let text = "{ - ".repeat(5_000);
            assert_eq!(scope.text(&text), Ok(text.clone()));
            assert_eq!(scope.text(&format!("{{{{ '{text}' }}}}")), Ok(text));
        });
    }
}
