//! The variables that templates can use, and the check for unknown ones.

use std::collections::BTreeSet;

use minijinja::machinery::{self, Token};
use minijinja::syntax::SyntaxConfig;

use super::{check, check_expression, environment};
use crate::bounded::Budget;

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

/// Returns a step's name as a template variable: `my-step` would be a subtraction.
pub(crate) fn variable(name: &str) -> String {
    name.replace('-', "_")
}

/// Replaces multiplications, which the engine would evaluate for constants while it compiles. Keeps all names.
fn without_products(source: &str, is_expression: bool) -> String {
    let mut text = source.to_owned();
    for (token, span) in machinery::tokenize(source, is_expression, SyntaxConfig::default()).map_while(Result::ok) {
        if matches!(token, Token::Mul) {
            text.replace_range(span.start_offset as usize..span.end_offset as usize, "-");
        }
    }
    text
}

/// Returns undefined variables with the reason. `reach` contains the steps that may have run by then, `all` every step.
pub(crate) fn unknown_names(
    text: &str,
    is_expression: bool,
    reach: &BTreeSet<String>,
    all: &BTreeSet<String>,
    is_in_loop: bool,
) -> Vec<(String, String)> {
    let is_bad = match is_expression {
        true => check_expression(text).is_err(),
        false => check(text).is_err(),
    };
    if is_bad {
        // The template check reports this.
        return Vec::new();
    }
    let environment = environment(&Budget::default());
    let text = without_products(text, is_expression);
    let names = match is_expression {
        true => environment.compile_expression(&text).map(|it| it.undeclared_variables(true)),
        false => environment.template_from_str(&text).map(|it| it.undeclared_variables(true)),
    };
    let names: BTreeSet<String> = names.unwrap_or_default().into_iter().collect();
    let problem = |name: String| {
        let why = match name.split('.').next() {
            Some("loop") if !is_in_loop => {
                "loop: only defined inside a loop; for a finished loop use loops.NAME".to_owned()
            }
            _ => unknown(&name, reach, all)?,
        };
        Some((name, why))
    };
    names.into_iter().filter_map(problem).collect()
}

fn unknown(name: &str, reach: &BTreeSet<String>, all: &BTreeSet<String>) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let among = |what: &str, field: &str, known: &[&str]| {
        (!known.contains(&field)).then(|| format!("{what} has no field {field:?}; known: {}", known.join(", ")))
    };
    match parts[..] {
        [root, ..] if !ROOTS.contains(&root) => Some(format!("unknown variable {root:?}; known: {}", ROOTS.join(", "))),
        ["task", field, ..] => among("task", field, &TASK),
        ["previous", field, ..] => among("previous", field, &RESULT),
        ["loop", field, ..] => among("loop", field, &LOOP),
        ["steps", step, ..] if !all.contains(step) => Some(format!("unknown step {step:?}")),
        ["steps", step, ..] if !reach.contains(step) => Some(format!("step {step:?} has not run at this point")),
        ["steps", _, field, ..] => among("a step's result", field, &RESULT),
        _ => None,
    }
}
