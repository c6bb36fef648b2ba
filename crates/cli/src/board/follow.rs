//! Keeps the board true: reads everything once, then follows the daemon's events.

use std::collections::BTreeSet;
use std::path::Path;

use coven_api::ErrorCode;
use coven_api::event::EventRecord;
use coven_api::workflow::AgentRecord;
use coven_client::{Client, SseEvent};
use serde::Deserialize as _;
use tokio::sync::mpsc::Sender;

use super::read;
use super::report::Report;
use crate::mirror::{self, Mirror, Stop, in_time};
use crate::verb::task_text::TaskView;

/// When so many tasks changed at once, reading the lists is cheaper than reading each.
const MANY: usize = 100;

/// Keeps the board up to date until it is left.
pub async fn follow(socket: &Path, reports: &Sender<Report>) {
    mirror::follow(socket, &mut Tasks { reports }).await;
}

struct Tasks<'a> {
    reports: &'a Sender<Report>,
}

impl Mirror for Tasks<'_> {
    async fn connected(&mut self) -> Result<(), Stop> {
        tell(self.reports, Report::Connected).await
    }

    async fn read(&mut self, client: &mut Client) -> Result<(), Stop> {
        let snapshot = in_time(read::everything(client)).await?;
        tell(self.reports, Report::Read(Box::new(snapshot))).await
    }

    async fn apply(&mut self, client: &mut Client, events: &[SseEvent]) -> Result<bool, Stop> {
        match changes(events) {
            Changes::These(changed) => read_changed(client, changed, self.reports).await.map(|()| true),
            Changes::Many => Ok(false),
        }
    }

    async fn lost(&mut self, why: String) -> Result<(), Stop> {
        tell(self.reports, Report::Lost(why)).await
    }
}

async fn tell(reports: &Sender<Report>, report: Report) -> Result<(), Stop> {
    reports.send(report).await.map_err(|_| Stop::Left)
}

async fn read_changed(client: &mut Client, changed: Changed, reports: &Sender<Report>) -> Result<(), Stop> {
    for agent in changed.agents {
        tell(reports, Report::Agent(Box::new(agent))).await?;
    }
    for id in &changed.tasks {
        match in_time(TaskView::read(client, id)).await {
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
        if event.kind == "task.lease_renewed"
            || !matches!(
                noun,
                "task" | "agent" | "workflow" | "permission" | "question_set" | "agent_question" | "terminal_prompt"
            )
        {
            continue;
        }
        let Ok(record) = serde_json::from_str::<EventRecord>(&event.data) else { return Changes::Many };
        let task_of = |noun: &str| record.payload[noun]["task_id"].as_str().map(str::to_owned);
        let task = match noun {
            "permission" | "question_set" | "agent_question" | "terminal_prompt" => {
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

    const T: &str = "00000001-0000-4000-8000-000000000001";

    fn event(kind: &str, subject: &str, payload: Value) -> SseEvent {
        let data = json!({"number": 1, "kind": kind, "subject": subject, "at": "2026-11-15T08:00:00.000Z", "payload": payload}).to_string();
        SseEvent { id: None, kind: kind.to_owned(), data }
    }

    #[test]
    fn each_changed_task_is_read_once_whatever_of_it_changed() {
        let run = json!({"workflow": {"id": "w", "task_id": T}});
        let worker = agent(T, "5e550000-0000-4000-8000-000000000001");
        let events = [
            event("task.claimed", T, json!({})),
            event("workflow.step.started", "w", run),
            event("agent.started", "a", json!({"agent": worker})),
            event("session.exited", "s", json!({})),
            event("task.lease_renewed", "other", json!({})),
            event("permission.requested", "p", json!({})),
        ];
        let expected =
            Changed { tasks: BTreeSet::from([T.to_owned()]), agents: vec![worker], has_moved: true, has_asked: true };
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
