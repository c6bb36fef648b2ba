//! Keeps the board true: reads everything once, then follows the daemon's events.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coven_api::ErrorCode;
use coven_api::event::{EventRecord, EventsQuery};
use coven_api::routes::{Endpoint, GetTask, Health, ListEvents};
use coven_api::workflow::AgentRecord;
use coven_client::{Client, ClientError, SseEvent};
use serde::Deserialize as _;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::read;
use super::report::Report;
use crate::failure::Failure;

/// When so many tasks changed at once, reading the lists is cheaper than reading each.
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
    /// The board is gone.
    NobodyListens,
}

impl<E: Into<ClientError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Daemon(error.into())
    }
}

/// Follows, and starts again whenever the daemon goes away, until the board is left.
pub async fn follow(socket: &Path, reports: &Sender<Report>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let why = match follow_once(socket, reports, &mut pause).await {
            Stop::NobodyListens => return,
            Stop::StreamEnded | Stop::Daemon(ClientError::Unreachable { .. } | ClientError::Broken(_)) => {
                "`coven daemon start` starts it".to_owned()
            }
            Stop::Daemon(error) => Failure::from(error).sentence(),
            Stop::Silent => "it does not answer; see `coven daemon status`".to_owned(),
        };
        if reports.send(Report::Lost(why)).await.is_err() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn follow_once(socket: &Path, reports: &Sender<Report>, pause: &mut Duration) -> Stop {
    match try_to_follow(socket, reports, pause).await {
        Ok(never) => match never {},
        Err(stop) => stop,
    }
}

async fn try_to_follow(
    socket: &Path,
    reports: &Sender<Report>,
    pause: &mut Duration,
) -> Result<std::convert::Infallible, Stop> {
    let mut asking = Client::connect(socket).await?;
    let health = in_time(asking.call(Health::request())).await?;
    // The stream begins before the lists are read: what changes meanwhile is told, so nothing falls in between.
    let streaming = Client::connect(socket).await?;
    let since = EventsQuery { since: Some(health.last_event.to_string()), ..EventsQuery::default() };
    let mut stream = in_time(streaming.events(ListEvents::request().query(&since), None)).await?;
    tell(reports, Report::Connected).await?;
    *pause = FIRST_PAUSE;
    loop {
        let snapshot = in_time(read::everything(&mut asking)).await?;
        tell(reports, Report::Read(Box::new(snapshot))).await?;
        loop {
            let events = stream.next_batch().await?.ok_or(Stop::StreamEnded)?;
            match changes(&events) {
                Changes::These(changed) => read_changed(&mut asking, changed, reports).await?,
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

async fn read_changed(client: &mut Client, changed: Changed, reports: &Sender<Report>) -> Result<(), Stop> {
    for agent in changed.agents {
        tell(reports, Report::Agent(Box::new(agent))).await?;
    }
    for id in &changed.tasks {
        match in_time(client.call(GetTask::of(id))).await {
            Ok(detail) => tell(reports, Report::Changed(Box::new(detail))).await?,
            Err(Stop::Daemon(error)) if error.is(ErrorCode::TaskNotFound) => {
                tell(reports, Report::Gone(id.clone())).await?;
            }
            Err(stop) => return Err(stop),
        }
    }
    // What one task waits for is another one's state.
    if changed.has_moved {
        let ready = in_time(read::ready(client)).await?;
        tell(reports, Report::Ready(ready)).await?;
    }
    if changed.has_asked {
        let inbox = in_time(read::inbox(client)).await?;
        tell(reports, Report::Inbox(inbox)).await?;
    }
    Ok(())
}

/// What some events were about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changed {
    tasks: BTreeSet<String>,
    agents: Vec<AgentRecord>,
    /// A task itself has changed, not only its run.
    has_moved: bool,
    has_asked: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Changes {
    These(Changed),
    /// Too many, or some are not known: everything has to be read again.
    Many,
}

fn changes(events: &[SseEvent]) -> Changes {
    let mut changed = Changed::default();
    for event in events {
        // The snapshot that follows a gap is as old as what is read now; it is passed over below.
        if event.kind == "gap" {
            return Changes::Many;
        }
        let (noun, _) = event.kind.split_once('.').unwrap_or((&event.kind, ""));
        // Claims are renewed all the time and change nothing that is shown.
        if event.kind == "task.renewed"
            || !matches!(noun, "task" | "agent" | "workflow" | "permission" | "question_set" | "question")
        {
            continue;
        }
        let Ok(record) = serde_json::from_str::<EventRecord>(&event.data) else { return Changes::Many };
        let task_of = |noun: &str| record.payload[noun]["task_id"].as_str().map(str::to_owned);
        let task = match noun {
            "permission" | "question_set" | "question" => {
                changed.has_asked = true;
                continue;
            }
            "task" => {
                changed.has_moved = true;
                Some(record.subject.clone())
            }
            "workflow" => task_of("workflow"),
            _ => match record.payload.get("agent").map(AgentRecord::deserialize) {
                Some(Ok(agent)) => {
                    changed.agents.push(agent);
                    continue;
                }
                _ => task_of("agent"),
            },
        };
        match task {
            Some(id) => changed.tasks.insert(id),
            None => return Changes::Many,
        };
    }
    if changed.tasks.len() > MANY { Changes::Many } else { Changes::These(changed) }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::agent;
    use super::*;
    use serde_json::{Value, json};

    fn event(kind: &str, subject: &str, payload: Value) -> SseEvent {
        let data = json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": payload}).to_string();
        SseEvent { id: None, kind: kind.to_owned(), data }
    }

    #[test]
    fn each_changed_task_is_read_once_whatever_of_it_changed() {
        let run = json!({"workflow": {"id": "w", "task_id": "t"}});
        let worker = agent("t", "s");
        let events = [
            event("task.claimed", "t", json!({})),
            event("workflow.step.started", "w", run),
            event("agent.started", "a", json!({"agent": worker})),
            event("session.exited", "s", json!({})),
            event("task.renewed", "other", json!({})),
            event("permission.requested", "p", json!({})),
        ];
        let expected =
            Changed { tasks: BTreeSet::from(["t".to_owned()]), agents: vec![worker], has_moved: true, has_asked: true };
        assert_eq!(changes(&events), Changes::These(expected));
    }

    #[test]
    fn after_a_gap_a_flood_or_something_strange_everything_is_read() {
        assert_eq!(changes(&[event("task.closed", "t", json!({})), event("gap", "", json!({}))]), Changes::Many);
        let flood: Vec<_> = (0..=MANY).map(|n| event("task.created", &n.to_string(), json!({}))).collect();
        assert_eq!(changes(&flood), Changes::Many);
        assert_eq!(changes(&[event("workflow.step.started", "w", json!({}))]), Changes::Many);
        let strange = SseEvent { id: None, kind: "task.closed".into(), data: "?".into() };
        assert_eq!(changes(&[strange]), Changes::Many);
    }
}
