//! The conversation as plain text, for pipes and files.

use std::time::{Duration, Instant};

use coven_api::SessionRecord;
use coven_api::acp_state::AcpStateRecord;
use coven_client::Client;
use coven_domain::message::Activity;

use super::feed::Feed;
use super::past::{self, Extent, Past};
use super::report::Report;
use super::row::Row;
use super::transcript::{Detail, Transcript};
use super::turn::say_question;
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::{daemon_client, format, output};

/// After so long without the daemon a script is better told.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prints what was said; if `follows`, also what is being said until the session is idle or over.
pub fn show(
    connector: &DaemonConnector,
    record: &SessionRecord,
    extent: Extent,
    detail: Detail,
    follows: bool,
) -> Result<(), Failure> {
    let runtime = daemon_client::runtime()?;
    let past = runtime.block_on(async {
        let mut client = connector.open().await?;
        Past::read(&mut client, &record.id.to_string(), extent, None, detail, print).await
    })?;
    print(&past.rows)?;
    let Past { mut transcript, after, .. } = past;
    if !follows || !matches!(record.status.as_str(), "created" | "running") {
        return print(&transcript.end_turn());
    }
    let seen = follow(connector, record, after, &mut transcript)?;
    // What was written between the last look and the end of the turn.
    runtime.block_on(async {
        let mut client: Client = connector.open().await?;
        past::read(&mut client, &record.id.to_string(), seen, |message| print(&transcript.take(&message))).await
    })?;
    print(&transcript.end_turn())
}

/// Until nothing is under way; returns the number of the last message.
fn follow(
    connector: &DaemonConnector,
    record: &SessionRecord,
    after: u64,
    transcript: &mut Transcript,
) -> Result<u64, Failure> {
    let mut feed = Feed::start(connector.clone(), record.id.to_string(), after).map_err(Failure::Runtime)?;
    let mut seen = after;
    let mut away = Away::default();
    loop {
        match feed.next().ok_or_else(super::feed_ended)? {
            Report::Connected => away.is_back(),
            Report::Message(message) => {
                seen = message.number;
                print(&transcript.take(&message))?;
            }
            Report::State(state) if is_idle(&state) => return Ok(seen),
            Report::State(_) => {}
            Report::Questions(pending) => pending.iter().for_each(say_question),
            Report::Ended(_) => return Ok(seen),
            Report::Refused(why) => return Err(Failure::failed(why, "")),
            Report::Lost(why) => away.is_lost(&why, &record.id.to_string())?,
        }
    }
}

/// How long the daemon has been away.
#[derive(Debug, Default)]
pub struct Away {
    since: Option<Instant>,
}

impl Away {
    pub fn is_back(&mut self) {
        self.since = None;
    }

    /// Fails once it has been away for too long.
    pub fn is_lost(&mut self, why: &str, id: &str) -> Result<(), Failure> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() <= PATIENCE {
            return Ok(());
        }
        let hint = format!("Go on with `coven chat {}`", format::short_id(id));
        Err(Failure::unavailable(format!("the daemon is away: {why}"), hint))
    }
}

/// Whether nothing is under way and nothing waits.
pub fn is_idle(state: &AcpStateRecord) -> bool {
    matches!(state.activity, Activity::Idle | Activity::Ended) && state.queued == 0
}

pub fn print(rows: &[Row]) -> Result<(), Failure> {
    let text: String = rows.iter().map(|row| format!("{}\n", row.text())).collect();
    if text.is_empty() { Ok(()) } else { output::bytes(text.as_bytes()) }
}

/// The transcript of a session on a terminal, as far as it goes.
pub fn print_transcript(connector: &DaemonConnector, record: &SessionRecord) -> Result<(), Failure> {
    let columns = output::terminal_size().map(|(_, columns)| usize::from(columns));
    let has_colour = super::has_colour();
    daemon_client::block_on(async {
        let mut client = connector.open().await?;
        let detail = Detail::default();
        let print = |rows: &[Row]| {
            let text: String = rows.iter().map(|row| format!("{}\n", row.ansi(has_colour))).collect();
            output::bytes(text.as_bytes())
        };
        let mut past = Past::read(&mut client, &record.id.to_string(), Extent::All, columns, detail, print).await?;
        print(&past.transcript.end_turn())
    })
}
