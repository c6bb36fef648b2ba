//! `coven input`: types into a running session.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, SendInput};
use coven_api::session::InputRequest;

use super::SessionArg;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{output, piped};

/// Bytes per request: below the daemon's default limit, even in Base64.
const CHUNK_BYTES: usize = 1 << 20;

/// Types text into a running session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven input 1a2b \"yes\" --enter     types yes and presses Enter
  coven input 1a2b $'\\x03'           presses Ctrl-C
  coven input 1a2b --stdin < file    types the content of a file
  coven input 1a2b -- --help         types text that starts with a dash")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Text to type, byte for byte
    #[arg(required_unless_present_any = ["enter", "stdin"])]
    data: Option<String>,
    /// Press Enter at the end
    #[arg(long)]
    enter: bool,
    /// Type the bytes of standard input
    #[arg(long, conflicts_with = "data")]
    stdin: bool,
    /// Print JSON
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
        // Terminals send a carriage return for Enter.
        bytes.push(b'\r');
    }
    if bytes.is_empty() {
        return Err(Failure::usage("the input is empty", "Give some text, or use --enter"));
    }
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            link.call(SendInput::of(&args.session.id).body(&InputRequest::of(chunk))).await?;
        }
        if args.json {
            output::line(format_args!(r#"{{"ok":true,"accepted":true}}"#))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
