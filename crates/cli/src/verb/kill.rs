//! `coven kill`: kills running sessions.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, KillSession, WaitSession};
use coven_client::ClientError;
use serde_json::Value;

use super::{SessionsArg, each, print_json};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{format, output};

/// Kills running sessions: SIGTERM, then SIGKILL after a grace period
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven kill 1a2b
  coven kill 1a2b \"fix the tests\"   several, by id or title
  coven kill 1a2b --no-wait         returns when the daemon has accepted it
  coven finish 1a2b                 the same, but marked as completed")]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// Return without waiting for the processes to end
    #[arg(long)]
    no_wait: bool,
    /// Print JSON, one record per line; with --no-wait the daemon's responses
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        each(&args.sessions.ids, async |id| kill(&mut link, id, &args).await).await
    })
}

async fn kill(link: &mut DaemonClient, id: &str, args: &Args) -> Result<(), Failure> {
    // Use the id from here on: once this session has ended, its title may match others.
    let id = link.session(id).await?.id.to_string();
    let accepted = link.bytes(KillSession::of(&id)).await?;
    match (args.no_wait, args.json) {
        (true, true) => print_json(&accepted),
        (true, false) => output::line(format_args!("kill accepted: {id}")),
        (false, as_json) => {
            let body = link.bytes(WaitSession::of(&id)).await?;
            let session: SessionRecord = serde_json::from_slice(&body).map_err(ClientError::from)?;
            if let Some(pids) = session.metadata.get("still_alive") {
                return Err(still_alive_failure(&session, pids));
            }
            match as_json {
                true => print_json(&body),
                false => {
                    let (title, how) = (format::sanitize_line(&session.title), how_it_ended(&session));
                    output::line(format_args!("{}: {title} ({how}) {}", session.status, session.id))
                }
            }
        }
    }
}

fn how_it_ended(session: &SessionRecord) -> String {
    match (session.metadata.get("signal").and_then(Value::as_i64), session.exit_code) {
        (Some(15), _) => "ended by SIGTERM".to_owned(),
        (Some(9), _) => "ended by SIGKILL".to_owned(),
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        // The session was still starting, or its holder died at the same time.
        (None, None) => match session.metadata.get("error").and_then(Value::as_str) {
            Some(error) => format::sanitize_line(error),
            None => "no exit status".to_owned(),
        },
    }
}

fn still_alive_failure(session: &SessionRecord, pids: &Value) -> Failure {
    Failure::failed(
        format!("session {} has not ended: processes {pids} survived SIGKILL", session.id),
        "They probably wait for a device or network file system; inspect them with `ps`",
    )
}
