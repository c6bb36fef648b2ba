//! Rules that say what an agent is doing from its title, its notifications and the text on its screen.
//!
//! Hooks are more reliable; rules cover dialogs that appear before hooks run, and agents without hooks. A screen that no
//! rule matches means nothing.

use coven_domain::activity::ActivityFact;
use coven_domain::string_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml_edit::{DocumentMut, Item};

/// Number of lines that a screen rule reads if it does not say so, counted from the last line with text.
const DEFAULT_BOTTOM: usize = 20;

string_enum! {
    /// The part of the terminal that a rule reads.
    pub enum RuleInput {
        Screen = "screen",
        Title = "title",
        /// A desktop notification that the agent requested (OSC 9, 99 or 777).
        Notification = "notification",
        /// `busy`, `hidden`, `failed`, `paused` or a percentage such as `42%` (OSC 9;4).
        Progress = "progress",
        Bell = "bell",
        /// `prompt`, `command` or `exit` with the exit code: marks that a shell prints around its prompt and its commands
        /// (OSC 133).
        Shell = "shell",
    }
}

string_enum! {
    /// What a match means.
    pub enum RuleMeaning {
        Working = "working",
        Permission = "permission",
        Question = "question",
        Idle = "idle",
        Limited = "limited",
        /// Not working: either the turn is over or the agent waits for an answer.
        Resting = "resting",
    }
}

impl RuleMeaning {
    pub const fn fact(self) -> ActivityFact {
        match self {
            Self::Working => ActivityFact::Worked,
            Self::Permission => ActivityFact::PermissionAsked,
            Self::Question => ActivityFact::QuestionAsked,
            Self::Idle => ActivityFact::TurnEnded,
            Self::Limited => ActivityFact::LimitReached,
            Self::Resting => ActivityFact::Rested,
        }
    }
}

/// One rule. It matches if all its conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the rule, unique for its agent. A rule in the config replaces the built-in rule with its name.
    pub name: String,
    #[schemars(with = "RuleInputSchema")]
    pub on: RuleInput,
    #[schemars(with = "RuleMeaningSchema")]
    pub means: RuleMeaning,
    /// Every one of these texts occurs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<String>,
    /// At least one of these texts occurs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<String>,
    /// At least one line starts with one of these texts, after spaces and the lines of boxes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<String>,
    /// None of these texts occurs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub none: Vec<String>,
    /// Number of screen lines to read, counted from the last line with text. Default: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottom: Option<usize>,
    /// Number of screen lines with text to read, counted from the last one, instead of `bottom`. For screens with a varying
    /// number of empty lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lines: Option<usize>,
    /// What to show, such as `asks to trust this folder`. `{line}` is the first matching line, `{before}` and `{after}` are
    /// the lines around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The values of `RuleInput` for the config schema.
#[derive(JsonSchema)]
#[schemars(rename = "RuleInput", rename_all = "lowercase")]
#[expect(dead_code, reason = "only describes values for the schema")]
enum RuleInputSchema {
    Screen,
    Title,
    Notification,
    Progress,
    Bell,
    Shell,
}

/// The values of `RuleMeaning` for the config schema.
#[derive(JsonSchema)]
#[schemars(rename = "RuleMeaning", rename_all = "lowercase")]
#[expect(dead_code, reason = "only describes values for the schema")]
enum RuleMeaningSchema {
    Working,
    Permission,
    Question,
    Idle,
    Limited,
    Resting,
}

/// What a terminal shows or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence<'a> {
    pub on: RuleInput,
    /// The lines of the screen from top to bottom, or one line of text.
    pub lines: &'a [&'a str],
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    pub rule: &'a Rule,
    pub detail: Option<String>,
}

/// The rules of one agent, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// The version of the program that the built-in rules were tested with.
    pub tested_with: Option<String>,
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    tested_with: String,
    #[serde(default)]
    rule: Vec<Rule>,
}

