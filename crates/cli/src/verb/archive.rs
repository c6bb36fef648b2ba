//! `coven archive`: hides a session that is not running.

use std::process::ExitCode;

use coven_api::routes::{ArchiveSession, Endpoint};

use super::{SessionsArg, each, print_record};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;

/// Hides a session that is not running; keeps its record and log
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coven archive 1a2b\n  coven sessions --all     includes archived sessions\n  coven summon 1a2b        brings it back"
)]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// Print JSON, one record per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        each(&args.sessions.ids, async |id| {
            let body = link.bytes(ArchiveSession::of(id)).await?;
            print_record(&body, args.json, "archived")
        })
        .await
    })
}
