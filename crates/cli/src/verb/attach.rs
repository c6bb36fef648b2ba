//! `coven attach`: a terminal on a running session, or the log of one that has ended.

use std::process::ExitCode;

use coven_host::home::Home;

use super::{NewestArg, named, newest, with_status};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::output;

/// Opens a terminal on a session; shows the log of one that has ended
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven attach                        the newest that runs; if none does, the newest that ended
  coven attach 1a2b                   Ctrl-\\ leaves it running (config: sessions.detachKeys)
  coven attach 1a2b --read-only       watches; Ctrl-C leaves too
  coven attach 5c6d                   a session of `run --acp` opens as a conversation
  coven attach 1a2b > output          everything it wrote and writes, byte for byte, until it ends
  echo make | coven attach 1a2b       types what comes through the pipe")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Watch only: keys and the size of this terminal stay here
    #[arg(long)]
    read_only: bool,
    /// Begin with what comes next, not with what is there
    #[arg(long)]
    no_replay: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let start = if args.no_replay { Start::Now } else { Start::Screen };
    let id = match args.session.id {
        Some(id) => id,
        None => newest_session(&home)?,
    };
    let outcome = attach::open(&home, &id, Options { start, is_read_only: args.read_only })?;
    Ok(exit_code(outcome))
}

/// The newest session that runs; without one, the newest that ended.
fn newest_session(home: &Home) -> Result<String, Failure> {
    if let Some(running) = newest(home, with_status("running"))? {
        return Ok(running.id.to_string());
    }
    let ended = newest(home, with_status("completed,failed,killed,orphaned"))?
        .ok_or_else(|| Failure::not_found("there is no session yet", "Start one with `coven run`"))?;
    output::note(format_args!("{}", named("no session is running; the newest ended", &ended)));
    Ok(ended.id.to_string())
}

/// An attached viewer has done its work however the session ended.
pub fn exit_code(outcome: AttachOutcome) -> ExitCode {
    match outcome {
        AttachOutcome::Detached | AttachOutcome::Exited(_) | AttachOutcome::Shown => ExitCode::SUCCESS,
        AttachOutcome::Signalled(signal) => signal_code(signal),
    }
}

/// What a shell tells of a command that a signal ended.
pub fn signal_code(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}
