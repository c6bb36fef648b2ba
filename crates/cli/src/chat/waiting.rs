//! Watches for new items in the inbox, of any session.

use coven_client::{Client, EventFollower, Followed, SseEvent};

use super::feed::Reports;
use super::report::Report;
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::inbox_alerts::new_inbox_item;

/// Runs until the chat is left. The watch on the session reports that the daemon is away.
pub async fn watch(connector: &DaemonConnector, since: u64, reports: &Reports) {
    let mut follower = EventFollower::new(connector, Some(since.to_string()));
    let mut client = None;
    // A daemon that refuses to send its events refuses again; the chat continues without them.
    while let Ok(followed) = follower.next().await {
        let Followed::Events(events) = followed else { continue };
        match report(connector, &mut client, &events, reports).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                client = None;
                follower.resubscribe();
            }
        }
    }
}

/// Whether the chat is still open.
async fn report(
    connector: &DaemonConnector,
    client: &mut Option<Client>,
    events: &[SseEvent],
    reports: &Reports,
) -> Result<bool, Failure> {
    let client = match client {
        Some(client) => client,
        None => client.insert(connector.open().await?),
    };
    for event in events {
        if let Some(item) = new_inbox_item(client, event).await?
            && !reports.send(Report::Waits(Box::new(item))).await
        {
            return Ok(false);
        }
    }
    Ok(true)
}
