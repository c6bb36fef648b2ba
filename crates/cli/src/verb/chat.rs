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
  coven chat                          the newest that runs
  coven chat 1a2b                     /help shows the keys; Ctrl-D leaves it running
  coven chat 1a2b --all --verbose     everything that was said and done
  coven chat 1a2b > conversation.txt  as plain text
  coven chat 1a2b < /dev/null         follows it until the agent is idle

Ctrl-C cancels the turn, never the session. Several may chat with one session at the same time.")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Begin with the first message, not with the recent ones
    #[arg(long)]
    all: bool,
    /// Show what tools are given and give (/tools changes it)
    #[arg(long, short)]
    verbose: bool,
    /// Watch only: nothing is sent
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
