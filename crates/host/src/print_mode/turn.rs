//! Runs one turn.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use coven_domain::text::MAX_PROMPT_BYTES;
use coven_harness::print_mode::{
    ANSWER, AgentBrief, PrintAnswer, PrintCall, PrintPrompt, PrintSession, PrintTurn, Usage, is_session_id,
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
    /// The new message if `session` is set, or else the conversation so far, ending with the new message.
    pub prompt: &'a str,
    /// The harness's own session to resume; ignored by harnesses that cannot resume.
    pub session: Option<&'a str>,
    /// Total usage of the session's earlier turns, because some harnesses report usage per session instead of per turn.
    pub used_before: Option<Usage>,
    pub agent: Option<&'a AgentDefinition>,
    /// Arguments for the harness in addition to those of the config.
    pub more_args: &'a [String],
    pub cwd: &'a Path,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDone {
    /// The answer without trailing whitespace; incomplete if the turn was interrupted.
    pub text: String,
    /// Session for a later turn to resume.
    pub harness_session: Option<String>,
    /// Token usage, if the harness reports it.
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
    #[error("the program {} no longer exists; install it again or choose another tool", program.display())]
    Missing { program: PathBuf },
    #[error("the working folder {} no longer exists", cwd.display())]
    NoFolder { cwd: PathBuf },
    #[error("cannot start {}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("invalid session id {id:?}")]
    BadSession { id: String },
    #[error("the prompt contains a NUL byte, which an argument cannot contain; remove it")]
    PromptNul,
    #[error(
        "the prompt is {bytes} bytes long, but {harness} reads it from an argument of at most {MAX_PROMPT_BYTES} \
         bytes; shorten the conversation, or choose a tool that reads standard input"
    )]
    PromptTooLong { harness: String, bytes: usize },
    #[error("{harness} failed ({status}){}", because(trouble.as_deref(), stderr))]
    Failed {
        harness: String,
        status: ExitStatus,
        /// The agent's own error message, if its output contains one.
        trouble: Option<String>,
        /// The end of its standard error.
        stderr: String,
    },
    /// The program exited with 0, but reported an error instead of an answer.
    #[error("{harness} did not answer: {trouble}")]
    NoAnswer { harness: String, trouble: String },
    #[error("{harness} did not finish within {} s and was stopped", after.as_secs_f64())]
    TimedOut { harness: String, after: Duration },
    #[error("{harness} was stopped: its answer exceeded {ANSWER}, the limit for one turn")]
    TooLong { harness: String },
    #[error("communication with {harness} failed")]
    Exchange { harness: String, source: io::Error },
}

fn because(trouble: Option<&str>, stderr: &str) -> String {
    let last_line = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    match trouble.filter(|message| !message.trim().is_empty()).or(last_line) {
        Some(message) => format!(": {}", message.trim()),
        None => String::new(),
    }
}

/// Runs one turn to its end. `on_text` receives the answer in pieces, as the program writes it.
///
/// The exit status determines whether the turn failed; output on standard error does not. After a cancel or a timeout,
/// all processes in the program's process session have exited. After a normal exit, processes that the agent left
/// behind keep running.
pub fn run_turn(spec: &TurnSpec, mut on_text: impl FnMut(&str), cancel: &Cancel) -> Result<TurnDone, TurnError> {
    let harness = spec.harness;
    let new_session = uuid::Uuid::new_v4().to_string();
    let call = call(spec, &new_session)?;
    let started = Instant::now();
    let agent = start(spec, &call)?;
    let broken = |source| TurnError::Exchange { harness: harness.label.clone(), source };

    let mut answer = PrintAnswer::new(harness.mode.format);
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

fn conclude(spec: &TurnSpec, over: Over, answer: PrintAnswer, stderr: Tail) -> Result<TurnDone, TurnError> {
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
            // The kernel reports the same error for a missing folder, program or script interpreter.
            io::ErrorKind::NotFound if !spec.cwd.is_dir() => TurnError::NoFolder { cwd: spec.cwd.to_owned() },
            io::ErrorKind::NotFound if !program.exists() => TurnError::Missing { program },
            _ => TurnError::Start { program, source },
        }
    })
}
