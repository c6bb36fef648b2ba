//! Data for the trials with real agent programs: the package, the settings for the stub model, and known limits.

use std::path::Path;

use serde_json::{Map, Value};

/// Trial data of one agent. The agent is tried over each channel that has an entry.
#[derive(Debug)]
pub struct Trial {
    pub package: Package,
    /// Path of the program in the folder of its package.
    pub program: &'static str,
    /// Settings that make the agent use the stub model without asking.
    pub settings: fn(&Surroundings) -> Settings,
    pub terminal: Option<TerminalTrial>,
    /// One entry per ACP adapter.
    pub acp: &'static [AcpTrial],
    pub print: Option<PrintTrial>,
    pub mcp: Option<McpTrial>,
    pub activity: Option<ActivityTrial>,
}

/// A package to install.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Folder in the cache.
    pub folder: &'static str,
    pub source: Source,
    /// Version to install if the newest one does not work.
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

/// The environment in which an agent runs.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub project: &'a Path,
    /// Address of the stub model: `http://127.0.0.1:PORT`.
    pub model_url: &'a str,
}

/// Files and environment variables that an agent needs.
#[derive(Debug, Default)]
pub struct Settings {
    pub env: Vec<(&'static str, String)>,
    /// Path relative to the home, and content.
    pub files: Vec<(&'static str, String)>,
}

/// API key for the stub model. Some agents mask it everywhere, so it must not occur in normal screen text.
pub const KEY: &str = "sk-fake-0000000000000000000000";

#[derive(Debug)]
pub struct TerminalTrial {
    pub first_prompt: FirstPrompt,
    /// Limit of the agent that coven cannot work around.
    pub limit: Option<&'static str>,
}

/// How the first prompt reaches an agent in a terminal.
#[derive(Debug)]
pub enum FirstPrompt {
    /// As an argument of `coven run`.
    Argument,
    /// Typed by the trial, after it answered the dialog with Enter and the screen shows `ready`.
    Typed { dialog: &'static str, ready: &'static str },
}

impl TerminalTrial {
    pub const fn limited(limit: &'static str) -> Self {
        Self { first_prompt: FirstPrompt::Argument, limit: Some(limit) }
    }
}

#[derive(Debug)]
pub struct AcpTrial {
    /// Name that selects this trial with `--agents`.
    pub name: &'static str,
    /// The first package contains the program, the others its dependencies. If empty, the agent's own package is used.
    pub packages: &'static [Package],
    /// Path of the program in the folder of its package.
    pub program: &'static str,
    /// Text that the command line of the running process contains.
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
    /// The agent needs a vendor account, which the stub model cannot replace.
    WantsAccount,
}

/// When an agent asks for permission to run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    Always,
    /// Only if the model requests to leave the sandbox.
    WhenEscalated,
    /// The same, and only in this mode.
    WhenEscalatedIn(&'static str),
    Never,
}

impl Asking {
    /// Returns the stub model's command that makes the agent ask.
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
    /// The command's output, or the client ran the command.
    Output,
    Nothing,
}

/// Stop reason that an agent reports for a cancelled turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelling {
    SaysCancelled,
    /// Cancels, but some versions report `end_turn`.
    MaySayEndTurn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    AtOnce,
    /// Loading a session within the minute of its creation destroys it.
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

/// Whether an agent reports the tokens of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Told,
    NotTold,
}

/// How an agent exits if the model does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    ExitsNonzero,
    /// With 0 and an error instead of an answer.
    SaysSo,
    /// With 0 and an answer that mentions the error.
    AnswersIt,
}

/// Trial of an agent with `coven mcp` in its settings.
#[derive(Debug)]
pub struct McpTrial {
    /// Arguments that make the agent process one prompt without asking for permission.
    pub args: &'static [&'static str],
    pub prompt: PromptBy,
    /// Name of the tool that the agent sends to its model.
    pub tool: &'static str,
    pub limit: Option<&'static str>,
}

impl McpTrial {
    pub const fn new(tool: &'static str, args: &'static [&'static str]) -> Self {
        Self { args, prompt: PromptBy::Argument, tool, limit: None }
    }
}

/// How the prompt reaches an agent that processes one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    Argument,
    /// On standard input, because the agent changes quotes in arguments.
    Input,
}

