//! `coven sacrifice`: deletes a session with everything it wrote.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use hyper::Method;

use super::{SessionArg, print_record};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::{route, wording};

/// What a person types to show that it is meant.
const WORD: &str = "sacrifice";

/// Deletes a session that does not run, with its log and its history, for good
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sacrifice 1a2b           asks to type the word
  coven sacrifice 1a2b --yes
  coven archive 1a2b             hides it instead")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print the record it had
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !args.yes && !can_ask {
        return Err(Failure::usage(
            format!("deleting session {} for good was not confirmed", args.session.id),
            "Add --yes if it is meant, or `coven archive` it instead",
        ));
    }
    block_on(async {
        let mut link = Link::open(&home).await?;
        let mut id = args.session.id.clone();
        if !args.yes {
            let record = link.session(&id).await?;
            ask(&wording::plain(&record.title), &record.id)?;
            // The session that was shown, whatever the prefix stands for by now.
            id = record.id;
        }
        let body = link.bytes(Method::DELETE, &route::session(&id, ""), None).await?;
        print_record(&body, args.json, "sacrificed")?;
        Ok(ExitCode::SUCCESS)
    })
}

fn ask(title: &str, id: &str) -> Result<(), Failure> {
    let mut err = io::stderr().lock();
    let question = format!("Delete \"{title}\" with everything it wrote? Type {WORD} to go on ({id}): ");
    err.write_all(question.as_bytes()).and_then(|()| err.flush()).map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    match answer.trim() {
        WORD => Ok(()),
        _ => Err(Failure::refused("nothing was deleted", format!("Type the word {WORD} to delete it"))),
    }
}
