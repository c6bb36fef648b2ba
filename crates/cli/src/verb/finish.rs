//! `coven finish`: ends a session and marks it as completed.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, FinishSession, WaitSession};
use coven_client::ClientError;
use coven_domain::session::SessionState;

use super::{SessionsArg, each, print_json};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{format, output};

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
            if args.json {
                return print_json(&body);
            }
            let session: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
            output::line(format_args!(
                "finished: {} ({}) {}",
                format::sanitize_line(&session.title),
                how_it_ended(&session),
                session.id
            ))
        })
        .await
    })
}

/// Formats the end of a session. The exit code of an agent that was asked to end is the signal's, not a failure.
fn how_it_ended(session: &SessionRecord) -> String {
    match (session.status, session.exit_code) {
        (SessionState::Completed, Some(code)) if code != 0 => format!("{}, ended on request", session.status),
        _ => format::status(session),
    }
}
