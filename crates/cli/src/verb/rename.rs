//! `coven rename`: changes the title of a session.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, RenameSession};
use coven_api::session::RenameSessionRequest;
use coven_client::ClientError;

use super::{SessionArg, print_json};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{format, output};

/// Changes the title of a session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven rename 1a2b \"the parser\"
  coven attach \"the parser\"     a title works like an id")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// New title; words are joined
    #[arg(value_name = "TITLE", required = true)]
    title: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let request = RenameSessionRequest { title: args.title.join(" ") };
    let answer = block_on(async {
        Ok(DaemonClient::open(&home).await?.bytes(RenameSession::of(&args.session.id).body(&request)).await?)
    })?;
    if args.json {
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record: SessionRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
    output::line(format_args!("renamed: {} {}", format::sanitize_line(&record.title), record.id))?;
    Ok(ExitCode::SUCCESS)
}
