//! `coven wait`: waits until sessions have ended.

use std::process::ExitCode;
use std::time::Duration;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, WaitSession};
use coven_client::ClientError;
use coven_domain::session::SessionState;
use coven_host::home::Home;

use super::{SessionsArg, print_record};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::{Failure, UNAVAILABLE};

const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Waits until sessions have ended; exits with 0 if all completed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven wait 1a2b && git push
  coven wait 1a2b 3c4d
  coven wait 1a2b --json | jq .exit_code")]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// Print JSON, one record per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut all_completed = true;
    for id in &args.sessions.ids {
        all_completed &= wait_for(&home, id, args.json)?;
    }
    Ok(if all_completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for one session. Returns whether it completed.
fn wait_for(home: &Home, id: &str, as_json: bool) -> Result<bool, Failure> {
    let body = block_on(async {
        loop {
            let mut link = DaemonClient::open(home).await?;
            match link.bytes(WaitSession::of(id)).await {
                // The daemon stopped or restarted, but the session keeps running: wait again.
                Err(error) if error.exit_code() == UNAVAILABLE => tokio::time::sleep(RETRY_DELAY).await,
                answer => return Ok(answer?),
            }
        }
    })?;
    let record: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
    if record.status == SessionState::Created {
        let short = record.id.short();
        let hint = format!("Start it with `coven start {short}`");
        return Err(Failure::refused(format!("session {short} has not started"), hint));
    }
    print_record(&body, as_json, "ended")?;
    Ok(record.status == SessionState::Completed)
}
