//! Looks at the inbox while the agent waits for an answer.

use std::time::Duration;

use coven_api::inbox::{InboxItem, InboxKind, InboxQuery, InboxStatus};
use coven_api::routes::{Endpoint, ListInbox};
use tokio::sync::watch;
use tokio::time::timeout;

use super::feed::Reports;
use super::report::Report;
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::listing::{self, Paging};

/// Another question may come, or one be answered elsewhere, while the agent waits all the time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(400);

/// Runs until nobody listens.
pub async fn watch(connector: &DaemonConnector, id: &str, mut asks: watch::Receiver<bool>, reports: &Reports) {
    let mut shown: Vec<InboxItem> = Vec::new();
    loop {
        let is_asking = *asks.borrow_and_update();
        if is_asking || !shown.is_empty() {
            // When the daemon is away the next look finds it again.
            if let Ok(pending) = look(connector, id).await
                && pending != shown
            {
                shown.clone_from(&pending);
                if !reports.send(Report::Questions(pending)).await {
                    return;
                }
            }
        }
        let next = async {
            match is_asking || !shown.is_empty() {
                true => timeout(BETWEEN_LOOKS, asks.changed()).await.unwrap_or(Ok(())),
                false => asks.changed().await,
            }
        };
        if next.await.is_err() {
            return;
        }
    }
}

/// Reads what waits now.
async fn look(connector: &DaemonConnector, id: &str) -> Result<Vec<InboxItem>, Failure> {
    let mut client = connector.open().await?;
    let query = InboxQuery { session: Some(id.to_owned()), ..InboxQuery::default() };
    let waiting = listing::items(&mut client, ListInbox::request().query(&query), Paging::default()).await?;
    Ok(waiting.into_iter().filter(is_shown).collect())
}

/// Question sets are asked by other processes.
fn is_shown(item: &InboxItem) -> bool {
    item.status == InboxStatus::Pending && item.kind == InboxKind::Permission
}
