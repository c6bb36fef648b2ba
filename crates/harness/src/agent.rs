//! Describes an agent program as data: its name, how to start it, and its capabilities.

use std::fmt;

use crate::hooks::Hooks;
use crate::launch::{Program, PromptStyle};
use crate::print_mode::{PrintPrompt, Rules};
use crate::settings_file::McpEntry;
#[cfg(feature = "trial")]
use crate::trial::Trial;

/// Everything that coven knows about one agent program.
#[derive(Debug)]
pub struct Agent {
    /// Id of its harness, and the name of its program if it has one.
    pub id: &'static str,
    pub label: &'static str,
    /// Hint shown if the program is not installed.
    pub install: &'static str,
    pub program: Program<&'static str>,
    /// Text that the command line of the running process contains; not checked if empty.
    pub identity: &'static str,
    /// Extra environment variables.
    pub env: &'static [(&'static str, &'static str)],
    pub version_args: &'static [&'static str],
    /// Seconds between SIGTERM and SIGKILL, if the default does not suit the agent.
    pub grace_seconds: Option<f64>,
    /// Note for users about running the agent under coven.
    pub note: &'static str,
    pub default_choice: DefaultChoice,
    pub terminal: Capability<Terminal>,
    pub acp: Capability<Acp>,
    pub print: Capability<Print>,
    pub mcp: Capability<McpEntry>,
    /// How the agent reports to coven what it does.
    pub hooks: Capability<&'static Hooks>,
    /// The agent's `screen.toml`, if it has rules for its screen and its signals.
    pub rules: Option<&'static str>,
    /// Data for the trials with the real program; `None` without trials.
    #[cfg(feature = "trial")]
    pub trial: Option<Trial>,
}

/// A capability of an agent, or the reason why coven does not offer it.
pub type Capability<T> = Result<T, Missing>;

/// Reason why a capability is missing: a sentence without initial capital and final period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub &'static str);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Rank of an agent when the user names none and several are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultChoice {
    /// Before the harnesses that only the config defines.
    First,
    /// After them.
    Later,
    Never,
}

/// How to start an agent in a terminal.
#[derive(Debug)]
pub struct Terminal {
    /// Arguments before the prompt.
    pub args: &'static [&'static str],
    pub prompt: PromptStyle<&'static str>,
}

/// How to start an agent that uses ACP on its standard streams.
#[derive(Debug)]
pub struct Acp {
    /// Separate program that provides ACP for the agent.
    pub adapter: Option<Adapter>,
    pub args: &'static [&'static str],
    /// Flag for the workspace folder; passed only if the program's `--help` lists it.
    pub workspace_flag: Option<&'static str>,
}

/// A separate program that provides ACP for an agent.
#[derive(Debug)]
pub struct Adapter {
    pub program: &'static str,
    /// Package that contains the program.
    pub package: &'static str,
}

impl Acp {
    /// The agent supports ACP itself if started with these arguments.
    pub const fn with_args(args: &'static [&'static str]) -> Self {
        Self { adapter: None, args, workspace_flag: None }
    }

    pub const fn by_adapter(program: &'static str, package: &'static str) -> Self {
        Self { adapter: Some(Adapter { program, package }), args: &[], workspace_flag: None }
    }
}

/// How to start an agent that answers one prompt and exits.
#[derive(Debug)]
pub struct Print {
    /// Arguments for the first turn.
    pub args: &'static [&'static str],
    pub resume: Resume,
    pub prompt: PrintPrompt<&'static str>,
    /// How to parse the lines that the agent prints.
    pub rules: &'static Rules,
    /// Extra arguments that pass an agent's `{instructions}`. If empty, coven prepends them to the first prompt.
    pub instructions: &'static [&'static str],
    /// Extra arguments for a workflow step.
    pub step_args: &'static [&'static str],
    /// Folder with the program's own agent definitions, and the arguments that select `{agent}`.
    pub own_agents: Option<(&'static str, &'static [&'static str])>,
}

/// How a later turn resumes the agent's own session.
#[derive(Debug)]
pub enum Resume {
    /// The arguments for the first turn, then this flag and the id.
    Flag(&'static str),
    /// These arguments instead, with `{session}` for the id.
    Args(&'static [&'static str]),
}

impl Print {
    /// Print mode with the prompt on standard input and no optional features.
    pub const fn new(rules: &'static Rules, args: &'static [&'static str], resume: Resume) -> Self {
        let prompt = PrintPrompt::Stdin;
        Self { args, resume, prompt, rules, instructions: &[], step_args: &[], own_agents: None }
    }
}

impl Agent {
    /// Returns whether coven can start the agent in any mode.
    pub const fn is_launchable(&self) -> bool {
        self.terminal.is_ok() || self.acp.is_ok() || self.print.is_ok()
    }

    /// Lists the missing capabilities with their reasons.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, Missing)> {
        let all = [
            ("terminal", self.terminal.as_ref().err()),
            ("ACP", self.acp.as_ref().err()),
            ("print mode", self.print.as_ref().err()),
            ("MCP settings", self.mcp.as_ref().err()),
            ("hooks", self.hooks.as_ref().err()),
        ];
        all.into_iter().filter_map(|(name, missing)| Some((name, *missing?)))
    }
}
