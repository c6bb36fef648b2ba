//! One turn: what it needs, how it may end, and how it runs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use coven_domain::text::MAX_PROMPT_BYTES;
use coven_harness::print_mode::{
    ANSWER, AgentBrief, Answer, PrintCall, PrintPrompt, PrintSession, PrintTurn, Usage, is_session_id,
};

use super::cancel::Cancel;
use super::child::Agent;
use super::exchange::{Exchange, Over};
use super::tail::Tail;
use super::tool::PrintHarness;
use crate::agent_definitions::AgentDefinition;

#[derive(Debug, Clone)]
pub struct TurnSpec<'a> {
    pub harness: &'a PrintHarness,
    /// The new message if `session` is given, else the conversation so far with the new message at its end.
    pub prompt: &'a str,
    /// The harness's own session to go on with; ignored by one that cannot resume.
    pub session: Option<&'a str>,
    /// What the earlier turns of that session took together: some harnesses count a session and not a turn.
    pub used_before: Option<Usage>,
    pub agent: Option<&'a AgentDefinition>,
    /// Arguments for the harness beside those of the config.
    pub more_args: &'a [String],
    pub cwd: &'a Path,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDone {
    /// The answer, without white space at its end; as far as it came if the turn was interrupted.
    pub text: String,
    /// What a later turn resumes.
    pub harness_session: Option<String>,
    /// Real numbers, where the harness tells them.
    pub usage: Option<Usage>,
    pub status: TurnStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    Completed,
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("the program {} is gone; install it again or choose another tool", program.display())]
    Missing { program: PathBuf },
    #[error("the working folder {} is gone", cwd.display())]
    NoFolder { cwd: PathBuf },
    #[error("{} cannot be started", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{id:?} cannot be the session of an agent")]
    BadSession { id: String },
    #[error("the prompt has a NUL byte, which no argument can hold; remove it")]
    PromptNul,
    #[error(
        "the prompt is {bytes} bytes long and {harness} takes it as an argument, which holds at most {MAX_PROMPT_BYTES}; \
         shorten the conversation, or choose a tool that reads standard input"
    )]
    PromptTooLong { harness: String, bytes: usize },
    #[error("{harness} failed ({status}){}", because(trouble.as_deref(), stderr))]
    Failed {
        harness: String,
        status: ExitStatus,
        /// The agent's own words, where its output has a place for them.
        trouble: Option<String>,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// It ended as if all were well, but with trouble in place of an answer.
    #[error("{harness} did not answer: {trouble}")]
    NoAnswer { harness: String, trouble: String },
    #[error("{harness} did not finish within {} s and was ended", after.as_secs_f64())]
    TimedOut { harness: String, after: Duration },
    #[error("the answer of {harness} is larger than {ANSWER}, the limit for one turn; the program was ended")]
    TooLong { harness: String },
    #[error("the exchange with {harness} broke off")]
    Exchange { harness: String, source: io::Error },
}

fn because(trouble: Option<&str>, stderr: &str) -> String {
    let last_line = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    match trouble.filter(|words| !words.trim().is_empty()).or(last_line) {
        Some(words) => format!(": {}", words.trim()),
        None => String::new(),
    }
}

