//! `coven input`: types into a running session.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, SendInput};
use coven_api::session::InputRequest;

use super::SessionArg;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{output, piped};

/// The most bytes sent in one request; well below the daemon's default limit, also in Base64.
const PIECE: usize = 1 << 20;

/// Types into a running session, as if at its keyboard
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven input 1a2b \"yes\" --enter     types yes and presses Enter
  coven input 1a2b $'\\x03'           presses Ctrl-C
  coven input 1a2b --stdin < file    types what is in a file
  coven input 1a2b -- --help         types text that begins with a dash")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// What to type, byte for byte
    #[arg(required_unless_present_any = ["enter", "stdin"])]
    data: Option<String>,
    /// Press Enter at the end
    #[arg(long)]
    enter: bool,
    /// Type what comes on standard input, any bytes
    #[arg(long, conflicts_with = "data")]
    stdin: bool,
    /// Print the daemon's answer
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut bytes = args.data.unwrap_or_default().into_bytes();
    if args.stdin {
        bytes.append(&mut piped::bytes()?);
    }
    if args.enter {
        // What a terminal sends for the Enter key.
        bytes.push(b'\r');
    }
    if bytes.is_empty() {
        return Err(Failure::usage("there is nothing to type", "Give some text, or --enter"));
    }
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        for piece in bytes.chunks(PIECE) {
            link.call(SendInput::of(&args.session.id).body(&InputRequest::of(piece))).await?;
        }
        if args.json {
            output::line(format_args!(r#"{{"ok":true,"accepted":true}}"#))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
