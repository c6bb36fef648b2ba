//! What the trials with real agent programs need to know about an agent: its package, its settings for the stub model,
//! and what it is known not to do.

use std::path::Path;

/// How an agent is tried. It is tried over each channel for which there is an entry.
#[derive(Debug)]
pub struct Trial {
    pub package: Package,
    /// The program, below the folder of its package.
    pub program: &'static str,
    /// What makes it run against the stub model without asking.
    pub settings: fn(&Surroundings) -> Settings,
    pub terminal: Option<TerminalTrial>,
    /// Several where more than one adapter speaks ACP for it.
    pub acp: &'static [AcpTrial],
    pub print: Option<PrintTrial>,
    pub mcp: Option<McpTrial>,
}

/// What an installer brings.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Its folder in the cache.
    pub folder: &'static str,
    pub source: Source,
    /// The version to install where the newest one does not work.
    pub version: Option<&'static str>,
}

#[derive(Debug, Clone, Copy)]
pub enum Source {
    Npm(&'static str),
    Pip(&'static str),
}

impl Package {
    pub const fn npm(folder: &'static str, name: &'static str) -> Self {
        Self { folder, source: Source::Npm(name), version: None }
    }

    pub const fn pip(folder: &'static str, name: &'static str) -> Self {
        Self { folder, source: Source::Pip(name), version: None }
    }
}

/// Where an agent runs.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub project: &'a Path,
    /// The stub model, as `http://127.0.0.1:PORT`.
    pub model_url: &'a str,
}

/// What an agent must find in its home and its environment.
#[derive(Debug, Default)]
pub struct Settings {
    pub env: Vec<(&'static str, String)>,
    /// Path below the home, content.
    pub files: Vec<(&'static str, String)>,
}

/// The key for the stub model. Some agents blank it out wherever it appears, so it is not a word that a screen would show.
pub const KEY: &str = "sk-fake-0000000000000000000000";

#[derive(Debug)]
pub struct TerminalTrial {
    pub first_prompt: FirstPrompt,
    /// What it cannot do, whatever coven does.
    pub limit: Option<&'static str>,
}

/// How the first prompt gets to an agent in a terminal.
#[derive(Debug)]
pub enum FirstPrompt {
    /// With `coven run`.
    Argument,
    /// By hand, once the dialog is answered with Enter and the screen shows that the agent is ready.
    Typed { dialog: &'static str, ready: &'static str },
}

impl TerminalTrial {
    pub const fn limited(limit: &'static str) -> Self {
        Self { first_prompt: FirstPrompt::Argument, limit: Some(limit) }
    }
}

#[derive(Debug)]
pub struct AcpTrial {
    /// The name by which `--agents` picks it.
    pub name: &'static str,
    /// The first brings the program, the others what it calls; none: the agent's own package.
    pub packages: &'static [Package],
    /// The program, below the folder of its package.
    pub program: &'static str,
    /// A part of the command line of its living process.
    pub identity: &'static str,
    pub opening: Opening,
    pub asking: Asking,
    pub telling: Telling,
    pub cancelling: Cancelling,
    pub loading: Loading,
    pub limit: Option<&'static str>,
}

impl AcpTrial {
    pub const fn new(name: &'static str, packages: &'static [Package], program: &'static str) -> Self {
        Self {
            name,
            packages,
            program,
            identity: name,
            opening: Opening::Opens,
            asking: Asking::Always,
            telling: Telling::Output,
            cancelling: Cancelling::SaysCancelled,
            loading: Loading::AtOnce,
            limit: None,
        }
    }
}

/// How an agent answers `session/new`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    Opens,
    /// It needs an account of its vendor, which the stub model cannot replace.
    WantsAccount,
}

/// When an agent asks before it runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    Always,
    /// Only if the model wants to leave the sandbox.
    WhenEscalated,
    /// The same, and only in this mode.
    WhenEscalatedIn(&'static str),
    Never,
}

impl Asking {
    /// The command of the stub model that makes the agent ask.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Always | Self::Never => "run",
            Self::WhenEscalated | Self::WhenEscalatedIn(_) => "escalate",
        }
    }
}

/// What an agent reports about a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// What it printed, or the client ran it.
    Output,
    Nothing,
}

/// The stop reason that an agent gives for a cancelled turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelling {
    SaysCancelled,
    /// Cancels, and in some versions calls it `end_turn`.
    MaySayEndTurn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    AtOnce,
    /// A load in the minute in which the session was opened destroys it.
    FromTheNextMinute,
}

#[derive(Debug)]
pub struct PrintTrial {
    pub streaming: Streaming,
    pub counting: Counting,
    pub failing: Failing,
}

impl PrintTrial {
    pub const USUAL: Self =
        Self { streaming: Streaming::AsItComes, counting: Counting::Told, failing: Failing::ExitsNonzero };
}

/// When an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    AsItComes,
    WholeMessages,
}

/// Whether an agent reports how many tokens a turn took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Told,
    NotTold,
}

/// How an agent ends when the model does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    ExitsNonzero,
    /// With 0, and an error in place of an answer.
    SaysSo,
    /// With 0, and an answer that mentions the error.
    AnswersIt,
}

/// An agent with `coven mcp` in its own settings.
#[derive(Debug)]
pub struct McpTrial {
    /// What makes it work off one prompt without asking for permission.
    pub args: &'static [&'static str],
    pub prompt: PromptBy,
    /// What it calls the tool towards its model.
    pub tool: &'static str,
    pub limit: Option<&'static str>,
}

impl McpTrial {
    pub const fn new(tool: &'static str, args: &'static [&'static str]) -> Self {
        Self { args, prompt: PromptBy::Argument, tool, limit: None }
    }
}

/// How the prompt gets to an agent that works off one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    Argument,
    /// On standard input: the agent changes quotes in arguments.
    Input,
}
