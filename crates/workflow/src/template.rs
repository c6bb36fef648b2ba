//! Templates of prompts and commands, and expressions of conditions.

mod names;
mod shell;

use coven_domain::task::Task;
use coven_domain::workflow::{RunProgress, StepResult};
use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{self, CodeGenerator, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use serde::Deserialize as _;

use crate::bounded::{self, Budget, MAX_RESULT, text_of, too_large};
use crate::rewrite::{self, Refused};

pub(crate) use names::{unknown_names, variable};
pub(crate) use shell::check_command;
use shell::quoted;

/// Instruction limit: far beyond a reasonable template, but it stops an endless one.
const FUEL: u64 = 1_000_000;

/// Maximum bytes of one expression, without its quoted texts. The engine parses a chain of operators recursively; a
/// longer one could exhaust the stack of the daemon's threads.
const MAX_EXPRESSION: usize = 1_000;
/// Maximum statements in one template; a chain of `elif` is parsed recursively too.
const MAX_STATEMENTS: usize = 200;
/// Maximum lines of a template, and bytes of each line.
const MAX_LINES: usize = 60_000;

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTemplate(String);

/// The variables of a template.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub task: &'a Task,
    pub workflow: &'a str,
    pub worktree: &'a str,
    pub branch: &'a str,
    pub progress: &'a RunProgress,
    /// The enclosing loop and its iteration limit.
    pub enclosing_loop: Option<(&'a str, u32)>,
}

/// Returns a step's result as templates see it.
fn result_value(result: &StepResult) -> serde_json::Value {
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
    /// Renders a template as plain text.
    pub fn text(&self, template: &str) -> Result<String, BadTemplate> {
        self.rendered(template, false, &Budget::default())
    }

    /// Renders a shell command. Every value becomes one shell word; `|safe` inserts it unquoted.
    pub fn shell(&self, template: &str) -> Result<String, BadTemplate> {
        self.rendered(template, true, &Budget::default())
    }

    fn rendered(&self, template: &str, is_shell: bool, budget: &Budget) -> Result<String, BadTemplate> {
        let bad = |error: minijinja::Error| BadTemplate(explained(&error));
        let tree = parsed(template).map_err(|(_, problem)| BadTemplate(problem))?;
        let mut environment = environment(budget);
        let counted = budget.clone();
        environment.set_formatter(move |out, _, value| {
            // Undefined values are errors here too.
            if value.is_undefined() {
                return Err(minijinja::Error::from(ErrorKind::UndefinedError));
            }
            let text = match value.kind() {
                ValueKind::Bool => value.is_true().to_string().into(),
                ValueKind::None => "".into(),
                _ => text_of(value)?,
            };
            let text = if is_shell && !value.is_safe() { quoted(&text).ok_or_else(too_large)?.into() } else { text };
            counted.spend(text.len())?;
            out.write_str(&text).map_err(|_| minijinja::Error::from(ErrorKind::WriteFailure))
        });
        let mut generator = CodeGenerator::new(NAME, template);
        generator.compile_stmt(&tree);
        let (instructions, blocks) = generator.finish();
        let mut text = String::new();
        let mut output = machinery::make_string_output(&mut text);
        machinery::eval(&environment, &instructions, self.values(), &blocks, &mut output, WORD).map_err(bad)?;
        match text.len() <= MAX_RESULT {
            true => Ok(text),
            false => Err(BadTemplate(format!(
                "the result has {} bytes; at most {} MiB are allowed; shorten it",
                text.len(),
                MAX_RESULT >> 20
            ))),
        }
    }

    /// Evaluates a condition.
    pub fn eval_condition(&self, expression: &str) -> Result<bool, BadTemplate> {
        let bad = |error: minijinja::Error| BadTemplate(explained(&error));
        let tree = parsed_expression(expression).map_err(BadTemplate)?;
        let environment = environment(&Budget::default());
        let mut generator = CodeGenerator::new(NAME, expression);
        generator.compile_expr(&tree);
        let (instructions, blocks) = generator.finish();
        let mut nothing = String::new();
        let mut output = machinery::make_string_output(&mut nothing);
        let plain = AutoEscape::None;
        let (value, _) =
            machinery::eval(&environment, &instructions, self.values(), &blocks, &mut output, plain).map_err(bad)?;
        Ok(value.expect("an expression has a value").is_true())
    }

    fn values(&self) -> Value {
        let task = self.task;
        let results: serde_json::Map<String, serde_json::Value> =
            self.progress.results.iter().map(|(name, result)| (variable(name), result_value(result))).collect();
        let previous = self.progress.previous.as_ref().and_then(|name| results.get(&variable(name))).cloned();
        let loops: serde_json::Map<String, serde_json::Value> = self
            .progress
            .iterations
            .iter()
            .map(|(name, iteration)| (variable(name), serde_json::json!({ "iteration": iteration })))
            .collect();
        let enclosing_loop = self.enclosing_loop.map(|(name, max)| {
            serde_json::json!({ "iteration": self.progress.iterations.get(name).copied().unwrap_or(1), "max": max })
        });
        let values = serde_json::json!({
            "task": {
                "id": task.id, "title": task.title, "body": task.body, "type": task.kind, "priority": task.priority,
                "tags": task.tags, "parent_id": task.parent, "branch": self.branch,
            },
            "steps": results,
            "previous": previous,
            "loop": enclosing_loop,
            "loops": loops,
            "worktree": self.worktree,
            "branch": self.branch,
            "base_branch": task.base_branch,
            "base_commit": task.base_commit,
            "workflow": self.workflow,
            "review": self.progress.rejected,
        });
        Value::deserialize(values).expect("JSON converts to template values")
    }
}

/// The template name that the engine requires.
const NAME: &str = "template";
/// Makes the engine track `|safe`; the formatter decides its effect.
const WORD: AutoEscape = AutoEscape::Custom(std::borrow::Cow::Borrowed("word"));

fn environment<'a>(budget: &Budget) -> Environment<'a> {
    let mut environment = bounded::environment(budget);
    environment.set_auto_escape_callback(|_| WORD);
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment
}

/// Parses a template and rebuilds it with bounded memory. The error has the line, from 0.
fn parsed(template: &str) -> Result<Stmt<'_>, Refused> {
    check_size(template, false)?;
    let bad = |error: minijinja::Error| (error.line().unwrap_or(1).saturating_sub(1), explained(&error));
    rewrite::statement(&machinery::parse(template, NAME, SyntaxConfig::default()).map_err(bad)?)
}

