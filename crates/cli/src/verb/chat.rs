//! `coven chat`: a conversation with an agent.

use std::process::ExitCode;

use coven_api::session::ListSessionsQuery;

use super::{NewestArg, with_status};
use crate::chat::past::Extent;
use crate::chat::transcript::Detail;
use crate::chat::{self, Options};
use crate::command_line::Place;
use crate::failure::Failure;

/// Opens a conversation with an agent that was started with `run --acp`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven chat                          the newest running session, in the app
  coven chat 1a2b                     ? lists the keys; Ctrl-\\ returns to the list
  coven chat 1a2b --all --verbose     prints the whole history with tool output
  coven chat 1a2b > conversation.txt  as plain text
  coven chat 1a2b < /dev/null         follows it until the agent is idle

Esc cancels the turn, never the session. Several terminals can chat with one session.")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Print the whole history, not only recent messages
    #[arg(long)]
    all: bool,
    /// Print the input and output of tools too
    #[arg(long, short)]
    verbose: bool,
    /// Print the conversation as text, even on a terminal
    #[arg(long)]
    plain: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let options = Options {
        extent: if args.all { Extent::All } else { Extent::Recent },
        detail: Detail { has_tool_content: args.verbose, folds_thoughts: false },
        wants_text: args.plain || args.all || args.verbose,
    };
    let id =
        args.session.find(&home, ListSessionsQuery { channel: Some("acp".to_owned()), ..with_status("running") })?;
    chat::open(&home, &id, options)
}
