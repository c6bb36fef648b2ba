//! Keeps the list true: reads it page by page, then follows the daemon's events.

use std::collections::BTreeSet;
use std::path::Path;

use coven_api::event::EventRecord;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, GetSession, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_api::{ErrorCode, List};
use coven_client::{Client, SseEvent};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use super::item::Item;
use super::report::Report;
use crate::inbox_alerts::new_inbox_item;
use crate::mirror::{self, Mirror, Stop, in_time};

const PAGE: usize = 1000;
/// When so many sessions changed at once, reading pages is cheaper than reading each.
const MANY: usize = 100;

/// Keeps the list up to date until the browser is left.
pub async fn follow(socket: &Path, include_archived: watch::Receiver<bool>, reports: &Sender<Report>) {
    mirror::follow(socket, &mut Sessions { include_archived, reports }).await;
}

struct Sessions<'a> {
    include_archived: watch::Receiver<bool>,
    reports: &'a Sender<Report>,
}

impl Mirror for Sessions<'_> {
    async fn connected(&mut self) -> Result<(), Stop> {
        tell(self.reports, Report::Connected).await
    }

    async fn read(&mut self, client: &mut Client) -> Result<(), Stop> {
        let all = *self.include_archived.borrow_and_update();
        read_list(client, all, self.reports).await
    }

    async fn apply(&mut self, client: &mut Client, events: &[SseEvent]) -> Result<bool, Stop> {
        for event in events {
            if let Some(item) = in_time(new_inbox_item(client, event)).await? {
                tell(self.reports, Report::Waits(Box::new(item))).await?;
            }
        }
        match changes(events) {
            Changes::These(ids) => read_each(client, &ids, self.reports).await.map(|()| true),
            Changes::Many => Ok(false),
        }
    }

    async fn wanted(&mut self) -> Result<(), Stop> {
        self.include_archived.changed().await.map_err(|_| Stop::Left)
    }

    async fn lost(&mut self, why: String) -> Result<(), Stop> {
        tell(self.reports, Report::Lost(why)).await
    }
}

async fn tell(reports: &Sender<Report>, report: Report) -> Result<(), Stop> {
    reports.send(report).await.map_err(|_| Stop::Left)
}

/// Reads an answer as the browser's rows.
async fn read<E: Endpoint, T: DeserializeOwned>(client: &mut Client, request: Request<E>) -> Result<T, Stop> {
    let body = in_time(client.bytes(request)).await?;
    serde_json::from_slice(&body).map_err(|error| Stop::Daemon(error.into()))
}

async fn read_list(client: &mut Client, all: bool, reports: &Sender<Report>) -> Result<(), Stop> {
    tell(reports, Report::ReadingStarted).await?;
    let mut query = ListSessionsQuery { limit: Some(PAGE), all: all.then_some(true), ..ListSessionsQuery::default() };
    loop {
        let page: List<Item> = read(client, ListSessions::request().query(&query)).await?;
        tell(reports, Report::Page { total: page.total.unwrap_or(page.items.len() as u64), sessions: page.items })
            .await?;
        query.cursor = page.next;
        if query.cursor.is_none() {
            return tell(reports, Report::ReadingEnded).await;
        }
    }
}

async fn read_each(client: &mut Client, ids: &BTreeSet<String>, reports: &Sender<Report>) -> Result<(), Stop> {
    for id in ids {
        match read::<_, Item>(client, GetSession::of(id)).await {
            Ok(record) => tell(reports, Report::Changed(Box::new(record))).await?,
            Err(Stop::Daemon(error)) if error.is(ErrorCode::SessionNotFound) => {
                tell(reports, Report::Gone(id.clone())).await?;
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Changes {
    These(BTreeSet<String>),
    /// Too many, or some are not known: the list has to be read again.
    Many,
}

fn changes(events: &[SseEvent]) -> Changes {
    let mut ids = BTreeSet::new();
    for event in events {
        match event.kind.as_str() {
            // The snapshot that follows it is as old as the list that is read now; it is passed over below.
            "gap" => return Changes::Many,
            // The record is the same.
            "session.output" => {}
            kind if kind.starts_with("session.") => match serde_json::from_str::<EventRecord>(&event.data) {
                Ok(event) => {
                    ids.insert(event.subject);
                }
                Err(_) => return Changes::Many,
            },
            // Tasks, questions and the like are not in this list.
            _ => {}
        }
    }
    if ids.len() > MANY { Changes::Many } else { Changes::These(ids) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, subject: &str) -> SseEvent {
        let data =
            json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": {}})
                .to_string();
        SseEvent { id: None, kind: kind.to_owned(), data }
    }

    #[test]
    fn each_changed_session_is_read_once() {
        let events = [event("session.killed", "a"), event("session.exited", "a"), event("task.closed", "t")];
        assert_eq!(changes(&events), Changes::These(BTreeSet::from(["a".to_owned()])));
    }

    #[test]
    fn after_a_gap_or_a_flood_the_whole_list_is_read() {
        assert_eq!(changes(&[event("session.killed", "a"), event("gap", "")]), Changes::Many);
        let flood: Vec<_> = (0..=MANY).map(|n| event("session.created", &n.to_string())).collect();
        assert_eq!(changes(&flood), Changes::Many);
        let strange = SseEvent { id: None, kind: "session.killed".into(), data: "?".into() };
        assert_eq!(changes(&[strange]), Changes::Many);
    }
}