fn parsed_expression(expression: &str) -> Result<Expr<'_>, String> {
    check_size(expression, true).map_err(|(_, problem)| problem)?;
    let tree = machinery::parse_expr(expression).map_err(|error| explained(&error))?;
    rewrite::expression(&tree).map_err(|(_, problem)| problem)
}

fn explained(error: &minijinja::Error) -> String {
    let mut text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    if error.kind() == ErrorKind::UndefinedError {
        text = format!("undefined variable: {text}");
    }
    if error.kind() == ErrorKind::OutOfFuel {
        text = "the template exceeded its step limit; check it for an endless loop".to_owned();
    }
    text
}

/// Strips optional `{{ }}` from an expression.
pub(super) fn bare(expression: &str) -> &str {
    let text = expression.trim();
    text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}")).map_or(text, str::trim)
}

/// Checks a template. The error has the line, from 0.
pub(super) fn check(template: &str) -> Result<(), Refused> {
    parsed(template).map(drop)
}

/// Refuses a template that is too long to be parsed safely, with the line, from 0. The engine's tokenizer decides
/// where an expression starts and ends.
fn check_size(source: &str, is_expression: bool) -> Result<(), Refused> {
    let check = |line: u16, size: u32| match usize::try_from(size).is_ok_and(|size| size <= MAX_EXPRESSION) {
        true => Ok(()),
        false => {
            let problem = format!("an expression has {size} bytes; at most {MAX_EXPRESSION} are allowed; split it");
            Err((usize::from(line).saturating_sub(1), problem))
        }
    };
    // The engine counts lines and columns in 16 bits.
    let longest = source.lines().map(str::len).max().unwrap_or(0);
    if source.lines().count().max(longest) > MAX_LINES {
        let problem = format!("a template can have at most {MAX_LINES} lines of at most {MAX_LINES} bytes; split it");
        return Err((0, problem));
    }
    // Start of the expression, and the number of quoted bytes in it.
    let (mut open, mut quoted_bytes, mut statements) = (is_expression.then_some((1, 0)), 0, 0);
    // The parser reports invalid tokens.
    for (token, span) in machinery::tokenize(source, is_expression, SyntaxConfig::default()).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => {
                statements += usize::from(matches!(token, Token::BlockStart));
                (open, quoted_bytes) = (Some((span.start_line, span.end_offset)), 0);
            }
            Token::Str(_) | Token::String(_) => quoted_bytes += span.end_offset - span.start_offset,
            _ => {}
        }
        if let Some((line, start)) = open {
            check(line, (span.end_offset - start).saturating_sub(quoted_bytes))?;
        }
        if matches!(token, Token::VariableEnd | Token::BlockEnd) {
            open = None;
        }
        if statements > MAX_STATEMENTS {
            let problem = format!("a template can have at most {MAX_STATEMENTS} statements; split it into steps");
            return Err((usize::from(span.start_line).saturating_sub(1), problem));
        }
    }
    Ok(())
}

