//! Harnesses: agent programs as coven starts them, described as data.

use std::collections::BTreeMap;

use coven_domain::text::Prompt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, DefaultChoice, Missing};
use crate::agents;
use crate::generic_hooks;
use crate::hooks::Hooks;
use crate::print_mode::{self, PrintMode};
use crate::rules::{Rule, RuleSet};

/// How coven passes the prompt to the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PromptStyle")]
pub enum PromptStyle<S = String> {
    /// As the last argument.
    Last,
    /// As the last argument, after `--`, so that a prompt may start with a dash.
    AfterDashes,
    /// As the value of this flag.
    Flag(S),
    /// As `--flag=prompt`, for programs whose flag takes an optional value.
    FlagEquals(S),
    /// Typed into the terminal once the program is running.
    Typed,
    /// The program does not accept a prompt.
    None,
}

impl From<&PromptStyle<&str>> for PromptStyle {
    fn from(style: &PromptStyle<&str>) -> Self {
        match *style {
            PromptStyle::Last => Self::Last,
            PromptStyle::AfterDashes => Self::AfterDashes,
            PromptStyle::Flag(flag) => Self::Flag(flag.to_owned()),
            PromptStyle::FlagEquals(flag) => Self::FlagEquals(flag.to_owned()),
            PromptStyle::Typed => Self::Typed,
            PromptStyle::None => Self::None,
        }
    }
}

/// A harness as written in the config file. An entry with `like`, or an entry for a built-in harness without `program`,
/// changes only the keys that it sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarnessConfig {
    /// Id of a built-in harness from which this harness inherits all keys that it does not set, except the id and the
    /// label. Use it to run an agent under another name, from another path or through a wrapper.
    // Skipped if unset: the user's agreement is a hash of the serialized entry, and earlier agreements must stay valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Program to run: a name to look up in PATH, or an absolute path. Optional for a built-in harness and with `like`.
    #[serde(default)]
    pub program: Option<String>,
    #[serde(default)]
    pub label: Option<String>,
    /// Arguments before the prompt. Without `program`, or with `like`, these are added to the built-in harness's
    /// arguments, both in a terminal and in print mode.
    #[serde(default)]
    pub args: Vec<String>,
    /// How coven passes the prompt to the program in a terminal. Default: `typed`.
    #[serde(default)]
    pub prompt: Option<PromptStyle>,
    /// Text that the command line of the running process contains. A restarted daemon checks it before it takes over
    /// the process. Not checked if omitted.
    #[serde(default)]
    pub identity: Option<String>,
    /// Extra environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Arguments that make the program use ACP on its standard streams.
    #[serde(default)]
    pub acp_args: Option<Vec<String>>,
    /// Separate program that provides ACP for the agent.
    #[serde(default)]
    pub acp_program: Option<String>,
    /// Authentication method to use if the agent requires one. Default: the first one that it offers.
    #[serde(default)]
    pub acp_auth: Option<String>,
    /// Flag for the workspace folder; passed only if the program's `--help` lists it.
    #[serde(default)]
    pub workspace_flag: Option<String>,
    /// How the program answers one prompt and exits; used for conversations. Default: the print mode of the built-in
    /// harness with this id.
    #[serde(default)]
    pub print: Option<PrintMode>,
    /// Arguments that make the program print its version. Default: `--version`.
    #[serde(default)]
    pub version_args: Option<Vec<String>>,
    /// Seconds between SIGTERM and SIGKILL. Default: `sessions.killGraceSeconds`.
    #[serde(default)]
    pub grace_seconds: Option<f64>,
    /// Hint shown if the program is not installed.
    #[serde(default)]
    pub install_hint: Option<String>,
    /// Rules that say what the agent is doing from its title, its notifications or its screen. They are tried before the
    /// built-in rules; a rule replaces the built-in one with its name.
    // Skipped if unset, like `like`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Whether the program calls `coven hook` itself to report what it does. `false` for an entry that changes a built-in
    /// harness: coven adds no hooks.
    // Skipped if unset, like `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<bool>,
}

impl HarnessConfig {
    /// Returns whether the entry defines a harness rather than changing the built-in harness with its id.
    fn is_definition(&self) -> bool {
        self.program.is_some() || self.like.is_some()
    }

