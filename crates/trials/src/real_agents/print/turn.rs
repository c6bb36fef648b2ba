//! The hidden task `print-turn`: one turn in a separate process, without state from earlier turns.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use coven_harness as harness;
use coven_harness::print_mode::Usage;
use coven_host::agent_definitions;
use coven_host::print_mode::{self, Cancel, TurnError, TurnSpec, TurnStatus, run_turn};
use serde::{Deserialize, Serialize};

use super::super::TrialResult;

/// Longer than any turn of a trial.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The prompt is read from standard input; SIGINT cancels the turn.
#[derive(Debug, Args)]
pub struct PrintTurnArgs {
    /// The agent's program.
    tool: OsString,
    /// The agent's session to resume.
    #[arg(long)]
    session: Option<String>,
    /// Input and output tokens of its earlier turns.
    #[arg(long, num_args = 2)]
    used_before: Option<Vec<u64>>,
    /// Name of an agent definition in the user's home.
    #[arg(long)]
    agent: Option<String>,
}

/// The result of a turn, printed as one line of JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Told {
    pub text: String,
    pub session: Option<String>,
    /// Input, output.
    pub tokens: Option<(u64, u64)>,
    pub is_interrupted: bool,
    /// Milliseconds from the start to the first and to the last text.
    pub text_ms: Option<(u64, u64)>,
    pub took_ms: u64,
    pub failure: Option<Failure>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The exit status reports the failure.
    ExitStatus,
    /// Only the output reports the failure.
    NoAnswer,
    PromptTooLong,
    Other,
}

pub fn run(args: PrintTurnArgs) -> ExitCode {
    match turn(args).and_then(|result| Ok(serde_json::to_string(&result)?)) {
        // A failed write cannot be reported.
        Ok(line) => writeln!(io::stdout(), "{line}").map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("print-turn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn turn(args: PrintTurnArgs) -> TrialResult<Told> {
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let path = std::env::var_os("PATH");
    let tool = args.tool.to_str().ok_or("the tool's path is not UTF-8")?;
    let harness = print_mode::choose(Some(tool), &harness::launch::builtin(), path.as_deref())?;
    let home = PathBuf::from(std::env::var_os("HOME").ok_or("no HOME")?);
    let agents = agent_definitions::list(&agent_definitions::folders(&home, None), &home);
    let agent = args.agent.map(|name| agents.find(&name)).transpose()?;
    let cancel = Cancel::new()?;
    cancel_on_interrupt(cancel.clone())?;

    let cwd = std::env::current_dir()?;
    let session = args.session.as_deref();
    let used_before = match args.used_before.as_deref() {
        Some(&[input, output]) => Some(Usage { input, output }),
        _ => None,
    };
    let spec = TurnSpec {
        harness: &harness,
        prompt: &prompt,
        session,
        used_before,
        agent,
        more_args: &[],
        cwd: &cwd,
        timeout: Some(TIMEOUT),
    };
    let started = Instant::now();
    let millis = || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut text_ms = None;
    let on_text = |_: &str| text_ms = Some((text_ms.map_or_else(millis, |(first, _)| first), millis()));
    let done = run_turn(&spec, on_text, &cancel);
    let result = Told { text_ms, took_ms: millis(), ..Told::default() };
    Ok(match done {
        Ok(done) => Told {
            text: done.text,
            session: done.harness_session,
            tokens: done.usage.map(|usage| (usage.input, usage.output)),
            is_interrupted: done.status == TurnStatus::Interrupted,
            ..result
        },
        Err(error) => Told { failure: Some(Failure { kind: kind(&error), words: error.to_string() }), ..result },
    })
}

fn kind(error: &TurnError) -> FailureKind {
    match error {
        TurnError::Failed { .. } => FailureKind::ExitStatus,
        TurnError::NoAnswer { .. } => FailureKind::NoAnswer,
        TurnError::PromptTooLong { .. } => FailureKind::PromptTooLong,
        TurnError::Missing { .. }
        | TurnError::NoFolder { .. }
        | TurnError::Start { .. }
        | TurnError::BadSession { .. }
        | TurnError::PromptNul
        | TurnError::TimedOut { .. }
        | TurnError::TooLong { .. }
        | TurnError::Exchange { .. } => FailureKind::Other,
    }
}

/// Waits for SIGINT on a separate thread: the turn blocks this one.
fn cancel_on_interrupt(cancel: Cancel) -> TrialResult<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupts = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    // The thread ends with the process.
    std::thread::spawn(move || {
        runtime.block_on(interrupts.recv());
        cancel.cancel();
    });
    Ok(())
}