pub(super) fn check_expression(expression: &str) -> Result<(), String> {
    parsed_expression(expression).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use coven_domain::{TaskId, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn filled(use_scope: impl FnOnce(Scope<'_>)) {
        let mut task = Task::new(TaskId::from_uuid(Uuid::from_u128(7)), "Fix $(rm -rf /) it's", Timestamp::default())
            .expect("a title");
        task.tags = vec!["a".into(), "b".into()];
        let mut progress = RunProgress::new(Timestamp::default());
        let outputs = serde_json::json!({ "file": "a.rs", "count": 3 });
        let result = StepResult { success: true, output: "done\n".into(), outputs, ..StepResult::default() };
        progress.results.insert("my-step".into(), result);
        progress.previous = Some("my-step".into());
        progress.iterations.insert("again".into(), 2);
        let enclosing_loop = Some(("again", 5));
        use_scope(Scope {
            task: &task,
            workflow: "w",
            worktree: "/w",
            branch: "b",
            progress: &progress,
            enclosing_loop,
        });
    }

    #[test]
    fn task_fields_outputs_and_counters_are_rendered() {
        filled(|scope| {
            let text = "{{ task.title }} {{ task.tags|join('+') }} {{ steps.my_step.outputs.file }} \
                        {{ previous.success }} {{ loop.iteration }}/{{ loop.max }} {{ loops.again.iteration }} {{ branch }}";
            assert_eq!(scope.text(text), Ok("Fix $(rm -rf /) it's a+b a.rs true 2/5 2 b".to_owned()));
            assert_eq!(scope.eval_condition("steps.my_step.outputs.count > 2 and not previous.failed"), Ok(true));
            assert_eq!(scope.eval_condition("loop.iteration == 3"), Ok(false));
        });
    }

    #[test]
    fn a_value_in_a_command_becomes_one_shell_word() {
        filled(|scope| {
            let made = scope.shell("echo {{ task.title }} {{ steps.my_step.outputs.file }} {{ 'a b'|safe }}");
            assert_eq!(made, Ok(r"echo 'Fix $(rm -rf /) it'\''s' a.rs a b".to_owned()));
        });
    }

    #[test]
    fn an_undefined_variable_is_an_error() {
        filled(|scope| {
            assert!(scope.text("{{ steps.other.output }}").is_err());
            assert!(scope.text("{{ task.nothing }}").is_err());
            assert_eq!(scope.text("{% if steps.other %}x{% endif %}y"), Ok("y".to_owned()));
            let endless = scope.text("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}");
            assert_eq!(
                endless,
                Err(BadTemplate("the template exceeded its step limit; check it for an endless loop".to_owned()))
            );
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
            assert!(scope.eval_condition(&chain).is_err() && check_expression(&chain).is_err());
            let (line, problem) = check(&format!("one\ntwo {{{{ {chain} }}}}")).expect_err("too long");
            assert!(line == 1 && problem.contains("split it"), "{line}: {problem}");
            // Long texts are fine, in quotes and outside of expressions.
            let text = "{ - ".repeat(5_000);
            assert_eq!(scope.text(&text), Ok(text.clone()));
            assert_eq!(scope.text(&format!("{{{{ '{text}' }}}}")), Ok(text));
        });
    }

    /// Templates that would create gigabytes without limits.
    const BOMBS: &[&str] = &[
        r#"{{ ("a,"*1000)|replace("a","b"*1000)|replace("b","c"*10000) }}"#,
        r#"{% set a = "aaaaaaaaaa" %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{% set a = a~a~a~a~a~a~a~a~a~a %}{{ a|length }}"#,
        r#"{% set a = "a" * 1000000 %}{% set a = a + a + a + a %}{% set a = a + a + a + a %}{{ a|length }}"#,
        r#"{% for i in range(1000) %}{% set x %}{% for j in range(1000) %}{{ "a" * 1000 }}{% endfor %}{% endset %}{% endfor %}"#,
        r#"{% set x %}{% for i in range(60000) %}a long text of the template itself, which is repeated; a long text of the template itself, which is repeated; a long text of the template itself, which is repeated; a long text of the template itself, which is repeated; a long text of the template{% endfor %}{% endset %}{{ x|length }}"#,
        r#"{% for i in range(60000) %}{{ "a" * 1000 }}{% endfor %}"#,
        r#"{% macro m(a) %}{{ m(a ~ a) }}{% endmacro %}{{ m("aaaaaaaaaa") }}"#,
        r#"{% macro m(n) %}x{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}"#,
        r#"{{ "%1000000000d"|format(1) }}"#,
        r#"{{ "%*d"|format(1000000000, 1) }}"#,
        r#"{{ "%.1000000000f"|format(1.5) }}"#,
        r#"{{ ("%(a)s" * 1000)|format(a="x" * 1000000) }}"#,
        r#"{{ range(10**9)|list }}"#,
        r#"{{ ([1] * 10**8)|list|length }}"#,
        r#"{{ "a" * 10**10 }}"#,
        r#"{{ "a" * 100000000 ~ "a" * 100000000 }}"#,
        r#"{{ 10**7 * "ab" }}"#,
        r#"{% set ns = namespace(a="aaaaaaaaaa") %}{% for i in range(40) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}"#,
        r#"{% set ns = namespace(a=[]) %}{% for i in range(60000) %}{% set ns.a = [ns.a] %}{% endfor %}"#,
        r#"{{ "a\nb"|indent(10**9) }}"#,
        r#"{{ ("\n" * 100000)|indent(width=1000, blank=true)|length }}"#,
        r#"{{ [1]|batch(10**9, 0)|list }}"#,
        r#"{{ [1]|slice(10**9, 0)|list }}"#,
        r#"{{ ("a" * 4000000)|list|length }}"#,
        r#"{{ ("a\n" * 2000000)|lines|length }}"#,
        r#"{{ ("a," * 2000000)|split(",")|length }}"#,
        r#"{{ range(60000)|join("x" * 100000)|length }}"#,
        r#"{{ range(60000)|map("replace", "1", "x" * 10000)|list|length }}"#,
        r#"{{ range(60000)|sort(attribute="a,a,a,a,a,a")|length }}"#,
        r#"{{ range(*range(60000), *range(60000)) }}"#,
        r#"{% for a in [[1]] recursive %}{{ loop(a) ~ loop(a) }}{% endfor %}"#,
        r#"{% filter replace("a", "b" * 1000000) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfilter %}"#,
        r#"{{ "".join(["a"] * 10**8) }}"#,
        r#"{% set x %}{% for i in range(15) %}{{ "a" * 1000000 }}{% endfor %}{% endset %}{{ x[::-1]|length }}"#,
        r#"{{ debug() }}"#,
    ];

    /// Nested lists, each containing the previous one twice: 64 levels print as 2^64 items.
    fn doubled_lists() -> String {
        format!("{{% set x = [1] %}}{}{{{{ x }}}}", "{% set x = [x, x] %}".repeat(64))
    }

    #[test]
    fn no_template_exceeds_the_limits() {
        filled(|scope| {
            let doubled = doubled_lists();
            for template in BOMBS.iter().copied().chain([&*doubled]) {
                for is_shell in [false, true] {
                    let budget = Budget::default();
                    let made = scope.rendered(template, is_shell, &budget);
                    assert!(made.is_err(), "{template}: {} bytes", made.map_or(0, |text| text.len()));
                    // The last value is refused before or right after its creation and is at most as large as a result.
                    assert!(budget.spent() <= bounded::MAX_TOTAL + MAX_RESULT, "{template}: {}", budget.spent());
                }
                let _ = check(template);
                let inner = template.trim_start_matches("{{").trim_end_matches("}}");
                let (none, _) = (BTreeSet::new(), scope.eval_condition(inner));
                unknown_names(template, false, &none, &none, true);
                unknown_names(inner, true, &none, &none, true);
            }
        });
    }

    #[test]
    fn an_error_names_the_limit_that_was_exceeded() {
        filled(|scope| {
            let problem = |template: &str| scope.text(template).expect_err(template).to_string();
            assert!(problem(BOMBS[0]).contains("exceeds 4 MiB"), "{}", problem(BOMBS[0]));
            let many = "{% for i in range(60000) %}{% set x = 'a' * 1000 %}{% endfor %}";
            assert!(problem(many).contains("more than 16 MiB"), "{}", problem(many));
            let long = "{% for i in range(5) %}{{ 'a' * 1000000 }}{% endfor %}";
            assert!(problem(long).contains("at most 4 MiB"), "{}", problem(long));
            assert!(problem("{{ 'a'|zip('b') }}").contains("unknown filter \"zip\""));
            let line = check("a\n{% for a in b recursive %}{% endfor %}").expect_err("recursive").0;
            assert_eq!(line, 1);
        });
    }

    #[test]
    fn operators_filters_and_captures_work_within_the_limits() {
        filled(|scope| {
            for (template, expected) in [
                ("{{ 'a' ~ 1 ~ [1, 'b'] }}", "a1[1, 'b']"),
                (
                    "{{ 'ab' * 3 }} {{ 2 * 'x' }} {{ [1, 2] * 2 }} {{ 3 * 4 }} {{ 2 * 1.5 }} {{ 2.0 * 3 }}",
                    "ababab xx [1, 2, 1, 2] 12 3.0 6.0",
                ),
                ("{{ 'a' + 'b' }} {{ [1] + [2] }} {{ loop.iteration + 1 }} {{ 1.5 + 1 }}", "ab [1, 2] 3 2.5"),
                ("{{ 'abc'[1:] }} {{ [1, 2, 3][:2] }} {{ 'abc'[::-1] }}", "bc [1, 2] cba"),
                ("{% set x %}a{% for i in range(3) %}{{ i }}b{% endfor %}{% endset %}{{ x|upper }}", "A0B1B2B"),
                ("{% filter upper %}a{{ branch }}{% endfilter %}", "AB"),
                ("{% for a, b in [(1, 2), (3, 4)] %}{{ a * b }},{% endfor %}", "2,12,"),
                ("{% for k, v in {'a': 1}|items %}{{ k }}={{ v }}{% else %}-{% endfor %}", "a=1"),
                ("{% with y = 3 %}{{ y }}{% endwith %} {{ 'a' if 1 < 2 < 3 else 'b' }}", "3 a"),
                ("{{ '%03d %s'|format(7, 'x') }} {{ 'a\nb'|indent(2) }}", "007 x a\n  b"),
                ("{{ 'a,b'|split(',')|join('+') }} {{ [[1], 2]|join(d=', ') }}", "a+b [1], 2"),
                ("{{ range(7)|batch(3, 0)|list }}", "[[0, 1, 2], [3, 4, 5], [6, 0, 0]]"),
                ("{{ task.tags|map('upper')|list }} {{ task.tags|length > 1 }}", "['A', 'B'] true"),
                ("{{ 'b' in task.tags }} {{ nothing|default('x') }} {{ 'a' is string }}", "true x true"),
                ("{% raw %}{{ ' {% endraw %}{{ branch }}", "{{ ' b"),
                ("a {%- if true %} b {%- endif %}\n", "a b"),
            ] {
                assert_eq!(scope.text(template), Ok(expected.to_owned()), "{template}");
                assert_eq!(check(template), Ok(()), "{template}");
            }
            assert_eq!(
                scope.shell("echo {{ branch ~ ' x' }} {{ 'a b'|safe|replace('a', 'c d') }}").as_deref(),
                Ok("echo 'b x' 'c d' b")
            );
            assert_eq!(scope.eval_condition("'done' in previous.output|trim and 'a' * 2 == 'aa'"), Ok(true));
            let none = BTreeSet::new();
            let names = unknown_names("{{ 'a' * what ~ '*' }}", false, &none, &none, true);
            assert_eq!(names.len(), 1, "{names:?}");
        });
    }

    #[test]
    fn the_longest_allowed_expressions_fit_on_the_stack_of_a_thread() {
        filled(|scope| {
            for expression in [
                "-".repeat(MAX_EXPRESSION - 3) + "1",
                "not ".repeat(MAX_EXPRESSION / 4 - 1) + "1",
                "b".to_owned() + &"~b".repeat(MAX_EXPRESSION / 2 - 2),
                "b".to_owned() + &"+b".repeat(MAX_EXPRESSION / 2 - 2),
                "b".to_owned() + &"*b".repeat(MAX_EXPRESSION / 2 - 2),
                "b".to_owned() + &"|e".repeat(MAX_EXPRESSION / 2 - 2),
                "b".to_owned() + &"[:]".repeat(MAX_EXPRESSION / 3 - 2),
                "[".repeat(MAX_EXPRESSION / 2 - 2) + &"]".repeat(MAX_EXPRESSION / 2 - 2),
            ] {
                let _ = (scope.text(&format!("{{{{{expression}}}}}")), scope.eval_condition(&expression));
                let none = BTreeSet::new();
                unknown_names(&expression, true, &none, &none, true);
            }
            // A quote in a raw block does not hide what follows it.
            let hidden = format!("{{% raw %}}{{{{ ' {{% endraw %}}{{{{ {} 1 }}}}", "- ".repeat(20_000));
            assert!(check(&hidden).is_err());
        });
    }
}
