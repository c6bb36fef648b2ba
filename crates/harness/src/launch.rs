//! A harness: a kind of agent program, described by data.

use std::collections::BTreeMap;

use coven_domain::text::Prompt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, DefaultChoice, Missing};
use crate::agents;
use crate::print_mode::{self, PrintMode};

/// How a prompt reaches the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PromptStyle")]
pub enum PromptStyle<S = String> {
    /// As the last argument.
    Last,
    /// As the last argument behind `--`, so that a prompt may begin with a dash.
    AfterDashes,
    /// As the value of this flag.
    Flag(S),
    /// As `--flag=prompt`, for programs whose flag takes an optional value.
    FlagEquals(S),
    /// Typed into the terminal once the program runs.
    Typed,
    /// The program takes none.
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

/// A harness as written in the config file. An entry for a built-in harness without a program changes only the keys it
/// sets, and so does an entry with `like`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarnessConfig {
    /// The id of a built-in harness: this one takes everything from it except its id and label, and changes the keys
    /// that are set. For another name, another path or a wrapper of an agent.
    // Not written where it is unset: the user's agreement to an entry is a hash of all that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The program: a name looked up in PATH, or an absolute path. May be left out for a built-in harness, and with
    /// `like`.
    #[serde(default)]
    pub program: Option<String>,
    #[serde(default)]
    pub label: Option<String>,
    /// Arguments before the prompt. Without a program, or with `like`: further arguments for the built-in harness, in
    /// a terminal and in print mode.
    #[serde(default)]
    pub args: Vec<String>,
    /// How a prompt reaches the program in a terminal; typed if left out.
    #[serde(default)]
    pub prompt: Option<PromptStyle>,
    /// What the command line of the living process contains, asked when a restarted daemon takes it over; not asked if
    /// left out.
    #[serde(default)]
    pub identity: Option<String>,
    /// Variables to add to the environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Arguments that make it speak ACP on its standard streams.
    #[serde(default)]
    pub acp_args: Option<Vec<String>>,
    /// The program that speaks ACP for it, where that is another one.
    #[serde(default)]
    pub acp_program: Option<String>,
    /// The authentication method to use when the agent asks for one; the first that it offers if left out.
    #[serde(default)]
    pub acp_auth: Option<String>,
    /// The flag that names the workspace; sent if the program's own help lists it.
    #[serde(default)]
    pub workspace_flag: Option<String>,
    /// How it answers one prompt and ends, for conversations; what is known of a harness of this id if left out.
    #[serde(default)]
    pub print: Option<PrintMode>,
    /// Arguments that make it print its version; `--version` if left out.
    #[serde(default)]
    pub version_args: Option<Vec<String>>,
    /// Seconds between SIGTERM and SIGKILL; the config's `sessions.killGraceSeconds` if left out.
    #[serde(default)]
    pub grace_seconds: Option<f64>,
    /// What to do when it is not installed.
    #[serde(default)]
    pub install_hint: Option<String>,
}

impl HarnessConfig {
    /// Whether it stands for itself, rather than change a built-in harness of its id.
    fn is_definition(&self) -> bool {
        self.program.is_some() || self.like.is_some()
    }

    /// What is wrong with this entry, in words.
    pub fn check(&self, id: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > 64 || !id.chars().all(is_plain) {
            return Err("the id may only have letters, digits, '-', '_' and '.', at most 64 of them".to_owned());
        }
        if let Some(like) = &self.like
            && !is_built_in(like)
        {
            let known = agents::ids(Agent::is_launchable).join(", ");
            return Err(format!("like: {like:?} is not a built-in harness; known: {known}"));
        }
        match &self.program {
            None if self.like.is_none() && !is_built_in(id) => {
                return Err("program: name the program to run".to_owned());
            }
            Some(program) if program.is_empty() || program.contains(char::is_whitespace) => {
                return Err("program: name one program; its arguments go into args".to_owned());
            }
            Some(program) if program.contains('/') && !program.starts_with('/') => {
                return Err("program: give a name to look up in PATH or an absolute path".to_owned());
            }
            Some(_) | None => {}
        }
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return Err("args: an argument cannot hold a NUL byte".to_owned());
        }
        if let Some(PromptStyle::Flag(flag) | PromptStyle::FlagEquals(flag)) = &self.prompt
            && !flag.starts_with('-')
        {
            return Err(format!("prompt: {flag:?} is not a flag"));
        }
        if let Some(name) =
            self.env.keys().find(|name| name.starts_with("LD_") || name.contains('=') || name.is_empty())
        {
            return Err(format!("env: {name:?} cannot be set"));
        }
        if let Some(print) = &self.print {
            print.check()?;
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
    /// Looked up in the PATH of whoever asked.
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

/// How a harness is started in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalMode {
    /// Arguments before the prompt.
    pub args: Vec<String>,
    pub prompt: PromptStyle,
}

/// An agent program as it is started: built in, from the config, or built in and changed by the config.
#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    pub id: String,
    pub label: String,
    pub program: Program,
    pub terminal: Result<TerminalMode, Missing>,
    /// What the config adds to a built-in harness, in a terminal and in print mode.
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
    /// What its users should know about how it runs under coven.
    pub note: String,
    pub is_builtin: bool,
    pub default_choice: DefaultChoice,
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
        }
    }

    /// Another harness with the facts of an agent, as an entry with `like` describes it.
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
            // Its process may have another name than the agent's.
            harness.identity = String::new();
        }
        harness.changed_by(config)
    }

    /// A built-in harness with what an entry of the config changes.
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
            ..self
        }
    }

    /// The arguments behind the program, and what to type once it runs. `more` are arguments of this call only.
    pub fn terminal_args(&self, prompt: &Prompt, more: &[String]) -> Result<(Vec<String>, String), Missing> {
        let mode = self.terminal.as_ref().map_err(|missing| *missing)?;
        let mut args = [&mode.args, &self.added_args, more].concat();
        if prompt.is_empty() {
            return Ok((args, String::new()));
        }
        let text = prompt.as_str().to_owned();
        match &mode.prompt {
            PromptStyle::Last => args.push(text),
            PromptStyle::AfterDashes => args.extend(["--".to_owned(), text]),
            PromptStyle::Flag(flag) => args.extend([flag.clone(), text]),
            PromptStyle::FlagEquals(flag) => args.push(format!("{flag}={text}")),
            PromptStyle::Typed => return Ok((args, text)),
            PromptStyle::None => {}
        }
        Ok((args, String::new()))
    }
}

