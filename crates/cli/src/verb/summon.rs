//! `coven summon`: unarchives a session and shows it.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, SummonSession};
use coven_client::ClientError;
use coven_host::home::Home;

use super::{SessionArg, named, print_json};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Unarchives a session and shows its log; does not start it again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sessions --all     includes archived sessions
  coven summon 1a2b
  coven summon 1a2b --json     unarchives it and prints only the record")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print JSON instead of the log
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let outcome = summon(&place.home()?, &args.session.id, args.json)?;
    Ok(super::attach::exit_code(outcome))
}

/// Unarchives a session, then attaches to it.
pub fn summon(home: &Home, id: &str, as_json: bool) -> Result<AttachOutcome, Failure> {
    let body = block_on(async { Ok(DaemonClient::open(home).await?.bytes(SummonSession::of(id)).await?) })?;
    if as_json {
        print_json(&body)?;
        return Ok(AttachOutcome::Shown);
    }
    let record: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
    output::note(format_args!("{}", named("summoned", &record)));
    match record.status.as_str() {
        // The session never started, so it has no output.
        "created" => Ok(AttachOutcome::Shown),
        _ => attach::open(home, &record.id.to_string(), Options { start: Start::Screen, is_read_only: false }),
    }
}
