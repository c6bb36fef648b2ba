//! `coven summon`: brings an archived session back and shows it.

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

/// Brings an archived session back into the list and shows its log; nothing is run again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sessions --all     lists archived sessions too
  coven summon 1a2b
  coven summon 1a2b --json     brings it back and shows nothing but the record")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the session's record instead of its log
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let outcome = summon(&place.home()?, &args.session.id, args.json)?;
    Ok(super::attach::exit_code(outcome))
}

/// Brings it back, then replays and follows it.
pub fn summon(home: &Home, id: &str, as_json: bool) -> Result<AttachOutcome, Failure> {
    let body = block_on(async { Ok(DaemonClient::open(home).await?.bytes(SummonSession::of(id)).await?) })?;
    if as_json {
        print_json(&body)?;
        return Ok(AttachOutcome::Shown);
    }
    let record: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
    output::note(format_args!("{}", named("summoned", &record)));
    match record.status.as_str() {
        // It never ran: there is nothing to show.
        "created" => Ok(AttachOutcome::Shown),
        _ => attach::open(home, &record.id.to_string(), Options { start: Start::Screen, is_read_only: false }),
    }
}
