//! `coven replay`: replays a session in its original timing.

use std::process::ExitCode;

use coven_api::routes::{Endpoint, ReadLog};
use coven_api::session::LogQuery;
use coven_domain::session::{Channel, SessionState};
use coven_host::home::Home;

use super::attach::signal_code;
use super::{NewestArg, with_status};
use crate::chat::plain;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on, runtime};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::replay::{self, Speed};
use crate::{log_check, output, own_session};

/// Replays a session with its original timing; writes the raw log into a pipe or file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven replay                          the newest session
  coven replay 1a2b --speed 4
  coven replay 1a2b > output            all its output, byte for byte
  coven replay 1a2b --from 1048576      starts at that byte

A session of `run --acp` is shown as a conversation; into a pipe, as the bytes of the protocol.

Keys: space pauses, the arrows jump 5 seconds, + and - change the speed, q quits.")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Playback speed as a factor, or max
    #[arg(long, default_value = "1", value_name = "N|max")]
    speed: Speed,
    /// Log offset to start at
    #[arg(long, default_value_t = 0, value_name = "OFFSET")]
    from: u64,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let id = args.session.find(&home, with_status("running,completed,failed,killed,orphaned"))?;
    let signal = match output::is_terminal() {
        true => on_terminal(&home, &id, args.speed, args.from)?,
        false => into_pipe(&home, &id, args.from).map(|()| None)?,
    };
    Ok(signal.map_or(ExitCode::SUCCESS, signal_code))
}

fn on_terminal(home: &Home, id: &str, speed: Speed, from: u64) -> Result<Option<i32>, Failure> {
    let runtime = runtime()?;
    let mut link = runtime.block_on(DaemonClient::open(home))?;
    let record = runtime.block_on(link.session(id))?;
    if record.channel == Channel::Acp {
        // Show the messages: the agent's raw output is a protocol.
        plain::print_transcript(&DaemonConnector::to(home)?, &record)?;
        return Ok(None);
    }
    if record.status == SessionState::Running {
        own_session::ensure_other(&record.id.to_string())?;
    }
    let signal = replay::play(replay::Recording::new(runtime, link, record.id.to_string()), speed, from)?;
    if signal.is_none() {
        block_on(async {
            log_check::ensure_complete(&mut DaemonClient::open(home).await?, &record.id.to_string()).await
        })?;
    }
    Ok(signal)
}

fn into_pipe(home: &Home, id: &str, from: u64) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let mut link = DaemonClient::open(home).await?;
        let mut pieces =
            match link.stream(ReadLog::of(id).query(&LogQuery { from: Some(from), ..LogQuery::default() })).await {
                Ok(pieces) => pieces,
                Err(error) => return Err(log_check::explain(home, id, error.into()).await),
            };
        loop {
            match pieces.next().await {
                Ok(Some(piece)) => output::bytes(&piece)?,
                Ok(None) => return log_check::ensure_complete(&mut link, id).await,
                Err(error) => return Err(log_check::explain(home, id, error.into()).await),
            }
        }
    })
}
