//! A harness: a kind of agent program, described by data.

use std::collections::BTreeMap;

use coven_domain::text::Prompt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::print_mode::{self, PrintMode};

/// How a prompt reaches the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PromptStyle {
    /// As the last argument.
    Last,
    /// As the last argument behind `--`, so that a prompt may begin with a dash.
    AfterDashes,
    /// As the value of this flag.
    Flag(String),
    /// As `--flag=prompt`, for programs whose flag takes an optional value.
    FlagEquals(String),
    /// Typed into the terminal once the program runs.
    Typed,
    /// The program takes none.
    None,
}

/// A harness as written in the config file. An entry for a built-in harness without a program changes only the keys it
/// sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HarnessConfig {
    /// The program: a name looked up in PATH, or an absolute path. May be left out for a built-in harness.
    #[serde(default)]
    pub program: Option<String>,
    #[serde(default)]
    pub label: Option<String>,
    /// Arguments before the prompt. Without a program: further arguments for the built-in harness, in a terminal and
    /// in print mode.
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

fn version_args() -> Vec<String> {
    vec!["--version".to_owned()]
}

impl HarnessConfig {
    /// What is wrong with this entry, in words.
    pub fn check(&self, id: &str) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > 64 || !id.chars().all(is_plain) {
            return Err("the id may only have letters, digits, '-', '_' and '.', at most 64 of them".to_owned());
        }
        match &self.program {
            None if !is_built_in(id) => return Err("program: name the program to run".to_owned()),
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// Looked up in the PATH of whoever asked.
    Named(String),
    /// The user's `$SHELL`, else `/bin/sh`.
    UserShell,
    /// The coven binary itself, with this hidden subcommand.
    Coven(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Harness {
    pub id: String,
    pub label: String,
    pub program: Program,
    pub args: Vec<String>,
    /// What the config adds to a built-in harness, in a terminal and in print mode.
    pub added_args: Vec<String>,
    pub prompt: PromptStyle,
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
}

impl Harness {
    fn from_config(id: &str, program: &str, config: &HarnessConfig) -> Self {
        Self {
            id: id.to_owned(),
            label: config.label.clone().unwrap_or_else(|| id.to_owned()),
            program: Program::Named(program.to_owned()),
            args: config.args.clone(),
            added_args: Vec::new(),
            prompt: config.prompt.clone().unwrap_or(PromptStyle::Typed),
            identity: config.identity.clone().unwrap_or_default(),
            env: config.env.clone(),
            acp_args: config.acp_args.clone(),
            acp_program: config.acp_program.clone(),
            acp_auth: config.acp_auth.clone(),
            workspace_flag: config.workspace_flag.clone(),
            print: config.print.clone().or_else(|| print_mode::known(id)),
            version_args: config.version_args.clone().unwrap_or_else(version_args),
            grace_seconds: config.grace_seconds,
            install_hint: config
                .install_hint
                .clone()
                .unwrap_or_else(|| format!("install {program} or correct harnesses.{id}.program in the config")),
            note: String::new(),
            is_builtin: false,
        }
    }

    /// A built-in harness with what an entry of the config changes.
    fn changed_by(self, config: &HarnessConfig) -> Self {
        let mut env = self.env;
        env.extend(config.env.clone());
        Self {
            label: config.label.clone().unwrap_or(self.label),
            added_args: config.args.clone(),
            prompt: config.prompt.clone().unwrap_or(self.prompt),
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
    pub fn terminal_args(&self, prompt: &Prompt, more: &[String]) -> (Vec<String>, String) {
        let mut args = [&self.args, &self.added_args, more].concat();
        if prompt.is_empty() {
            return (args, String::new());
        }
        let text = prompt.as_str().to_owned();
        match &self.prompt {
            PromptStyle::Last => args.push(text),
            PromptStyle::AfterDashes => args.extend(["--".to_owned(), text]),
            PromptStyle::Flag(flag) => args.extend([flag.clone(), text]),
            PromptStyle::FlagEquals(flag) => args.push(format!("{flag}={text}")),
            PromptStyle::Typed => return (args, text),
            PromptStyle::None => {}
        }
        (args, String::new())
    }
}

/// The built-in harnesses, then those of the config. An entry of the config that names a program replaces a built-in
/// harness of its id; one that names none changes it.
pub fn all(config: &BTreeMap<String, HarnessConfig>) -> Vec<Harness> {
    let own = |id: &str, entry: &HarnessConfig| {
        entry.program.as_ref().map(|program| Harness::from_config(id, program, entry))
    };
    let built_in = builtin().into_iter().filter_map(|harness| match config.get(&harness.id) {
        Some(entry) if entry.program.is_none() => Some(harness.changed_by(entry)),
        Some(_) => None,
        None => Some(harness),
    });
    built_in.chain(config.iter().filter_map(|(id, entry)| own(id, entry))).collect()
}

fn is_built_in(id: &str) -> bool {
    builtin().iter().any(|harness| harness.id == id)
}

/// The agents that are tried in this order where none is named.
const PREFERRED: [&str; 5] = ["claude", "codex", "gemini", "opencode", "copilot"];

/// Harnesses to choose a default from: the well-known agents in a fixed order, then those that only the config has.
pub fn by_preference(harnesses: &[Harness]) -> impl Iterator<Item = &Harness> {
    let preferred = PREFERRED.iter().filter_map(|id| harnesses.iter().find(|harness| harness.id == *id));
    let is_other = |harness: &&Harness| !harness.is_builtin && !PREFERRED.contains(&harness.id.as_str());
    preferred.chain(harnesses.iter().filter(is_other))
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What is known of each agent's program: see `docs/harnesses.md` for where each line comes from.
pub fn builtin() -> Vec<Harness> {
    let agent = |id: &str, label: &str, package: &str, args: &[&str], prompt: PromptStyle| Harness {
        id: id.to_owned(),
        label: label.to_owned(),
        program: Program::Named(id.to_owned()),
        args: strings(args),
        added_args: Vec::new(),
        prompt,
        identity: id.to_owned(),
        env: BTreeMap::new(),
        acp_args: None,
        acp_program: None,
        acp_auth: None,
        workspace_flag: None,
        print: print_mode::known(id),
        version_args: version_args(),
        grace_seconds: None,
        install_hint: format!("install it with: npm install -g {package}"),
        note: String::new(),
        is_builtin: true,
    };
    vec![
        Harness {
            // Claude Code speaks ACP through an adapter of its own package: @agentclientprotocol/claude-agent-acp.
            acp_program: Some("claude-agent-acp".to_owned()),
            acp_args: Some(Vec::new()),
            note: "one process; heeds SIGTERM, restores the screen and exits 143".to_owned(),
            ..agent("claude", "Claude Code", "@anthropic-ai/claude-code", &[], PromptStyle::AfterDashes)
        },
        Harness {
            // By default the terminal is only a client of a daemon that Codex shares between sessions: killing the
            // terminal would not stop the turn, and commands would see another session's environment.
            args: strings(&["--disable", "daemon_auto_start"]),
            // The adapter is a package of its own too: @agentclientprotocol/codex-acp.
            acp_program: Some("codex-acp".to_owned()),
            acp_args: Some(Vec::new()),
            note: "its shared daemon is switched off, so that a session ends with its terminal".to_owned(),
            ..agent("codex", "Codex", "@openai/codex", &[], PromptStyle::AfterDashes)
        },
        Harness {
            // Without this the launcher relaunches itself, and the parent ignores SIGTERM and SIGHUP.
            env: BTreeMap::from([("GEMINI_CLI_NO_RELAUNCH".to_owned(), "true".to_owned())]),
            acp_args: Some(strings(&["--acp"])),
            // Today's releases refuse it; it is sent to one whose help lists it.
            workspace_flag: Some("--workspace".to_owned()),
            note: "started with GEMINI_CLI_NO_RELAUNCH=true, so that one process heeds SIGTERM".to_owned(),
            ..agent(
                "gemini",
                "Gemini CLI",
                "@google/gemini-cli",
                &[],
                PromptStyle::FlagEquals("--prompt-interactive".to_owned()),
            )
        },
        Harness {
            acp_args: Some(strings(&["acp"])),
            grace_seconds: Some(8.0),
            note: "needs up to 2.5 s to end after SIGTERM, and up to 20 s to start on a busy machine".to_owned(),
            ..agent("opencode", "OpenCode", "opencode-ai", &[], PromptStyle::FlagEquals("--prompt".to_owned()))
        },
        Harness {
            acp_args: Some(strings(&["--acp"])),
            note: "the launcher has a native child; both are signalled".to_owned(),
            ..agent(
                "copilot",
                "Copilot CLI",
                "@github/copilot",
                &[],
                PromptStyle::FlagEquals("--interactive".to_owned()),
            )
        },
        Harness {
            program: Program::UserShell,
            identity: String::new(),
            install_hint: "set SHELL to an installed shell".to_owned(),
            note: "an interactive shell; a prompt is typed as its first line".to_owned(),
            ..agent("shell", "Your shell", "", &[], PromptStyle::Typed)
        },
        Harness {
            program: Program::Coven("demo-agent"),
            identity: "coven".to_owned(),
            install_hint: String::new(),
            version_args: strings(&["--version"]),
            note: "a scripted agent inside coven: shows a plan, works, asks one question, ends".to_owned(),
            ..agent("demo", "Demo agent", "", &[], PromptStyle::AfterDashes)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_style_keeps_the_prompt_one_argument() {
        let prompt = Prompt::parse("-x; $(id) \"q\"\nline").expect("text");
        let args = |style: PromptStyle| {
            let harness = Harness { prompt: style, args: strings(&["a"]), ..builtin().remove(0) };
            harness.terminal_args(&prompt, &[])
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
        let (args, _) = codex.terminal_args(&prompt, &["-x".to_owned()]);
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
        assert_eq!(order, ["claude", "codex", "gemini", "opencode", "copilot", "mine"]);
    }

    #[test]
    fn mistakes_in_an_entry_are_told() {
        let check = |json: &str| {
            serde_json::from_str::<HarnessConfig>(json).expect("well-typed").check("mine").expect_err("a mistake")
        };
        assert!(check(r#"{"program":"my agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"./agent"}"#).starts_with("program:"));
        assert!(check(r#"{"program":"a","prompt":{"flag":"i"}}"#).starts_with("prompt:"));
        assert!(check(r#"{"program":"a","env":{"LD_PRELOAD":"x"}}"#).starts_with("env:"));
        assert!(check(r#"{"program":"a","graceSeconds":-1}"#).starts_with("graceSeconds:"));
        assert!(check(r#"{"program":"a","print":{"resume":[]}}"#).starts_with("print.resume:"));
    }
}
