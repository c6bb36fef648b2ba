//! Follows a session's messages and what its agent does, through every restart of the daemon.

use std::sync::atomic::{AtomicU64, Ordering};

use coven_api::SessionRecord;
use coven_api::acp_state::AcpStateRecord;
use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::routes::{Endpoint, ListMessages};
use coven_client::{ClientError, EventFollower, Followed, SseEvent};
use coven_domain::message::Activity;
use tokio::sync::watch;

use super::feed::Reports;
use super::report::Report;
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;

/// Follows until the session is over or the chat is left. `seen` is the number of the last message.
pub async fn follow(
    connector: &DaemonConnector,
    id: &str,
    seen: &AtomicU64,
    asks: &watch::Sender<bool>,
    reports: &Reports,
) {
    let after = MessagesQuery { after: Some(seen.load(Ordering::Relaxed)), ..MessagesQuery::default() };
    let mut follower = EventFollower::of(connector, ListMessages::of(id).query(&after), None);
    loop {
        let is_open = match follower.next().await {
            Ok(Followed::Connected) => reports.send(Report::Connected).await,
            Ok(Followed::Events(events)) => match take_all(&events, seen, asks, reports).await {
                Ok(is_open) => is_open,
                Err(error) => {
                    follower.resubscribe();
                    reports.send(Report::Lost(Failure::from(error).sentence())).await
                }
            },
            // The stream ended without a reason, or was silent for too long.
            Ok(Followed::Disconnected(Failure::Client(ClientError::Closed | ClientError::Silent))) => {
                reports.send(Report::Lost(String::new())).await
            }
            Ok(Followed::Disconnected(failure)) => reports.send(Report::Lost(failure.sentence())).await,
            Err(refusal) => {
                reports.send(Report::Refused(refusal.sentence())).await;
                return;
            }
        };
        if !is_open {
            return;
        }
    }
}

/// Whether there is more to follow.
async fn take_all(
    events: &[SseEvent],
    seen: &AtomicU64,
    asks: &watch::Sender<bool>,
    reports: &Reports,
) -> Result<bool, ClientError> {
    for event in events {
        if !take(event, seen, asks, reports).await? {
            return Ok(false);
        }
    }
    Ok(true)
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
            let state: AcpStateRecord = serde_json::from_str(&event.data)?;
            asks.send_if_modified(|asks| {
                let before = std::mem::replace(asks, state.activity == Activity::Waiting);
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
