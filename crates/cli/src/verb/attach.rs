//! `coven attach`: a terminal on a running session, or the log of one that has ended.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::inbox::InboxKind;
use coven_api::routes::{Endpoint, ListInbox, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_domain::Timestamp;
use coven_host::home::Home;

use super::{NewestArg, named, newest, with_status};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::listing::{self, Paging};
use crate::{output, own_session};

/// Opens a terminal on a session; shows the log of one that has ended
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven attach                        the newest running session, else the newest ended one
  coven attach 1a2b                   Ctrl-\\ detaches (config: sessions.detachKeys)
  coven attach --needs-me             the session that has waited longest for you
  coven attach 1a2b --read-only       only watches; Ctrl-C detaches too
  coven attach 5c6d                   a session of `run --acp` opens as a conversation
  coven attach 1a2b > output          all its output, byte for byte, until it ends
  echo make | coven attach 1a2b       types the piped input

With --needs-me it exits with 3 if no session waits for you.")]
pub struct Args {
    #[command(flatten)]
    session: NewestArg,
    /// Attach to the session that has waited longest for an approval, an answer or a line of input
    #[arg(long, conflicts_with = "id")]
    needs_me: bool,
    /// Watch only: send neither keys nor the terminal size
    #[arg(long)]
    read_only: bool,
    /// Show only new output, not the current screen or log
    #[arg(long)]
    no_replay: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let start = if args.no_replay { Start::Now } else { Start::Screen };
    let id = match args.session.id {
        Some(id) => id,
        None if args.needs_me => longest_waiting(&home)?,
        None => newest_session(&home)?,
    };
    let outcome = attach::open(&home, &id, Options { start, is_read_only: args.read_only })?;
    Ok(exit_code(outcome))
}

/// Returns the newest running session, or else the newest ended one.
fn newest_session(home: &Home) -> Result<String, Failure> {
    if let Some(running) = newest(home, with_status("running"))? {
        return Ok(running.id.to_string());
    }
    let ended = newest(home, with_status("completed,failed,killed,orphaned"))?
        .ok_or_else(|| Failure::not_found("no session exists yet", "Start one with `coven run`"))?;
    output::note(format_args!("{}", named("no session is running; showing the newest ended one", &ended)));
    Ok(ended.id.to_string())
}

/// Returns the session whose agent has waited longest for the user.
fn longest_waiting(home: &Home) -> Result<String, Failure> {
    let own = own_session::id();
    let mut waiting: Vec<(Timestamp, String)> = block_on(async {
        let mut link = DaemonClient::open(home).await?;
        let asks = Some("permission,question".to_owned());
        let query = ListSessionsQuery { activity: asks, all: Some(true), ..ListSessionsQuery::default() };
        let sessions = listing::items(&mut link, ListSessions::request().query(&query), Paging::default()).await?;
        let since = |it: SessionRecord| (it.activity_since.unwrap_or(it.updated_at), it.id.to_string());
        let mut waiting: Vec<(Timestamp, String)> = sessions.into_iter().map(since).collect();
        // A program that waits for a line of input may report no activity.
        let items = listing::items(&mut link, ListInbox::request(), Paging::default()).await?;
        let items = items.into_iter().filter(|item| item.kind == InboxKind::Terminal);
        waiting.extend(items.filter_map(|item| Some((item.created_at, item.session_id?.to_string()))));
        Ok(waiting)
    })?;
    waiting.retain(|(_, id)| own.as_ref() != Some(id));
    let longest = waiting.into_iter().min().map(|(_, id)| id);
    longest.ok_or_else(|| Failure::not_found("no session waits for you", "List all with `coven sessions`"))
}

/// Returns the exit code of `attach`, which succeeds regardless of how the session ended.
pub fn exit_code(outcome: AttachOutcome) -> ExitCode {
    match outcome {
        AttachOutcome::Detached | AttachOutcome::Exited(_) | AttachOutcome::Shown => ExitCode::SUCCESS,
        AttachOutcome::Signalled(signal) => signal_code(signal),
    }
}

/// Returns the exit code that a shell reports for a command killed by a signal.
pub fn signal_code(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}
