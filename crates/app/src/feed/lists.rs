//! Reads the lists of the app: what lives or waits first, then the newest of the rest. No list is read without a bound.

use coven_api::inbox::InboxQuery;
use coven_api::list::List;
use coven_api::routes::{Endpoint, ListInbox, ListSessions, ListTasks};
use coven_api::session::ListSessionsQuery;
use coven_api::task::ListTasksQuery;
use coven_client::{Client, ClientError};
use tokio::sync::mpsc::Sender;

use super::Report;
use crate::setup::Connect;

/// Rows of the first page, which is painted first.
const FIRST_PAGE: usize = 100;
const PAGE: usize = 500;
/// Live sessions in the list. A machine does not run more.
const MAX_LIVE: usize = 20_000;
/// Ended sessions in the list; the History view reads the others.
pub const MAX_FINISHED: usize = 100;
const MAX_ITEMS: usize = 5_000;
const MAX_TASKS: usize = 5_000;

pub const ENDED: &str = "completed,failed,killed,orphaned";

/// Reads everything once. A failure ends it: the connection is lost then, and the next one reads again.
pub async fn read_all(connect: Connect, reports: Sender<Report>) {
    let Ok(mut client) = connect().await else { return };
    if reports.send(Report::ReadStarted).await.is_err() || read(&mut client, &reports).await.is_err() {
        return;
    }
    let _ = reports.send(Report::ReadEnded).await;
}

async fn read(client: &mut Client, reports: &Sender<Report>) -> Result<(), ClientError> {
    let live = |activity: Option<&str>, status: Option<&str>| ListSessionsQuery {
        activity: activity.map(str::to_owned),
        status: status.map(str::to_owned),
        ..ListSessionsQuery::default()
    };
    read_sessions(client, reports, live(Some("permission,question"), None), MAX_LIVE).await?;
    send_inbox(client, reports).await?;
    read_sessions(client, reports, live(None, Some("created,running")), MAX_LIVE).await?;
    let total = read_sessions(client, reports, live(None, Some(ENDED)), MAX_FINISHED).await?;
    let _ = reports.send(Report::FinishedTotal(total)).await;
    read_tasks(client, reports).await
}

/// Reads a list of sessions page by page. Returns how many there are.
async fn read_sessions(
    client: &mut Client,
    reports: &Sender<Report>,
    mut query: ListSessionsQuery,
    most: usize,
) -> Result<u64, ClientError> {
    let (mut count, mut total) = (0, 0);
    loop {
        query.limit = Some(if count == 0 { FIRST_PAGE } else { PAGE }.min(most - count));
        let List { items, next, total: all } = client.call(ListSessions::request().query(&query)).await?;
        count += items.len();
        total = all.unwrap_or(total).max(count as u64);
        let _ = reports.send(Report::Sessions(items)).await;
        match next {
            Some(next) if count < most => query.cursor = Some(next),
            _ => return Ok(total),
        }
    }
}

pub async fn read_inbox(connect: Connect, reports: Sender<Report>) {
    if let Ok(mut client) = connect().await {
        // A failure means that the connection is lost; the next one reads the inbox.
        let _ = send_inbox(&mut client, &reports).await;
    }
}

async fn send_inbox(client: &mut Client, reports: &Sender<Report>) -> Result<(), ClientError> {
    let mut items = Vec::new();
    let mut query = InboxQuery { limit: Some(PAGE), ..InboxQuery::default() };
    loop {
        let page = client.call(ListInbox::request().query(&query)).await?;
        items.extend(page.items);
        match page.next {
            Some(next) if items.len() < MAX_ITEMS => query.cursor = Some(next),
            _ => break,
        }
    }
    let _ = reports.send(Report::Inbox(items)).await;
    Ok(())
}

async fn read_tasks(client: &mut Client, reports: &Sender<Report>) -> Result<(), ClientError> {
    let mut count = 0;
    let mut query = ListTasksQuery { limit: Some(PAGE), ..ListTasksQuery::default() };
    loop {
        let page = client.call(ListTasks::request().query(&query)).await?;
        count += page.items.len();
        let _ = reports.send(Report::Tasks(page.items)).await;
        match page.next {
            Some(next) if count < MAX_TASKS => query.cursor = Some(next),
            _ => return Ok(()),
        }
    }
}
