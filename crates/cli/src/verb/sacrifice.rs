//! `coven sacrifice`: deletes a session with its log and history.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use coven_api::routes::{Endpoint, SacrificeSession};
use coven_domain::session::SessionState;

use super::{SessionsArg, each, print_record};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::format;

/// The word that confirms the deletion.
const CONFIRMATION: &str = "sacrifice";

/// Deletes a session that is not running, permanently, with its log and history
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sacrifice 1a2b           asks for confirmation
  coven sacrifice 1a2b --yes
  coven archive 1a2b             hides it instead")]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// Delete without confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON, one deleted record per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !args.yes && !can_ask {
        return Err(Failure::usage(
            format!("permanent deletion needs confirmation: {}", args.sessions.ids.join(", ")),
            "Add --yes to delete, or use `coven archive` instead",
        ));
    }
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        each(&args.sessions.ids, async |id| {
            let record = link.session(id).await?;
            // Use the id of the shown session: the prefix may match another one by now.
            let id = record.id.to_string();
            if !args.yes {
                ask(&format::sanitize_line(&record.title), &id)?;
            }
            if record.status == SessionState::Killed {
                link.ended_session(&id).await?;
            }
            let body = link.bytes(SacrificeSession::of(&id)).await?;
            print_record(&body, args.json, "sacrificed")
        })
        .await
    })
}

fn ask(title: &str, id: &str) -> Result<(), Failure> {
    let mut err = io::stderr().lock();
    let question = format!("Delete \"{title}\" ({id}) with its log and history? Type {CONFIRMATION} to confirm: ");
    err.write_all(question.as_bytes()).and_then(|()| err.flush()).map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    match answer.trim() {
        CONFIRMATION => Ok(()),
        _ => Err(Failure::refused("nothing was deleted", format!("Type {CONFIRMATION} to delete it"))),
    }
}
