//! Follows a session's messages and what its agent does, through every restart of the daemon.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coven_api::SessionRecord;
use coven_api::message::{AgentStateRecord, MessageRecord, MessagesQuery};
use coven_api::routes::{Endpoint, ListMessages};
use coven_client::{ClientError, SseEvent};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::feed::Reports;
use super::report::Report;
use crate::failure::Failure;
use crate::way::Way;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The daemon says something at least every quarter of a minute: after so long it is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Why following stopped.
enum Stop {
    /// The session is over, or nobody listens any more.
    Done,
    /// The stream ended without a word, or said nothing for too long.
    Cut,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Follows until the session is over or the chat is left. `seen` is the number of the last message.
pub async fn follow(way: &Way, id: &str, seen: &AtomicU64, asks: &watch::Sender<bool>, reports: &Reports) {
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match follow_once(way, id, seen, asks, reports, &mut pause).await {
            Stop::Done => return,
            Stop::Cut => String::new(),
            // What the daemon refuses once it refuses again.
            Stop::Failed(failure @ Failure::Client(ClientError::Api { status: 400..500, .. })) => {
                reports.send(Report::Refused(failure.sentence())).await;
                return;
            }
            Stop::Failed(failure) => failure.sentence(),
        };
        if !reports.send(Report::Lost(why)).await {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn follow_once(
    way: &Way,
    id: &str,
    seen: &AtomicU64,
    asks: &watch::Sender<bool>,
    reports: &Reports,
    pause: &mut Duration,
) -> Stop {
    let opened = async {
        let query = MessagesQuery { after: Some(seen.load(Ordering::Relaxed)), ..MessagesQuery::default() };
        Ok::<_, Failure>(way.open().await?.events(ListMessages::of(id).query(&query), None).await?)
    };
    let mut stream = match opened.await {
        Ok(stream) => stream,
        Err(failure) => return Stop::Failed(failure),
    };
    if !reports.send(Report::Connected).await {
        return Stop::Done;
    }
    *pause = FIRST_PAUSE;
    loop {
        let event = match timeout(SILENCE, stream.next()).await {
            Ok(Ok(Some(event))) => event,
            Ok(Ok(None)) | Err(_) => return Stop::Cut,
            Ok(Err(error)) => return error.into(),
        };
        match take(&event, seen, asks, reports).await {
            Ok(true) => {}
            Ok(false) => return Stop::Done,
            Err(error) => return error.into(),
        }
    }
}

/// Whether there is more to follow.
async fn take(
    event: &SseEvent,
    seen: &AtomicU64,
    asks: &watch::Sender<bool>,
    reports: &Reports,
) -> Result<bool, ClientError> {
    match event.kind.as_str() {
        "message" => {
            let message: MessageRecord = serde_json::from_str(&event.data)?;
            // Told already, before the stream broke.
            if seen.fetch_max(message.number, Ordering::Relaxed) >= message.number {
                return Ok(true);
            }
            Ok(reports.send(Report::Message(Box::new(message))).await)
        }
        "state" => {
            let state: AgentStateRecord = serde_json::from_str(&event.data)?;
            asks.send_if_modified(|asks| {
                let before = std::mem::replace(asks, state.activity == "waiting");
                *asks || before
            });
            Ok(reports.send(Report::State(Box::new(state))).await)
        }
        "end" => {
            let record: SessionRecord = serde_json::from_str(&event.data)?;
            reports.send(Report::Ended(Box::new(record))).await;
            Ok(false)
        }
        // A newer daemon may tell more.
        _ => Ok(true),
    }
}