/// Runs one turn to its end. `on_text` gets the answer piece by piece, while the program still writes.
///
/// Whether it failed is told by the exit status and never by words on standard error. When this returns after a cancel or a timeout, everyone in the
/// program's process session has ended; after an ordinary end, what the agent left running runs on.
pub fn run_turn(spec: &TurnSpec, mut on_text: impl FnMut(&str), cancel: &Cancel) -> Result<TurnDone, TurnError> {
    let harness = spec.harness;
    let new_session = uuid::Uuid::new_v4().to_string();
    let call = call(spec, &new_session)?;
    let started = Instant::now();
    let agent = start(spec, &call)?;
    let broken = |source| TurnError::Exchange { harness: harness.label.clone(), source };

    let mut answer = Answer::new(harness.mode.format);
    if harness.mode.takes_session_id() {
        answer.session = Some(spec.session.map_or(new_session, str::to_owned));
    }
    let mut exchange = Exchange::new(agent, call.stdin.as_bytes());
    let deadline = spec.timeout.and_then(|timeout| started.checked_add(timeout));
    let over = exchange.run(cancel, deadline, |bytes| {
        answer.feed(bytes, &mut on_text);
        !answer.is_too_long()
    });
    let over = over.map_err(broken)?;
    if !matches!(over, Over::Exited(_)) {
        exchange.end(harness.grace).map_err(broken)?;
    }
    answer.finish(&mut on_text);
    conclude(spec, over, answer, exchange.stderr)
}

fn conclude(spec: &TurnSpec, over: Over, answer: Answer, stderr: Tail) -> Result<TurnDone, TurnError> {
    let harness = spec.harness.label.clone();
    let status = match over {
        Over::Exited(status) if status.success() => TurnStatus::Completed,
        Over::Exited(status) => {
            return Err(TurnError::Failed { harness, status, trouble: answer.trouble, stderr: stderr.into_text() });
        }
        Over::Cancelled => TurnStatus::Interrupted,
        Over::TimedOut => {
            return Err(TurnError::TimedOut { harness, after: spec.timeout.unwrap_or_default() });
        }
        Over::Refused => return Err(TurnError::TooLong { harness }),
    };
    let before = match spec.session {
        Some(_) => spec.used_before,
        None => Some(Usage::default()),
    };
    let usage = answer.usage(before);
    match answer.trouble {
        Some(trouble) if status == TurnStatus::Completed && answer.text.is_empty() => {
            Err(TurnError::NoAnswer { harness, trouble })
        }
        _ => Ok(TurnDone { text: answer.text, harness_session: answer.session, usage, status }),
    }
}

fn call(spec: &TurnSpec, new_session: &str) -> Result<PrintCall, TurnError> {
    let mode = &spec.harness.mode;
    if let Some(id) = spec.session.filter(|id| !is_session_id(id)) {
        return Err(TurnError::BadSession { id: id.to_owned() });
    }
    let session = spec.session.map_or(PrintSession::New(new_session), PrintSession::Kept);
    let agent = spec.agent.map(|agent| match &mode.own_agents {
        Some(own) if agent.is_in(&own.folder) && agent.has_plain_name() => AgentBrief::Named(&agent.name),
        _ => AgentBrief::Instructions(&agent.instructions),
    });
    let more_args = &[&spec.harness.added_args, spec.more_args].concat();
    let call = mode.call(&PrintTurn { prompt: spec.prompt, session, agent, is_step: false, more_args });
    if call.args.iter().any(|arg| arg.contains('\0')) {
        return Err(TurnError::PromptNul);
    }
    match call.args.iter().map(String::len).max() {
        Some(bytes) if bytes > MAX_PROMPT_BYTES => {
            Err(TurnError::PromptTooLong { harness: spec.harness.label.clone(), bytes })
        }
        _ => Ok(call),
    }
}

fn start(spec: &TurnSpec, call: &PrintCall) -> Result<Agent, TurnError> {
    let program = &spec.harness.program;
    let mut command = Command::new(program);
    command.args(&call.args).envs(&spec.harness.env).current_dir(spec.cwd);
    let has_input = spec.harness.mode.prompt == PrintPrompt::Stdin;
    Agent::start(command, has_input).map_err(|source| {
        let program = program.clone();
        match source.kind() {
            // The kernel says the same of a folder, a program and the interpreter that a script names.
            io::ErrorKind::NotFound if !spec.cwd.is_dir() => TurnError::NoFolder { cwd: spec.cwd.to_owned() },
            io::ErrorKind::NotFound if !program.exists() => TurnError::Missing { program },
            _ => TurnError::Start { program, source },
        }
    })
}