    /// Validates the entry; the error starts with the key that is wrong.
    pub fn check(&self, id: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > 64 || !id.chars().all(is_plain) {
            return Err("the id may contain only letters, digits, '-', '_' and '.', at most 64 characters".to_owned());
        }
        if let Some(like) = &self.like
            && !is_built_in(like)
        {
            let known = agents::ids(Agent::is_launchable).join(", ");
            return Err(format!("like: {like:?} is not a built-in harness; known: {known}"));
        }
        match &self.program {
            None if self.like.is_none() && !is_built_in(id) => {
                return Err("program: required; set it to the program to run".to_owned());
            }
            Some(program) if program.is_empty() || program.contains(char::is_whitespace) => {
                return Err("program: must be a single program; put its arguments into args".to_owned());
            }
            Some(program) if program.contains('/') && !program.starts_with('/') => {
                return Err("program: must be a name to look up in PATH or an absolute path".to_owned());
            }
            Some(_) | None => {}
        }
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return Err("args: an argument cannot contain a NUL byte".to_owned());
        }
        if let Some(PromptStyle::Flag(flag) | PromptStyle::FlagEquals(flag)) = &self.prompt
            && !flag.starts_with('-')
        {
            return Err(format!("prompt: {flag:?} is not a flag; it must start with '-'"));
        }
        if let Some(name) =
            self.env.keys().find(|name| name.starts_with("LD_") || name.contains('=') || name.is_empty())
        {
            return Err(format!(
                "env: {name:?} is not allowed: a name must not be empty, contain '=' or start with LD_"
            ));
        }
        if let Some(print) = &self.print {
            print.check()?;
        }
        for rule in &self.rules {
            rule.check().map_err(|error| format!("rules: {error}"))?;
        }
        match self.grace_seconds {
            Some(grace) if !(0.0..=3600.0).contains(&grace) => {
                Err("graceSeconds: must be between 0 and 3600".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Where the program comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program<S = String> {
    /// Looked up in the PATH of the client that requested the session.
    Named(S),
    /// The user's `$SHELL`, else `/bin/sh`.
    UserShell,
    /// The coven binary itself, with this hidden subcommand.
    Coven(&'static str),
}

impl From<&Program<&str>> for Program {
    fn from(program: &Program<&str>) -> Self {
        match *program {
            Program::Named(name) => Self::Named(name.to_owned()),
            Program::UserShell => Self::UserShell,
            Program::Coven(verb) => Self::Coven(verb),
        }
    }
}

/// How to start a harness in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalMode {
    /// Arguments before the prompt.
    pub args: Vec<String>,
    pub prompt: PromptStyle,
}

/// An agent program that coven can start: built in, defined in the config, or built in and changed by the config.
#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    pub id: String,
    pub label: String,
    pub program: Program,
    pub terminal: Result<TerminalMode, Missing>,
    /// Arguments that the config adds to a built-in harness, in a terminal and in print mode.
    pub added_args: Vec<String>,
    pub identity: String,
    pub env: BTreeMap<String, String>,
    pub acp_args: Option<Vec<String>>,
    pub acp_program: Option<String>,
    pub acp_auth: Option<String>,
    pub workspace_flag: Option<String>,
    pub print: Option<PrintMode>,
    pub version_args: Vec<String>,
    pub grace_seconds: Option<f64>,
    pub install_hint: String,
    /// Note for users about running the agent under coven.
    pub note: String,
    pub is_builtin: bool,
    pub default_choice: DefaultChoice,
    /// How the program reports to coven, if it can.
    pub hooks: Option<&'static Hooks>,
    /// What its terminal says about its activity.
    pub rules: RuleSet,
}

impl From<&Agent> for Harness {
    fn from(agent: &Agent) -> Self {
        let acp = agent.acp.as_ref().ok();
        let terminal = agent.terminal.as_ref();
        Self {
            id: agent.id.to_owned(),
            label: agent.label.to_owned(),
            program: Program::from(&agent.program),
            terminal: terminal
                .map(|it| TerminalMode { args: strings(it.args), prompt: PromptStyle::from(&it.prompt) })
                .map_err(|missing| *missing),
            added_args: Vec::new(),
            identity: agent.identity.to_owned(),
            env: agent.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            acp_args: acp.map(|acp| strings(acp.args)),
            acp_program: acp.and_then(|acp| Some(acp.adapter.as_ref()?.program.to_owned())),
            acp_auth: None,
            workspace_flag: acp.and_then(|acp| acp.workspace_flag.map(str::to_owned)),
            print: agent.print.as_ref().ok().map(PrintMode::from),
            version_args: strings(agent.version_args),
            grace_seconds: agent.grace_seconds,
            install_hint: agent.install.to_owned(),
            note: agent.note.to_owned(),
            is_builtin: true,
            default_choice: agent.default_choice,
            hooks: agent.hooks.as_ref().ok().copied(),
            rules: agent.rules.map_or_else(RuleSet::default, built_in_rules),
        }
    }
}

impl Harness {
    fn from_config(id: &str, program: &str, config: &HarnessConfig) -> Self {
        Self {
            id: id.to_owned(),
            label: config.label.clone().unwrap_or_else(|| id.to_owned()),
            program: Program::Named(program.to_owned()),
            terminal: Ok(TerminalMode {
                args: config.args.clone(),
                prompt: config.prompt.clone().unwrap_or(PromptStyle::Typed),
            }),
            added_args: Vec::new(),
            identity: config.identity.clone().unwrap_or_default(),
            env: config.env.clone(),
            acp_args: config.acp_args.clone(),
            acp_program: config.acp_program.clone(),
            acp_auth: config.acp_auth.clone(),
            workspace_flag: config.workspace_flag.clone(),
            print: config.print.clone().or_else(|| print_mode::known(id)),
            version_args: config.version_args.clone().unwrap_or_else(|| strings(&["--version"])),
            grace_seconds: config.grace_seconds,
            install_hint: config.install_hint.clone().unwrap_or_else(|| hint(id, program)),
            note: String::new(),
            is_builtin: false,
            default_choice: choice(id),
            hooks: hooks(config, None),
            rules: RuleSet::default().changed_by(&config.rules),
        }
    }

    /// Builds the harness of a config entry with `like` from the agent that it names.
    fn like(agent: &Agent, id: &str, config: &HarnessConfig) -> Self {
        let mut harness = Self::from(agent);
        harness.is_builtin = false;
        harness.default_choice = choice(id);
        if id != agent.id {
            (harness.id, harness.label) = (id.to_owned(), id.to_owned());
        }
        if let Some(program) = &config.program {
            harness.program = Program::Named(program.clone());
            harness.install_hint = hint(id, program);
            // The process of a wrapper may have another name than the agent.
            harness.identity = String::new();
        }
        harness.changed_by(config)
    }

    /// Applies the keys of a config entry to a built-in harness.
    fn changed_by(self, config: &HarnessConfig) -> Self {
        let mut env = self.env;
        env.extend(config.env.clone());
        let terminal = match (self.terminal, config.prompt.clone()) {
            (Ok(mode), Some(prompt)) => Ok(TerminalMode { prompt, ..mode }),
            (Err(_), Some(prompt)) => Ok(TerminalMode { args: Vec::new(), prompt }),
            (terminal, None) => terminal,
        };
        Self {
            label: config.label.clone().unwrap_or(self.label),
            terminal,
            added_args: config.args.clone(),
            identity: config.identity.clone().unwrap_or(self.identity),
            env,
            acp_args: config.acp_args.clone().or(self.acp_args),
            acp_program: config.acp_program.clone().or(self.acp_program),
            acp_auth: config.acp_auth.clone().or(self.acp_auth),
            workspace_flag: config.workspace_flag.clone().or(self.workspace_flag),
            print: config.print.clone().or(self.print),
            version_args: config.version_args.clone().unwrap_or(self.version_args),
            grace_seconds: config.grace_seconds.or(self.grace_seconds),
            install_hint: config.install_hint.clone().unwrap_or(self.install_hint),
            hooks: hooks(config, self.hooks),
            rules: self.rules.changed_by(&config.rules),
            ..self
        }
    }

    /// Returns the program's arguments and the text to type once it is running. `more` are extra arguments for this
    /// session only.
    pub fn terminal_args(&self, prompt: &Prompt, more: &[String]) -> Result<TerminalArgs, Missing> {
        let mode = self.terminal.as_ref().map_err(|missing| *missing)?;
        let before = [&mode.args, &self.added_args, more].concat();
        let (mut with_prompt, mut typed) = (Vec::new(), String::new());
        if !prompt.is_empty() {
            let text = prompt.as_str().to_owned();
            match &mode.prompt {
                PromptStyle::Last => with_prompt.push(text),
                PromptStyle::AfterDashes => with_prompt.extend(["--".to_owned(), text]),
                PromptStyle::Flag(flag) => with_prompt.extend([flag.clone(), text]),
                PromptStyle::FlagEquals(flag) => with_prompt.push(format!("{flag}={text}")),
                PromptStyle::Typed => typed = text,
                PromptStyle::None => {}
            }
        }
        Ok(TerminalArgs { before, with_prompt, typed })
    }
}

/// Arguments of a program in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalArgs {
    pub before: Vec<String>,
    /// The last arguments, which contain the prompt.
    pub with_prompt: Vec<String>,
    /// Text to type once the program is running.
    pub typed: String,
}

impl TerminalArgs {
    /// Returns all arguments.
    pub fn all(self) -> Vec<String> {
        [self.before, self.with_prompt].concat()
    }
}

/// Returns the hooks of a harness that a config entry defines or changes.
fn hooks(config: &HarnessConfig, built_in: Option<&'static Hooks>) -> Option<&'static Hooks> {
    match config.hooks {
        Some(true) => Some(built_in.unwrap_or(&generic_hooks::HOOKS)),
        Some(false) => None,
        None => built_in,
    }
}

fn hint(id: &str, program: &str) -> String {
    format!("install {program} or correct harnesses.{id}.program in the config")
}

/// Default rank of a harness from the config. One that replaces a preferred agent keeps that agent's rank.
fn choice(id: &str) -> DefaultChoice {
    match agents::find(id).map(|agent| agent.default_choice) {
        Some(DefaultChoice::First) => DefaultChoice::First,
        _ => DefaultChoice::Later,
    }
}

/// Returns the harnesses of all agents that coven can start.
pub fn builtin() -> Vec<Harness> {
    launchable().map(Harness::from).collect()
}

fn launchable() -> impl Iterator<Item = &'static Agent> {
    agents::ALL.iter().copied().filter(|agent| agent.is_launchable())
}

/// Returns the built-in harnesses, then those of the config. A config entry with `program` or `like` replaces the
/// built-in harness with its id; any other entry changes it.
pub fn all(config: &BTreeMap<String, HarnessConfig>) -> Vec<Harness> {
    let built_in = launchable().filter_map(|agent| match config.get(agent.id) {
        Some(entry) if entry.is_definition() => None,
        Some(entry) => Some(Harness::from(agent).changed_by(entry)),
        None => Some(Harness::from(agent)),
    });
    let own = |(id, entry): (&String, &HarnessConfig)| match (&entry.like, &entry.program) {
        (Some(like), _) => launchable().find(|agent| agent.id == like).map(|agent| Harness::like(agent, id, entry)),
        (None, Some(program)) => Some(Harness::from_config(id, program, entry)),
        (None, None) => None,
    };
    built_in.chain(config.iter().filter_map(own)).collect()
}

fn is_built_in(id: &str) -> bool {
    launchable().any(|agent| agent.id == id)
}

/// Returns the harnesses to choose a default from: the well-known agents in the order of `ALL`, then those that the
/// config defines, then the other agents.
pub fn by_preference(harnesses: &[Harness]) -> impl Iterator<Item = &Harness> {
    let of = |choice, is_builtin| {
        harnesses.iter().filter(move |it| it.default_choice == choice && it.is_builtin == is_builtin)
    };
    let first = agents::ALL.iter().filter(|agent| agent.default_choice == DefaultChoice::First);
    let first = first.filter_map(|agent| harnesses.iter().find(|harness| harness.id == agent.id));
    first.chain(of(DefaultChoice::Later, false)).chain(of(DefaultChoice::Later, true))
}

/// A test parses the rules of every agent.
fn built_in_rules(text: &str) -> RuleSet {
    RuleSet::parse(text).unwrap_or_default()
}

pub(crate) fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_style_keeps_the_prompt_one_argument() {
        let prompt = Prompt::parse("-x; $(id) \"q\"\nline").expect("text");
        let args = |style: PromptStyle| {
            let terminal = Ok(TerminalMode { prompt: style, args: strings(&["a"]) });
            let harness = Harness { terminal, ..builtin().remove(0) };
            let args = harness.terminal_args(&prompt, &[]).expect("a terminal");
            (args.clone().all(), args.typed)
        };
        let text = prompt.as_str().to_owned();
        assert_eq!(args(PromptStyle::Last), (vec!["a".into(), text.clone()], String::new()));
        assert_eq!(args(PromptStyle::AfterDashes), (vec!["a".into(), "--".into(), text.clone()], String::new()));
        assert_eq!(args(PromptStyle::Flag("-i".into())), (vec!["a".into(), "-i".into(), text.clone()], String::new()));
        assert_eq!(args(PromptStyle::FlagEquals("-i".into())), (vec!["a".into(), format!("-i={text}")], String::new()));
        assert_eq!(args(PromptStyle::Typed), (vec!["a".into()], text));
        assert_eq!(args(PromptStyle::None), (vec!["a".into()], String::new()));
    }

    #[test]
    fn extra_arguments_precede_the_prompt() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"args":["--model","opus"]}"#).expect("no program needed");
        entry.check("codex").expect("codex is built in");
        let harnesses = all(&BTreeMap::from([("codex".to_owned(), entry.clone())]));
        let codex = harnesses.iter().find(|harness| harness.id == "codex").expect("still there");
        assert_eq!((codex.identity.as_str(), codex.is_builtin, harnesses.len()), ("codex", true, builtin().len()));
        let prompt = Prompt::parse("fix it").expect("text");
        let args = codex.terminal_args(&prompt, &["-x".to_owned()]).expect("a terminal").all();
        assert_eq!(args, ["--disable", "daemon_auto_start", "--model", "opus", "-x", "--", "fix it"]);
        assert!(entry.check("mine").expect_err("not a built-in harness").starts_with("program:"));
    }

    #[test]
    fn the_config_adds_harnesses_and_replaces_built_in_ones() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"program":"/opt/claude"}"#).expect("an entry");
        let config = BTreeMap::from([("claude".to_owned(), entry.clone()), ("mine".to_owned(), entry)]);
        let harnesses = all(&config);
        assert_eq!(harnesses.len(), builtin().len() + 1);
        let claude = harnesses.iter().find(|harness| harness.id == "claude").expect("still there");
        assert_eq!((claude.is_builtin, claude.identity.as_str()), (false, ""));
    }

    #[test]
    fn the_default_is_chosen_in_a_fixed_order_that_starts_with_claude() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"program":"/opt/x"}"#).expect("an entry");
        let config = BTreeMap::from([("claude".to_owned(), entry.clone()), ("mine".to_owned(), entry)]);
        let harnesses = all(&config);
        let order: Vec<&str> = by_preference(&harnesses).map(|harness| harness.id.as_str()).collect();
        let later = ["goose", "kimi", "qwen", "pi", "vibe"];
        assert_eq!(order, [&["claude", "codex", "gemini", "opencode", "copilot", "mine"][..], &later].concat());
    }

    #[test]
    fn an_agent_without_a_terminal_gets_one_from_the_config() {
        let prompt = Prompt::parse("fix it").expect("text");
        let cline = |config: &str| {
            let config = serde_json::from_str(config).expect("entries");
            all(&config).into_iter().find(|harness| harness.id == "cline").expect("cline supports ACP")
        };
        assert!(cline("{}").terminal_args(&prompt, &[]).expect_err("untried").0.contains("harnesses.cline.prompt"));
        let args = cline(r#"{"cline":{"prompt":"last"}}"#).terminal_args(&prompt, &[]).expect("a terminal").all();
        assert_eq!(args, ["fix it"]);
        assert!(builtin().iter().all(|harness| harness.id != "cursor"), "coven only edits its settings");
    }

    #[test]
    fn a_harness_with_like_inherits_the_keys_it_does_not_set() {
        let config = r#"{
            "wrapped": { "like": "claude", "program": "/opt/wrap", "args": ["--model", "opus"], "env": { "A": "b" } },
            "second": { "like": "gemini", "label": "Second", "graceSeconds": 9 },
            "codex": { "like": "codex", "program": "/opt/codex/bin/codex" }
        }"#;
        let harnesses = all(&serde_json::from_str(config).expect("entries"));
        let find =
            |id: &str| harnesses.iter().find(|harness| harness.id == id).cloned().expect("a harness with this id");
        let claude = Harness::from(agents::find("claude").expect("built in"));
        let expected = Harness {
            id: "wrapped".into(),
            label: "wrapped".into(),
            program: Program::Named("/opt/wrap".into()),
            added_args: strings(&["--model", "opus"]),
            identity: String::new(),
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            install_hint: "install /opt/wrap or correct harnesses.wrapped.program in the config".into(),
            is_builtin: false,
            default_choice: DefaultChoice::Later,
            ..claude
        };
        assert_eq!(find("wrapped"), expected);
        let second = find("second");
        assert_eq!((second.label.as_str(), second.grace_seconds), ("Second", Some(9.0)));
        assert_eq!((second.program, second.identity.as_str()), (Program::Named("gemini".into()), "gemini"));
        let codex = find("codex");
        let has_args = codex.terminal.is_ok_and(|mode| mode.args.len() == 2);
        assert_eq!((codex.label.as_str(), has_args, codex.acp_program.is_some()), ("Codex", true, true));
        assert_eq!(harnesses.iter().filter(|harness| harness.id == "codex").count(), 1);
        let order: Vec<&str> = by_preference(&harnesses).map(|harness| harness.id.as_str()).take(7).collect();
        assert_eq!(order, ["claude", "codex", "gemini", "opencode", "copilot", "second", "wrapped"]);
    }

    #[test]
    fn newer_keys_that_an_entry_does_not_set_are_not_serialized() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"program":"a"}"#).expect("an entry");
        let text = serde_json::to_string(&entry).expect("JSON");
        for key in ["like", "rules", "hooks"] {
            assert!(!text.contains(key), "{key}: agreements are hashes of this text");
        }
    }

    #[test]
    fn an_entry_adds_generic_hooks_or_removes_all() {
        let config = r#"{ "mine": { "program": "a", "hooks": true }, "plain": { "program": "a" } }"#;
        let harnesses = all(&serde_json::from_str(config).expect("entries"));
        let hooks = |id: &str| harnesses.iter().find(|it| it.id == id).expect("a harness with this id").hooks;
        assert_eq!((hooks("mine"), hooks("plain")), (Some(&generic_hooks::HOOKS), None));
        let own = Some(&generic_hooks::HOOKS);
        let entry = |json: &str| serde_json::from_str::<HarnessConfig>(json).expect("an entry");
        assert_eq!(super::hooks(&entry(r#"{"hooks":false}"#), own), None);
        assert_eq!(super::hooks(&entry("{}"), own), own);
    }

    #[test]
    fn check_reports_the_wrong_key() {
        let check = |json: &str| {
            serde_json::from_str::<HarnessConfig>(json).expect("well-typed").check("mine").expect_err("a mistake")
        };
        assert!(
            check(r#"{"like":"unknown"}"#).starts_with("like: \"unknown\" is not a built-in harness; known: claude, ")
        );
        assert!(check(r#"{"like":"cursor"}"#).starts_with("like:"), "coven cannot start it");
        assert!(check(r#"{"program":"my agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"./agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"a","prompt":{"flag":"i"}}"#).starts_with("prompt:"));
        assert!(check(r#"{"program":"a","env":{"LD_PRELOAD":"x"}}"#).starts_with("env:"));
        assert!(check(r#"{"program":"a","graceSeconds":-1}"#).starts_with("graceSeconds:"));
        assert!(check(r#"{"program":"a","print":{"resume":[]}}"#).starts_with("print.resume:"));
        let rule = r#"{"program":"a","rules":[{"name":"trust","on":"screen","means":"question"}]}"#;
        assert!(check(rule).starts_with("rules: trust: add a text"));
    }
}
