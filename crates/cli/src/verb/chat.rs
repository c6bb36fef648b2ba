//! `coven chat`: a conversation with an agent.

use std::process::ExitCode;

use coven_api::session::ListSessionsQuery;

use super::attach::signal_code;
use super::{NewestArg, with_status};
use crate::chat::past::Extent;
use crate::chat::transcript::Detail;
use crate::chat::{self, Ending, Options};
use crate::command_line::Place;
use crate::failure::Failure;

/// Opens a conversation with an agent that was started with `run --acp`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven chat                          the newest running session
  coven chat 1a2b                     /help lists the keys; Ctrl-D detaches
  coven chat 1a2b --all --verbose     the whole history with tool output
  coven chat 1a2b > conversation.txt  as plain text
  coven chat 1a2b < /dev/null         follows it until the agent is idle

Ctrl-C cancels the turn, never the session. Several terminals can chat with one session.")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Show the whole history, not only recent messages
    #[arg(long)]
    all: bool,
    /// Show the input and output of tools (toggle with /tools)
    #[arg(long, short)]
    verbose: bool,
    /// Watch only: send nothing
    #[arg(long)]
    read_only: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let options = Options {
        extent: if args.all { Extent::All } else { Extent::Recent },
        detail: Detail { has_tool_content: args.verbose, folds_thoughts: false },
        is_read_only: args.read_only,
    };
    let id =
        args.session.find(&home, ListSessionsQuery { channel: Some("acp".to_owned()), ..with_status("running") })?;
    Ok(match chat::open(&home, &id, options)? {
        Ending::Left | Ending::Over(_) => ExitCode::SUCCESS,
        Ending::Signalled(signal) => signal_code(signal),
    })
}
