//! `coven board`: tasks by state, in the app, or printed as text or JSON.

use std::process::ExitCode;

use coven_api::list::{BadCursor, ListKey, MAX_LIMIT};
use coven_app::View;
use coven_client::ClientError;
use coven_holder::clock;
use coven_host::home::Home;

use super::{page, print_json};
use crate::app::{self, Opening};
use crate::board::once;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Shows tasks by state, with their agents, last output, inbox items and pending merges
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven board                                    opens the app on a terminal; ? lists the keys
  coven board --once                             prints the board as text
  coven board | cat                              the same
  coven board --json | jq -r '.pending_merge[].task.title'

The board lists the newest 20 closed tasks.")]
pub struct Args {
    /// Print the board as text and exit
    #[arg(long, alias = "plain", conflicts_with = "json")]
    once: bool,
    /// Print JSON: the tasks of each state with agent, run, last line and questions
    #[arg(long)]
    json: bool,
    /// Hide closed tasks
    #[arg(long)]
    no_closed: bool,
    /// With --json: maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = MAX_LIMIT, value_parser = page::limit(), requires = "json")]
    limit: usize,
    /// With --json: start after another page, by its `next` value
    #[arg(long, requires = "json")]
    cursor: Option<String>,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    match app::is_wanted(args.json || args.once) {
        true => app::open(&home, Opening::view(View::Board)),
        false => block_on(print(&home, args)),
    }
}

async fn print(home: &Home, args: Args) -> Result<ExitCode, Failure> {
    let list = ListKey::new(&["board", if args.no_closed { "without closed" } else { "" }]);
    let advice = "Omit --cursor for the first page";
    let after: Option<String> =
        list.place(args.cursor.as_deref()).map_err(|error: BadCursor| Failure::usage(error.to_string(), advice))?;
    let mut link = DaemonClient::open(home).await?;
    let tasks = once::read(&mut link, args.no_closed).await?;
    if args.json {
        let page = once::json(&tasks, list, after.as_deref(), args.limit).map_err(ClientError::from)?;
        let gone = || Failure::usage("cursor: the last task of the previous page has left the board", advice);
        print_json(&page.ok_or_else(gone)?)?;
    } else {
        let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
        output::text(&once::text(&tasks, clock::now(), width))?;
    }
    Ok(ExitCode::SUCCESS)
}
