//! `coven finish`: ends a session and marks it as completed.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, FinishSession, WaitSession};

use super::{SessionsArg, each, print_record};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;

/// Ends a running session and marks it as completed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven finish 1a2b\n  coven kill 1a2b     the same, but marked as killed")]
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
            let asked = link.call(FinishSession::of(id)).await?;
            let body = link.bytes(WaitSession::of(&asked.id.to_string())).await?;
            print_record(&body, args.json, "finished")
        })
        .await
    })
}
