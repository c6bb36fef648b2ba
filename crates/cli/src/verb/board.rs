//! `coven board`: tasks by state, live on a terminal, or printed as text or JSON.

use std::process::ExitCode;

use coven_api::list::{BadCursor, ListKey, MAX_LIMIT};
use coven_client::ClientError;
use coven_holder::clock;
use coven_host::home::Home;
use coven_interop::questions::QuestionFolder;

use super::sessions::wait_for_key;
use super::{attach as attach_verb, page, print_json, task};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::board::{self, BoardOptions, once};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::{answer, inbox_alerts, output};

/// Shows tasks by state, with their agents, last output, inbox items and pending merges
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven board                                    on a terminal; ? lists the keys
  coven board --once                             prints the board as text
  coven board | cat                              the same
  coven board --json | jq -r '.pending_merge[].task.title'

On the board: s starts a task, a approves it, x rejects it, d shows its changes, o attaches to its agent, i opens
the inbox, n creates a task. It lists the newest 20 closed tasks.")]
pub struct Args {
    /// Print the board as text and exit
    #[arg(long, conflicts_with = "json")]
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
    if args.json || args.once || !output::has_screen() {
        return block_on(print(&home, args));
    }
    // The board connects by itself. This starts the daemon before the screen opens, so that its errors are readable.
    block_on(DaemonClient::open(&home))?;
    let mut options = BoardOptions {
        connector: DaemonConnector::to(&home)?,
        repo: task::repo_here(&home),
        by: task::by_session(),
        hides_closed: args.no_closed,
        rings: inbox_alerts::is_bell_enabled(&home),
        ..BoardOptions::default()
    };
    loop {
        match board::open(&mut options)? {
            board::Outcome::Quit => return Ok(ExitCode::SUCCESS),
            board::Outcome::Answer => {
                answer::open(QuestionFolder::locate(), options.rings)?;
            }
            board::Outcome::Attach(id) => {
                match attach::open(&home, &id, Options { start: Start::Screen, is_read_only: false }) {
                    Ok(AttachOutcome::Detached) => {}
                    Ok(AttachOutcome::Signalled(signal)) => return Ok(attach_verb::signal_code(signal)),
                    Ok(AttachOutcome::Exited(_) | AttachOutcome::Shown) => wait_for_key("the board")?,
                    // Show the failure on the board: the session may have ended.
                    Err(failure) => options.problem = Some(failure.sentence()),
                }
            }
        }
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