/// Trial of what coven knows about an agent in a terminal. An `Err` is the reason why the agent does not have that step.
#[derive(Debug)]
pub struct ActivityTrial {
    /// Arguments that make the agent ask for permission.
    pub args: &'static [&'static str],
    pub start: FirstPrompt,
    /// A prompt at the launch, for an agent that does not start without one.
    pub prompt: Option<&'static str>,
    /// The stub model's script for an answer of sixteen chunks.
    pub working: &'static str,
    /// The stub model's verb that makes the agent ask for permission.
    pub asking: Result<&'static str, &'static str>,
    /// Keys that allow the request in the agent's dialog.
    pub accept: &'static str,
    /// The agent accepts answers to permissions from the inbox.
    pub inbox: Result<(), &'static str>,
    pub question: Result<Question, &'static str>,
    /// Keys that interrupt a turn, one after the other.
    pub interrupt: &'static [&'static str],
    /// Keys that remove an interrupted prompt, which the agent puts back into its input line.
    pub clear: Option<&'static str>,
    pub limit: LimitTrial,
    /// Changes the settings for this trial: adds a hook of the user that runs when a turn ends, and restores the number of
    /// retries that the agent has by default.
    pub prepare: Result<Prepare, &'static str>,
    /// Settings files that the agent itself rewrites, with and without coven.
    pub rewrites: &'static [&'static str],
    /// At most one step may be unknown.
    pub is_bound: bool,
}

pub type Prepare = fn(&OwnHook<'_>, &mut Settings);

/// How the agent asks a question in the trial, and how it is answered.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// Keys that change to the mode in which the agent may ask, and then back.
    pub mode_keys: Option<&'static str>,
    pub answer: QuestionAnswer,
}

#[derive(Debug, Clone, Copy)]
pub enum QuestionAnswer {
    /// In the terminal, with these keys, one after the other.
    Keys(&'static [&'static str]),
    Inbox,
}

/// What an agent shows of a request that the model refused with 429.
#[derive(Debug, Clone, Copy)]
pub struct LimitTrial {
    /// Text that the screen has as soon as the agent shows the refusal.
    pub refusal: &'static str,
    /// Why the screen does not have it for minutes, if so.
    pub is_hidden: Option<&'static str>,
}

/// A hook of the user, beside those of coven.
#[derive(Debug)]
pub struct OwnHook<'a> {
    pub home: &'a Path,
    /// File that the hook creates.
    pub marker: &'a Path,
}

impl OwnHook<'_> {
    /// Returns a shell command that creates the marker.
    pub fn command(&self) -> String {
        format!("touch '{}'", self.marker.display())
    }
}

impl Settings {
    /// Sets a key of a JSON file, which is created if needed.
    pub fn set_json(&mut self, name: &'static str, key: &str, value: Value) {
        let known = self.files.iter_mut().find(|(file, _)| *file == name);
        let mut content: Value = known.as_ref().map_or_else(
            || Value::Object(Map::new()),
            |(_, text)| serde_json::from_str(text).expect("settings of a trial are valid JSON"),
        );
        content[key] = value;
        match known {
            Some((_, text)) => *text = content.to_string(),
            None => self.files.push((name, content.to_string())),
        }
    }
}

impl ActivityTrial {
    /// Returns the trial of an agent that asks before every command, is answered with Enter and shows refusals.
    pub const fn new(prepare: Result<Prepare, &'static str>, refusal: &'static str) -> Self {
        Self {
            args: &[],
            start: FirstPrompt::Argument,
            prompt: None,
            working: "slow 16 250",
            asking: Ok("run"),
            accept: "\r",
            inbox: Ok(()),
            question: Ok(Question { mode_keys: None, answer: QuestionAnswer::Keys(&["\r"]) }),
            interrupt: &["\x1b"],
            clear: None,
            limit: LimitTrial { refusal, is_hidden: None },
            prepare,
            rewrites: &[],
            is_bound: false,
        }
    }
}
