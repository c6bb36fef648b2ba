//! `coven export`: writes a session's recording or a conversation in other formats.

use std::path::PathBuf;
use std::process::ExitCode;

use coven_interop::conversations::Conversations;

use super::SessionArg;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::export::{self, Format, Target, kept};
use crate::failure::Failure;
use crate::log_check;

/// Exports a recording or a conversation as text, asciicast, HTML or JSON lines
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven export 1a2b | less
  coven export 1a2b --output demo.cast && asciinema play demo.cast
  coven export 1a2b --format jsonl | jq 'select(.kind == \"input\")'
  coven export 5c6d --format jsonl | jq 'select(.role == \"agent\")'   a conversation
  coven export my-talk --output my-talk.html")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Format [default: by the extension of the output file, else text]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Output file, created only if the export succeeds [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Include typed input (asciicast)
    #[arg(long)]
    with_input: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let format = args.format.map_or_else(|| Format::of(args.output.as_deref()), Ok)?;
    let mut target = Target::open(args.output.as_deref(), args.force)?;
    let conversations = Conversations::locate();
    let session = match conversations.exact(&args.session.id) {
        // Needs only the file, not the daemon.
        Some(id) => kept::export(&conversations, &id, format, &mut target).map(|()| None)?,
        None => {
            let done = block_on(async {
                let mut link = DaemonClient::open(&home).await?;
                export::export(&mut link, &args.session.id, format, args.with_input, &mut target).await
            });
            match (done, conversations.find(&args.session.id)) {
                (Err(failure), Ok(id)) if failure.is_not_found() => {
                    kept::export(&conversations, &id, format, &mut target).map(|()| None)?
                }
                (done, _) => done?,
            }
        }
    };
    target.finish()?;
    if let Some(id) = session {
        // A damaged log is exported as far as possible; the exit code reports that it is incomplete.
        block_on(async { log_check::ensure_complete(&mut DaemonClient::open(&home).await?, &id).await })?;
    }
    Ok(ExitCode::SUCCESS)
}