impl RuleSet {
    /// Parses the `screen.toml` of an agent.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        let file: RuleFile = serde_json::from_value(to_json(document.as_item())).map_err(|error| error.to_string())?;
        for rule in &file.rule {
            rule.check()?;
        }
        Ok(Self { tested_with: Some(file.tested_with), rules: file.rule })
    }

    /// Adds rules of the config in front; a rule replaces the one with its name.
    pub fn changed_by(mut self, rules: &[Rule]) -> Self {
        self.rules.retain(|known| rules.iter().all(|rule| rule.name != known.name));
        self.rules.splice(..0, rules.iter().cloned());
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns whether a rule reads this part of the terminal.
    pub fn reads(&self, on: RuleInput) -> bool {
        self.rules.iter().any(|rule| rule.on == on)
    }

    /// Returns the first rule that matches.
    pub fn find(&self, evidence: &Evidence<'_>) -> Option<Match<'_>> {
        self.rules.iter().find_map(|rule| Some(Match { rule, detail: rule.matches(evidence)? }))
    }
}

impl Rule {
    /// Checks the rule; the error starts with its name.
    pub fn check(&self) -> Result<(), String> {
        let has_condition = !(self.all.is_empty() && self.any.is_empty() && self.starts.is_empty());
        let texts = self.all.iter().chain(&self.any).chain(&self.starts).chain(&self.none);
        if self.name.trim().is_empty() {
            Err("a rule needs a name".to_owned())
        } else if !has_condition && self.on != RuleInput::Bell {
            Err(format!("{}: add a text to all, any or starts", self.name))
        } else if texts.clone().any(|text| text.trim().is_empty()) {
            Err(format!("{}: an empty text matches everything", self.name))
        } else if self.bottom == Some(0) || self.last_lines == Some(0) {
            Err(format!("{}: bottom and last_lines must be at least 1", self.name))
        } else if self.bottom.is_some() && self.last_lines.is_some() {
            Err(format!("{}: set either bottom or last_lines", self.name))
        } else {
            Ok(())
        }
    }

    /// Returns the detail, which may be `None`, if all conditions hold.
    #[expect(clippy::option_option, reason = "a match may have no detail")]
    fn matches(&self, evidence: &Evidence<'_>) -> Option<Option<String>> {
        if self.on != evidence.on {
            return None;
        }
        let lines: Vec<&str> = evidence.lines.iter().map(|line| unboxed(line)).collect();
        let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        let start = match (self.on, self.last_lines) {
            (RuleInput::Screen, Some(count)) => {
                let mut with_text = (0..end).rev().filter(|at| !lines[*at].is_empty());
                with_text.nth(count - 1).unwrap_or(0)
            }
            (RuleInput::Screen, None) => end.saturating_sub(self.bottom.unwrap_or(DEFAULT_BOTTOM)),
            _ => 0,
        };
        let lines = &lines[start..end];
        let line_with = |text: &String| lines.iter().position(|line| line.contains(text.as_str()));
        if self.none.iter().any(|text| line_with(text).is_some()) {
            return None;
        }
        let mut first = None;
        for text in &self.all {
            let at = line_with(text)?;
            first.get_or_insert(at);
        }
        if !self.any.is_empty() {
            let at = self.any.iter().find_map(line_with)?;
            first.get_or_insert(at);
        }
        if !self.starts.is_empty() {
            let is_start = |line: &&str| self.starts.iter().any(|text| line.starts_with(text.as_str()));
            let at = lines.iter().position(is_start)?;
            first.get_or_insert(at);
        }
        let line = |at: Option<usize>| at.and_then(|at| lines.get(at)).copied().unwrap_or_default();
        let before = first.and_then(|at| (0..at).rev().find(|at| !lines[*at].is_empty()));
        let after = first.and_then(|at| (at + 1..lines.len()).find(|at| !lines[*at].is_empty()));
        Some(self.detail.as_ref().map(|detail| {
            let detail = detail.replace("{line}", line(first));
            detail.replace("{before}", line(before)).replace("{after}", line(after))
        }))
    }
}

/// Returns the line without the spaces and box lines at its ends.
fn unboxed(line: &str) -> &str {
    line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{2500}'..='\u{259F}' | '|'))
}

fn to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect(),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| to_json(&Item::Table(table.clone()))).collect(),
    }
}

