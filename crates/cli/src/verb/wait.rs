//! `coven wait`: blocks until a session has ended.

use std::process::ExitCode;
use std::time::Duration;

use coven_api::{ClientError, SessionRecord};
use hyper::Method;

use super::{SessionArg, print_record};
use crate::command_line::Place;
use crate::failure::{Failure, OUT_OF_REACH};
use crate::link::{Link, block_on};
use crate::{route, wording};

const RETRY: Duration = Duration::from_millis(200);

/// Waits until a session has ended; succeeds if it completed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven wait 1a2b && git push
  coven wait 1a2b --json | jq .exit_code")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the session's record
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let path = route::session(&args.session.id, "/wait");
    let body = block_on(async {
        loop {
            let mut link = Link::open(&home).await?;
            match link.bytes(Method::GET, &path, None).await {
                // The daemon was stopped or restarted; the session goes on, and so does the waiting.
                Err(error) if error.exit_code() == OUT_OF_REACH => tokio::time::sleep(RETRY).await,
                answer => return Ok(answer?),
            }
        }
    })?;
    let record: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
    if record.status == "created" {
        let hint = format!("Launch it with `coven start {}`", wording::short_id(&record.id));
        return Err(Failure::refused("the session has not been started", hint));
    }
    print_record(&body, args.json, "ended")?;
    Ok(if record.status == "completed" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
