//! Watches for what newly waits in the inbox, whoever asks.

use std::time::Duration;

use coven_api::event::EventsQuery;
use coven_api::routes::{Endpoint, ListEvents};
use coven_client::ClientError;
use tokio::time::{sleep, timeout};

use super::feed::Reports;
use super::report::Report;
use crate::arrivals::newly_waiting;
use crate::failure::Failure;
use crate::way::Way;

/// Between two tries while the daemon is away; following the session looks for it and says so.
const PAUSE: Duration = Duration::from_secs(1);
/// The daemon sends heartbeats: a stream that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(60);

/// Runs until the chat is left.
pub async fn watch(way: &Way, since: u64, reports: &Reports) {
    let mut since = since.to_string();
    loop {
        match watch_once(way, &mut since, reports).await {
            Ok(false) => return,
            // A daemon that refuses to tell its events refuses again; the chat goes on without them.
            Err(Failure::Client(ClientError::Api { status: 400..500, .. })) => return,
            Ok(true) | Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether somebody still listens.
async fn watch_once(way: &Way, since: &mut String, reports: &Reports) -> Result<bool, Failure> {
    let query = EventsQuery { since: Some(since.clone()), ..EventsQuery::default() };
    let mut stream = way.open().await?.events(ListEvents::request().query(&query), None).await?;
    let mut asking = way.open().await?;
    // Heartbeats come as no events at all.
    while let Ok(Some(events)) = timeout(SILENCE, stream.next_batch()).await.unwrap_or(Ok(None)) {
        for event in events {
            if let Some(item) = newly_waiting(&mut asking, &event).await?
                && !reports.send(Report::Waits(Box::new(item))).await
            {
                return Ok(false);
            }
            if let Some(id) = event.id {
                *since = id;
            }
        }
    }
    Ok(true)
}