fn value_to_json(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(flag) => Value::from(*flag.value()),
        toml_edit::Value::Datetime(time) => Value::from(time.value().to_string()),
        toml_edit::Value::Array(array) => array.iter().map(value_to_json).collect(),
        toml_edit::Value::InlineTable(table) => {
            table.iter().map(|(key, value)| (key.to_owned(), value_to_json(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
tested_with = "1.2"

[[rule]]
name = "trust"
on = "screen"
means = "question"
all = ["Do you trust", "Yes, proceed"]
none = ["esc to interrupt"]
bottom = 6
detail = "asks: {line} ({before}; {after})"

[[rule]]
name = "spinner"
on = "title"
means = "working"
starts = ["◐", "◑"]
"#;

    fn find<'a>(rules: &'a RuleSet, on: RuleInput, lines: &[&str]) -> Option<(&'a str, Option<String>)> {
        rules.find(&Evidence { on, lines }).map(|found| (found.rule.name.as_str(), found.detail))
    }

    #[test]
    fn a_rule_matches_if_all_its_conditions_hold() {
        let rules = RuleSet::parse(FILE).expect("valid rules");
        let dialog = ["~/project", "│ Do you trust this folder? │", "", "│ ❯ 1. Yes, proceed │", ""];
        let detail = "asks: Do you trust this folder? (~/project; ❯ 1. Yes, proceed)".to_owned();
        assert_eq!(find(&rules, RuleInput::Screen, &dialog), Some(("trust", Some(detail))));
        assert_eq!(find(&rules, RuleInput::Title, &dialog), None);
        assert_eq!(find(&rules, RuleInput::Screen, &dialog[..3]), None);
        let with_work = [&dialog[..], &["esc to interrupt"]].concat();
        assert_eq!(find(&rules, RuleInput::Screen, &with_work), None);
        let scrolled = [&dialog[..], &["1", "2", "3", "4", "5"]].concat();
        assert_eq!(find(&rules, RuleInput::Screen, &scrolled), None, "only the last lines count");
        assert_eq!(find(&rules, RuleInput::Title, &["◐ fix it"]), Some(("spinner", None)));
        assert_eq!(find(&rules, RuleInput::Title, &["fix ◐ it"]), None);
    }

    #[test]
    fn empty_lines_do_not_count_as_last_lines() {
        let text = "tested_with = \"1\"\n[[rule]]\nname = \"limit\"\non = \"screen\"\nmeans = \"limited\"\nall = [\"429\"]\nlast_lines = 2";
        let rules = RuleSet::parse(text).expect("valid rules");
        assert!(find(&rules, RuleInput::Screen, &["429", "", "", "", "> ", ""]).is_some());
        assert!(find(&rules, RuleInput::Screen, &["429", "", "answer", "", "> "]).is_none());
    }

    #[test]
    fn a_rule_of_the_config_replaces_the_one_with_its_name() {
        let own: Rule = serde_json::from_str(r#"{"name":"trust","on":"bell","means":"idle"}"#).expect("a rule");
        assert_eq!(own.check(), Ok(()));
        let rules = RuleSet::parse(FILE).expect("valid rules").changed_by(&[own]);
        assert_eq!(rules.rules().len(), 2);
        assert_eq!(find(&rules, RuleInput::Bell, &[]), Some(("trust", None)));
        assert!(!rules.reads(RuleInput::Screen) && rules.reads(RuleInput::Title));
    }

    #[test]
    fn wrong_rules_are_refused() {
        for (text, reason) in [
            ("rule = []", "tested_with"),
            ("tested_with = \"1\"\n[[rule]]\nname = \"a\"\non = \"screen\"\nmeans = \"idle\"", "add a text"),
            ("tested_with = \"1\"\n[[rule]]\nname = \"a\"\non = \"desk\"\nmeans = \"idle\"", "desk"),
            (
                "tested_with = \"1\"\n[[rule]]\nname = \"a\"\non = \"title\"\nmeans = \"idle\"\nall = [\" \"]",
                "matches everything",
            ),
            (
                "tested_with = \"1\"\n[[rule]]\nname = \"a\"\non = \"title\"\nmeans = \"idle\"\nall = [\"a\"]\nonly = 1",
                "only",
            ),
        ] {
            let error = RuleSet::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
