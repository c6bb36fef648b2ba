//! `coven state`: everything at one moment.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, ReadState};

use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::output;

/// Prints everything the store knows at one moment, with the number of the last event
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven state\n  coven state --json | jq .event_number")]
pub struct Args {
    /// Print it whole, as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        if args.json {
            link.print_json(ReadState::request()).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let state = link.call(ReadState::request()).await?;
        let running = state.sessions.iter().filter(|session| session.status == "running").count();
        let text = format!(
            "sessions   {} ({running} running)\ntasks      {}\nagents     {}\nworkflows  {}\nquestions  {}\nlast event {}\n",
            state.sessions.len(),
            state.tasks.len(),
            state.agents.len(),
            state.workflows.len(),
            state.questions.len(),
            state.event_number,
        );
        output::text(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}
