//! An agent program, described by data: what it is called, how it is started, and what it can do.

use std::fmt;

use crate::launch::{Program, PromptStyle};
use crate::print_mode::{PrintPrompt, Rules};
use crate::settings_file::McpEntry;
#[cfg(feature = "trial")]
use crate::trial::Trial;

/// Everything that coven knows about one agent program.
#[derive(Debug)]
pub struct Agent {
    /// The id of its harness. A named program has the same name.
    pub id: &'static str,
    pub label: &'static str,
    /// What to do when it is not installed.
    pub install: &'static str,
    pub program: Program<&'static str>,
    /// A part of the command line of its living process; empty: not checked.
    pub identity: &'static str,
    /// Variables to add to its environment.
    pub env: &'static [(&'static str, &'static str)],
    pub version_args: &'static [&'static str],
    /// Seconds between SIGTERM and SIGKILL, where the usual time does not fit.
    pub grace_seconds: Option<f64>,
    /// What its users should know about how it runs under coven.
    pub note: &'static str,
    pub default_choice: DefaultChoice,
    pub terminal: Capability<Terminal>,
    pub acp: Capability<Acp>,
    pub print: Capability<Print>,
    pub mcp: Capability<McpEntry>,
    /// What the trials with the real program need; none where it is not tried.
    #[cfg(feature = "trial")]
    pub trial: Option<Trial>,
}

/// Something an agent can do, or the reason why coven does not offer it.
pub type Capability<T> = Result<T, Missing>;

/// Why a capability is missing, as a sentence without its capital letter and full stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub &'static str);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// When an agent is the default, if the user names none and several are installed.
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

/// How to start an agent that speaks ACP on its standard streams.
#[derive(Debug)]
pub struct Acp {
    /// The program that speaks ACP for it, where that is another one.
    pub adapter: Option<Adapter>,
    pub args: &'static [&'static str],
    /// The flag that names the workspace; sent if the program's own help lists it.
    pub workspace_flag: Option<&'static str>,
}

/// A program that speaks ACP for an agent.
#[derive(Debug)]
pub struct Adapter {
    pub program: &'static str,
    /// The package that has it.
    pub package: &'static str,
}

impl Acp {
    /// The agent itself, with these arguments.
    pub const fn with_args(args: &'static [&'static str]) -> Self {
        Self { adapter: None, args, workspace_flag: None }
    }

    pub const fn by_adapter(program: &'static str, package: &'static str) -> Self {
        Self { adapter: Some(Adapter { program, package }), args: &[], workspace_flag: None }
    }
}

/// How an agent answers one prompt and ends.
#[derive(Debug)]
pub struct Print {
    /// Arguments of a first turn.
    pub args: &'static [&'static str],
    pub resume: Resume,
    pub prompt: PrintPrompt<&'static str>,
    /// How to read the lines that it prints.
    pub rules: &'static Rules,
    /// Further arguments that tell it an agent's `{instructions}`; empty: they stand in front of the first prompt.
    pub instructions: &'static [&'static str],
    /// Further arguments of a step of a workflow.
    pub step_args: &'static [&'static str],
    /// The folder of agents that it knows by name, and the arguments that choose `{agent}`.
    pub own_agents: Option<(&'static str, &'static [&'static str])>,
}

/// How a later turn names the agent's own session.
#[derive(Debug)]
pub enum Resume {
    /// The arguments of a first turn, then this flag and the id.
    Flag(&'static str),
    /// These arguments instead, with `{session}` for the id.
    Args(&'static [&'static str]),
}

impl Print {
    /// A prompt on standard input, and nothing special.
    pub const fn new(rules: &'static Rules, args: &'static [&'static str], resume: Resume) -> Self {
        let prompt = PrintPrompt::Stdin;
        Self { args, resume, prompt, rules, instructions: &[], step_args: &[], own_agents: None }
    }
}

impl Agent {
    /// Whether coven can start it at all.
    pub const fn is_launchable(&self) -> bool {
        self.terminal.is_ok() || self.acp.is_ok() || self.print.is_ok()
    }

    /// What it lacks, with the reasons.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, Missing)> {
        let all = [
            ("terminal", self.terminal.as_ref().err()),
            ("ACP", self.acp.as_ref().err()),
            ("print mode", self.print.as_ref().err()),
            ("MCP settings", self.mcp.as_ref().err()),
        ];
        all.into_iter().filter_map(|(name, missing)| Some((name, *missing?)))
    }
}
