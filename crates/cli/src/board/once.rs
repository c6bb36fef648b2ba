//! The board as plain text or JSON: for pipes, scripts and tests.

use coven_api::inbox::InboxItem;
use coven_api::list::{List, ListKey};
use coven_api::task::TaskRecord;
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_client::{Client, ClientError};
use coven_domain::Timestamp;
use coven_domain::task::TaskState;
use serde::Serialize;
use serde_json::{Map, Value};

use super::card::awaited;
use super::lines;
use super::read;
use super::tasks::{COLUMNS, Card, Merge, Tasks, name};
use crate::format::{format_duration, short_id};
use crate::table::Table;

/// Everything that the board would show.
pub async fn read(client: &mut Client, hides_closed: bool) -> Result<Tasks, ClientError> {
    let mut tasks = Tasks::new(String::new(), hides_closed, None);
    tasks.read(read::everything(client).await?);
    tasks.settle();
    let at_work = COLUMNS.iter().position(|state| *state == TaskState::InProgress).unwrap_or(0);
    let agents = tasks.column(at_work).iter().filter_map(|id| tasks.card(id)?.agent?.session_id);
    let agents = agents.map(|id| id.to_string());
    for session in agents.collect::<Vec<_>>() {
        // A session that cannot be seen is no reason to show nothing.
        if let Ok(Some(line)) = lines::last_line(client, &session).await {
            tasks.wrote(session, line);
        }
    }
    Ok(tasks)
}

/// One table per state.
pub fn text(tasks: &Tasks, now: Timestamp, width: Option<usize>) -> String {
    let mut text = String::new();
    for (at, state) in COLUMNS.iter().enumerate().take(tasks.column_count()) {
        let cards: Vec<Card<'_>> = tasks.column(at).iter().filter_map(|id| tasks.card(id)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{} {}\n", name(*state), cards.len()));
        if !cards.is_empty() {
            text.push_str(&table(*state, &cards, now).text(width));
        }
    }
    text
}

fn table(state: TaskState, cards: &[Card<'_>], now: Timestamp) -> Table {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let first = |card: &Card<'_>| {
        let task = card.task;
        [task.id.short(), task.priority.get().to_string(), task.kind.to_string(), task.title.clone()]
    };
    match state {
        TaskState::Open => {
            let mut table = Table::new(&["ID", "PRIO", "TYPE", "TITLE", "READY", "WAITS FOR", "AGE"], &[3, 5]);
            for card in cards {
                let waits: Vec<&str> = card.waits.iter().map(|id| short_id(id)).collect();
                let ready = if card.is_ready { "ready" } else { "no" };
                let rest = [ready.to_owned(), waits.join(" "), format_duration(now.since(card.task.created_at))];
                table.row(first(card).into_iter().chain(rest));
            }
            table
        }
        TaskState::InProgress => {
            let head = ["ID", "PRIO", "TYPE", "TITLE", "STEP", "AGENT", "ASKS", "LAST LINE"];
            let mut table = Table::new(&head, &[7, 3]);
            for card in cards {
                let step = card.agent.and_then(|agent| agent.step.as_deref());
                let step = step.or_else(|| card.run.and_then(|run| run.step_name.as_deref()));
                let status = card.agent.map(|agent| agent.status.as_str());
                let asks = if card.questions > 0 { card.questions.to_string() } else { String::new() };
                table.row(first(card).into_iter().chain([text(step), text(status), asks, text(card.line)]));
            }
            table
        }
        TaskState::PendingMerge => {
            let mut table = Table::new(&["ID", "PRIO", "TYPE", "TITLE", "MERGE"], &[4, 3]);
            for card in cards {
                let merge = match card.merge() {
                    Merge::UnderWay { by } => format!("being merged, approved by {by}"),
                    Merge::Failed(why) => format!("not merged: {why}"),
                    Merge::Awaited => awaited(card.task),
                };
                table.row(first(card).into_iter().chain([merge]));
            }
            table
        }
        TaskState::Blocked | TaskState::Closed => {
            let mut table = Table::new(&["ID", "PRIO", "TYPE", "TITLE", "REASON", "SINCE"], &[4, 3]);
            for card in cards {
                let since = format_duration(now.since(card.task.closed_at.unwrap_or(card.task.updated_at)));
                table.row(first(card).into_iter().chain([text(card.task.reason.as_deref()), since]));
            }
            table
        }
    }
}

/// A task as programs see it here.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    task: &'a TaskRecord,
    ready: bool,
    agent: Option<&'a AgentRecord>,
    run: Option<&'a WorkflowRecord>,
    last_line: Option<&'a str>,
    questions: Vec<&'a InboxItem>,
}

/// A page of the board: the tasks of each state, in the order of the board, and `next`. It starts behind the task `after`;
/// none if that task has left the board.
pub fn json(
    tasks: &Tasks,
    list: ListKey,
    after: Option<&str>,
    limit: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut rest: Vec<(usize, &String)> = Vec::new();
    for at in 0..tasks.column_count() {
        rest.extend(tasks.column(at).iter().map(|id| (at, id)));
    }
    if let Some(after) = after {
        let Some(last) = rest.iter().position(|(_, id)| *id == after) else { return Ok(None) };
        rest.drain(..=last);
    }
    let page = List::page(rest, limit, |(_, id)| list.cursor(id));
    let mut states = Map::new();
    for (at, state) in COLUMNS.iter().enumerate().take(tasks.column_count()) {
        let shown = |card: Card<'_>| {
            let asked = |item: &&InboxItem| tasks.asker(item).is_some_and(|task| task.id == card.task.id);
            serde_json::to_value(Shown {
                task: card.task,
                ready: card.is_ready,
                agent: card.agent,
                run: card.run,
                last_line: card.line,
                questions: tasks.inbox().iter().filter(asked).collect(),
            })
        };
        let here = page.items.iter().filter(|(column, _)| *column == at);
        let cards = here.filter_map(|(_, id)| tasks.card(id)).map(shown);
        states.insert(state.to_string(), Value::Array(cards.collect::<Result<_, _>>()?));
    }
    states.insert("next".to_owned(), page.next.into());
    serde_json::to_vec(&states).map(Some)
}