fn hint(id: &str, program: &str) -> String {
    format!("install {program} or correct harnesses.{id}.program in the config")
}

/// When a harness of the config is the default: an agent that coven prefers keeps its place.
fn choice(id: &str) -> DefaultChoice {
    match agents::find(id).map(|agent| agent.default_choice) {
        Some(DefaultChoice::First) => DefaultChoice::First,
        _ => DefaultChoice::Later,
    }
}

/// The agents that coven can start.
pub fn builtin() -> Vec<Harness> {
    launchable().map(Harness::from).collect()
}

fn launchable() -> impl Iterator<Item = &'static Agent> {
    agents::ALL.iter().copied().filter(|agent| agent.is_launchable())
}

/// The built-in harnesses, then those of the config. An entry of the config that names a program, or another harness
/// that it is like, replaces a built-in harness of its id; any other changes it.
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

/// Harnesses to choose a default from: the well-known agents in the order of `ALL`, then those that the config defines,
/// then the other agents.
pub fn by_preference(harnesses: &[Harness]) -> impl Iterator<Item = &Harness> {
    let of = |choice, is_builtin| {
        harnesses.iter().filter(move |it| it.default_choice == choice && it.is_builtin == is_builtin)
    };
    let first = agents::ALL.iter().filter(|agent| agent.default_choice == DefaultChoice::First);
    let first = first.filter_map(|agent| harnesses.iter().find(|harness| harness.id == agent.id));
    first.chain(of(DefaultChoice::Later, false)).chain(of(DefaultChoice::Later, true))
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
            harness.terminal_args(&prompt, &[]).expect("a terminal")
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
    fn arguments_of_the_config_and_of_a_call_stand_before_the_prompt() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"args":["--model","opus"]}"#).expect("no program needed");
        entry.check("codex").expect("codex is built in");
        let harnesses = all(&BTreeMap::from([("codex".to_owned(), entry.clone())]));
        let codex = harnesses.iter().find(|harness| harness.id == "codex").expect("still there");
        assert_eq!((codex.identity.as_str(), codex.is_builtin, harnesses.len()), ("codex", true, builtin().len()));
        let prompt = Prompt::parse("fix it").expect("text");
        let (args, _) = codex.terminal_args(&prompt, &["-x".to_owned()]).expect("a terminal");
        assert_eq!(args, ["--disable", "daemon_auto_start", "--model", "opus", "-x", "--", "fix it"]);
        assert!(entry.check("mine").expect_err("it is not built in").starts_with("program:"));
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
            all(&config).into_iter().find(|harness| harness.id == "cline").expect("it speaks ACP")
        };
        assert!(cline("{}").terminal_args(&prompt, &[]).expect_err("untried").0.contains("harnesses.cline.prompt"));
        let (args, _) = cline(r#"{"cline":{"prompt":"last"}}"#).terminal_args(&prompt, &[]).expect("a terminal");
        assert_eq!(args, ["fix it"]);
        assert!(builtin().iter().all(|harness| harness.id != "cursor"), "only its settings are known");
    }

    #[test]
    fn a_harness_like_another_takes_what_it_does_not_set() {
        let config = r#"{
            "wrapped": { "like": "claude", "program": "/opt/wrap", "args": ["--model", "opus"], "env": { "A": "b" } },
            "second": { "like": "gemini", "label": "Second", "graceSeconds": 9 },
            "codex": { "like": "codex", "program": "/opt/codex/bin/codex" }
        }"#;
        let harnesses = all(&serde_json::from_str(config).expect("entries"));
        let find = |id: &str| harnesses.iter().find(|harness| harness.id == id).cloned().expect("it is there");
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
    fn an_entry_without_like_is_written_as_before() {
        let entry: HarnessConfig = serde_json::from_str(r#"{"program":"a"}"#).expect("an entry");
        assert!(!serde_json::to_string(&entry).expect("JSON").contains("like"), "agreements hold for the same text");
    }

    #[test]
    fn mistakes_in_an_entry_are_told() {
        let check = |json: &str| {
            serde_json::from_str::<HarnessConfig>(json).expect("well-typed").check("mine").expect_err("a mistake")
        };
        assert!(
            check(r#"{"like":"nobody"}"#).starts_with("like: \"nobody\" is not a built-in harness; known: claude, ")
        );
        assert!(check(r#"{"like":"cursor"}"#).starts_with("like:"), "coven cannot start it");
        assert!(check(r#"{"program":"my agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"./agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"a","prompt":{"flag":"i"}}"#).starts_with("prompt:"));
        assert!(check(r#"{"program":"a","env":{"LD_PRELOAD":"x"}}"#).starts_with("env:"));
        assert!(check(r#"{"program":"a","graceSeconds":-1}"#).starts_with("graceSeconds:"));
        assert!(check(r#"{"program":"a","print":{"resume":[]}}"#).starts_with("print.resume:"));
    }
}
