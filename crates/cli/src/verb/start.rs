//! `coven start`: starts a session that was created by `coven run --detach`.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, StartSession};
use coven_api::session::StartSessionRequest;

use super::{SessionArg, environment, print_started};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Starts a session that was created by `coven run --detach`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven run claude \"fix the tests\" --detach
  coven start 1a2b && coven attach 1a2b
  coven start 1a2b --now            does not wait for the limits of the config")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Launch it even if a limit of the config is reached, or if it waits for its launch
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let (rows, cols) = output::terminal_size().unzip();
    let request = StartSessionRequest { now: args.now.then_some(true), env: Some(environment()), rows, cols };
    let answer = block_on(async {
        Ok(DaemonClient::open(&home).await?.bytes(StartSession::of(&args.session.id).body(&request)).await?)
    })?;
    print_started(&answer, args.json, "started")?;
    Ok(ExitCode::SUCCESS)
}
