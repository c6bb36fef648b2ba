//! Keeps the list true: reads it page by page, then follows the daemon's events.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coven_api::ErrorCode;
use coven_api::event::{EventRecord, EventsQuery};
use coven_api::routes::{Endpoint, GetSession, Health, ListEvents, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_client::{Client, ClientError, SseEvent};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::report::Report;
use super::request::sentence;
use crate::arrivals::newly_waiting;

const PAGE: usize = 1000;
/// When so many sessions changed at once, reading pages is cheaper than reading each.
const MANY: usize = 100;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A daemon that accepts and does not answer is not reachable either.
const DEADLINE: Duration = Duration::from_secs(15);

/// Why following stopped.
enum Stop {
    Daemon(ClientError),
    Silent,
    /// The stream ended: the daemon is going down.
    StreamEnded,
    /// The browser is gone.
    NobodyListens,
}

impl<E: Into<ClientError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Daemon(error.into())
    }
}

/// Follows, and starts again whenever the daemon goes away, until the browser is left.
pub async fn follow(socket: &Path, mut include_archived: watch::Receiver<bool>, reports: &Sender<Report>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match follow_once(socket, &mut include_archived, reports, &mut pause).await {
            Ok(()) | Err(Stop::NobodyListens) => return,
            Err(Stop::StreamEnded | Stop::Daemon(ClientError::Unreachable { .. } | ClientError::Broken(_))) => {
                "`coven daemon start` starts it".to_owned()
            }
            Err(Stop::Daemon(error)) => sentence(error),
            Err(Stop::Silent) => "it does not answer; see `coven daemon status`".to_owned(),
        };
        if reports.send(Report::Lost(why)).await.is_err() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Ends well only when the browser has been left.
async fn follow_once(
    socket: &Path,
    include_archived: &mut watch::Receiver<bool>,
    reports: &Sender<Report>,
    pause: &mut Duration,
) -> Result<(), Stop> {
    let mut asking = Client::connect(socket).await?;
    let health = in_time(asking.call(Health::request())).await?;
    // The stream begins before the list is read: what changes meanwhile is told, so nothing falls in between.
    let streaming = Client::connect(socket).await?;
    let since = EventsQuery { since: Some(health.last_event.to_string()), ..EventsQuery::default() };
    let mut stream = in_time(streaming.events(ListEvents::request().query(&since), None)).await?;
    tell(reports, Report::Connected).await?;
    *pause = FIRST_PAUSE;
    loop {
        let all = *include_archived.borrow_and_update();
        read_list(&mut asking, all, reports).await?;
        loop {
            let events = tokio::select! {
                events = stream.next_batch() => events?.ok_or(Stop::StreamEnded)?,
                changed = include_archived.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return Ok(()),
                },
            };
            for event in &events {
                if let Some(item) = in_time(newly_waiting(&mut asking, event)).await? {
                    tell(reports, Report::Waits(Box::new(item))).await?;
                }
            }
            match changes(&events) {
                Changes::These(ids) => read_each(&mut asking, &ids, reports).await?,
                Changes::Many => break,
            }
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, Stop> {
    timeout(DEADLINE, asked).await.map_err(|_| Stop::Silent)?.map_err(Stop::Daemon)
}

async fn tell(reports: &Sender<Report>, report: Report) -> Result<(), Stop> {
    reports.send(report).await.map_err(|_| Stop::NobodyListens)
}

async fn read_list(client: &mut Client, all: bool, reports: &Sender<Report>) -> Result<(), Stop> {
    tell(reports, Report::ReadingStarted).await?;
    let mut query = ListSessionsQuery { limit: Some(PAGE), all: all.then_some(true), ..ListSessionsQuery::default() };
    loop {
        let page = in_time(client.call(ListSessions::request().query(&query))).await?;
        tell(reports, Report::Page { sessions: page.sessions, total: page.total }).await?;
        query.cursor = page.next;
        if query.cursor.is_none() {
            return tell(reports, Report::ReadingEnded).await;
        }
    }
}

async fn read_each(client: &mut Client, ids: &BTreeSet<String>, reports: &Sender<Report>) -> Result<(), Stop> {
    for id in ids {
        match in_time(client.call(GetSession::of(id))).await {
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
