//! The board as plain text or JSON: for pipes, scripts and tests.

use std::collections::BTreeMap;

use coven_api::SessionRecord;
use coven_api::inbox::InboxItem;
use coven_api::list::{List, ListKey};
use coven_api::routes::{Endpoint, GetSession};
use coven_api::task::TaskRecord;
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_client::{Client, ClientError};
use coven_domain::activity::Activity;
use coven_domain::task::TaskState;
use coven_domain::{SessionId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::lines;
use super::read;
use super::tasks::{COLUMNS, Card, Merge, Tasks, name};
use crate::activity::{self, Group};
use crate::format::{self, format_duration, short_id};
use crate::table::Table;

/// Everything that the board would show, and what the agents at work do.
pub struct Board {
    tasks: Tasks,
    sessions: BTreeMap<SessionId, SessionRecord>,
}

impl Board {
    fn session(&self, card: &Card<'_>) -> Option<&SessionRecord> {
        self.sessions.get(&card.agent?.session_id?)
    }
}

pub async fn read(client: &mut Client, hides_closed: bool) -> Result<Board, ClientError> {
    let mut tasks = Tasks::new(hides_closed);
    tasks.read(read::everything(client).await?);
    tasks.settle();
    let at_work = COLUMNS.iter().position(|state| *state == TaskState::InProgress).unwrap_or(0);
    let agents = tasks.column(at_work).iter().filter_map(|id| tasks.card(id)?.agent?.session_id);
    let mut sessions = BTreeMap::new();
    for id in agents.collect::<Vec<SessionId>>() {
        let session = id.to_string();
        // A session that cannot be seen is no reason to show nothing.
        if let Ok(Some(line)) = lines::last_line(client, &session).await {
            tasks.wrote(session.clone(), line);
        }
        if let Ok(record) = client.call(GetSession::of(&session)).await {
            sessions.insert(id, record);
        }
    }
    Ok(Board { tasks, sessions })
}

/// Says that a task waits for a review, and how much there is to review.
fn awaited(task: &TaskRecord) -> String {
    match task.changes {
        Some(changes) => format!("waits for review: {changes}"),
        None => "waits for review".to_owned(),
    }
}

/// The tasks that need the user, if there are any; then one table per state.
pub fn text(board: &Board, now: Timestamp, width: Option<usize>) -> String {
    let tasks = &board.tasks;
    let needing = needs_you(board, now);
    let mut text =
        needing.map_or_else(String::new, |(count, table)| format!("needs you {count}\n{}", table.text(width)));
    for (at, state) in COLUMNS.iter().enumerate().take(tasks.column_count()) {
        let cards: Vec<Card<'_>> = tasks.column(at).iter().filter_map(|id| tasks.card(id)).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{} {}\n", name(*state), cards.len()));
        if !cards.is_empty() {
            text.push_str(&table(*state, cards, board, now).text(width));
        }
    }
    text
}

/// Returns the tasks that need the user, with their number: those whose agents ask, then reviews, then blocked tasks.
fn needs_you(board: &Board, now: Timestamp) -> Option<(usize, Table)> {
    let mut table = Table::new(&["ID", "PRIO", "TITLE", "NEEDS", "DETAIL"], &[4, 2]);
    let mut count = 0;
    for wanted in [TaskState::InProgress, TaskState::PendingMerge, TaskState::Blocked] {
        let at = COLUMNS.iter().position(|state| *state == wanted).expect("every state has a column");
        for card in board.tasks.column(at).iter().filter_map(|id| board.tasks.card(id)) {
            let Some((need, detail)) = need_of(&card, board, now) else { continue };
            let task = card.task;
            table.row([task.id.short(), task.priority.get().to_string(), task.title.clone(), need, detail]);
            count += 1;
        }
    }
    (count > 0).then_some((count, table))
}

/// Returns what a task needs from the user.
fn need_of(card: &Card<'_>, board: &Board, now: Timestamp) -> Option<(String, String)> {
    match card.task.status {
        TaskState::InProgress => {
            let session = board.session(card).filter(|session| Group::of(session) == Group::NeedsYou);
            match session {
                Some(session) => {
                    let detail = session.activity_detail.clone().unwrap_or_default();
                    Some((activity::cell(session, now), detail))
                }
                // `coven inbox` lists them.
                None if card.questions > 0 => Some(("answer".to_owned(), format::count(card.questions, "inbox item"))),
                None => None,
            }
        }
        TaskState::PendingMerge => match card.merge() {
            Merge::UnderWay { .. } => None,
            Merge::Failed(why) => Some(("review".to_owned(), format!("not merged: {why}"))),
            Merge::Awaited => Some(("review".to_owned(), awaited(card.task))),
        },
        TaskState::Blocked => Some(("decision".to_owned(), card.task.reason.clone().unwrap_or_default())),
        TaskState::Open | TaskState::Closed => None,
    }
}

fn table(state: TaskState, mut cards: Vec<Card<'_>>, board: &Board, now: Timestamp) -> Table {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let first = |card: &Card<'_>| {
        let task = card.task;
        [task.id.short(), task.priority.get().to_string(), task.kind.to_string(), task.title.clone()]
    };
    match state {
        TaskState::Open => {
            let mut table = Table::new(&["ID", "PRIO", "TYPE", "TITLE", "READY", "WAITS FOR", "AGE"], &[3, 5]);
            for card in &cards {
                let waits: Vec<&str> = card.waits.iter().map(|id| short_id(id)).collect();
                let ready = if card.is_ready { "ready" } else { "no" };
                let rest = [ready.to_owned(), waits.join(" "), format_duration(now.since(card.task.created_at))];
                table.row(first(card).into_iter().chain(rest));
            }
            table
        }
        TaskState::InProgress => {
            // Agents that need the user come first.
            cards.sort_by_key(|card| board.session(card).map_or(Group::Working, Group::of));
            let head = ["ID", "PRIO", "TYPE", "TITLE", "STEP", "AGENT", "ACTIVITY", "DETAIL", "ASKS", "LAST LINE"];
            let mut table = Table::new(&head, &[9, 3, 7]);
            for card in &cards {
                let step = card.agent.and_then(|agent| agent.step.as_deref());
                let step = step.or_else(|| card.run.and_then(|run| run.step_name.as_deref()));
                let wait = card.wait(now);
                let status = wait.as_deref().or_else(|| card.agent.map(|agent| agent.status.as_str()));
                let asks = if card.questions > 0 { card.questions.to_string() } else { String::new() };
                let session = board.session(card);
                let doing = session.map(|session| activity::cell(session, now)).unwrap_or_default();
                let detail = text(session.and_then(|session| session.activity_detail.as_deref()));
                let rest = [text(step), text(status), doing, detail, asks, text(card.line)];
                table.row(first(card).into_iter().chain(rest));
            }
            table
        }
        TaskState::PendingMerge => {
            let mut table = Table::new(&["ID", "PRIO", "TYPE", "TITLE", "MERGE"], &[4, 3]);
            for card in &cards {
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
            for card in &cards {
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
    activity: Option<Activity>,
    activity_detail: Option<&'a str>,
}

/// A page of the board: the tasks of each state, in the order of the board, and `next`. It starts behind the task `after`;
/// none if that task has left the board.
pub fn json(
    board: &Board,
    list: ListKey,
    after: Option<&str>,
    limit: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let tasks = &board.tasks;
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
            let session = board.session(&card);
            let asked = |item: &&InboxItem| tasks.asker(item).is_some_and(|task| task.id == card.task.id);
            serde_json::to_value(Shown {
                task: card.task,
                ready: card.is_ready,
                agent: card.agent,
                run: card.run,
                last_line: card.line,
                questions: tasks.inbox().iter().filter(asked).collect(),
                activity: session.and_then(|session| session.activity),
                activity_detail: session.and_then(|session| session.activity_detail.as_deref()),
            })
        };
        let here = page.items.iter().filter(|(column, _)| *column == at);
        let cards = here.filter_map(|(_, id)| tasks.card(id)).map(shown);
        states.insert(state.to_string(), Value::Array(cards.collect::<Result<_, _>>()?));
    }
    states.insert("next".to_owned(), page.next.into());
    serde_json::to_vec(&states).map(Some)
}
