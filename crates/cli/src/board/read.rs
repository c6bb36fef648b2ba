//! Reads all that the board shows, list by list.

use std::collections::BTreeSet;

use coven_api::inbox::{InboxItem, InboxKind};
use coven_api::list::MAX_LIMIT;
use coven_api::routes::{Endpoint, ListAgents, ListInbox, ListTasks, ListWorkflows};
use coven_api::task::{ListTasksQuery, TaskRecord};
use coven_api::workflow::{AgentRecord, WorkflowRecord};
use coven_client::{Client, ClientError};

use crate::listing::{self, Paging};

/// Runs that are read: the newest.
const RUNS: usize = 1000;
/// So many closed tasks are shown: the newest.
pub const NEWEST_CLOSED: usize = 20;

/// All of it at about the same time; what changes meanwhile is told by events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Those that are not closed, and the newest of those that are.
    pub tasks: Vec<TaskRecord>,
    pub ready: BTreeSet<String>,
    /// Who is at work.
    pub agents: Vec<AgentRecord>,
    /// Newest first.
    pub runs: Vec<WorkflowRecord>,
    pub inbox: Vec<InboxItem>,
}

pub async fn everything(client: &mut Client) -> Result<Snapshot, ClientError> {
    let mut tasks = tasks(client, with_status("open,in_progress,pending_merge,blocked")).await?;
    tasks.extend(newest_closed(client).await?);
    let ready = ready(client).await?;
    let agents = listing::items(client, ListAgents::request(), Paging::default()).await?;
    let newest = Paging { limit: Some(RUNS), cursor: None };
    let runs = listing::items(client, ListWorkflows::request(), newest).await?;
    let inbox = inbox(client).await?;
    Ok(Snapshot { tasks, ready, agents, runs, inbox })
}

pub async fn ready(client: &mut Client) -> Result<BTreeSet<String>, ClientError> {
    let query = ListTasksQuery { ready: Some(true), ..ListTasksQuery::default() };
    Ok(tasks(client, query).await?.into_iter().map(|task| task.id.to_string()).collect())
}

/// What agents ask. Work to review and blocked tasks wait too, but those have their columns.
pub async fn inbox(client: &mut Client) -> Result<Vec<InboxItem>, ClientError> {
    let mut items = listing::items(client, ListInbox::request(), Paging::default()).await?;
    items.retain(|item| !matches!(item.kind, InboxKind::Merge | InboxKind::Blocked));
    Ok(items)
}

/// The daemon lists by priority, so every page is read, of which the newest tasks are kept.
async fn newest_closed(client: &mut Client) -> Result<Vec<TaskRecord>, ClientError> {
    let mut query = ListTasksQuery { limit: Some(MAX_LIMIT), ..with_status("closed") };
    let mut newest = Vec::new();
    loop {
        let page = client.call(ListTasks::request().query(&query)).await?;
        newest.extend(page.items);
        newest.sort_by_key(|task: &TaskRecord| std::cmp::Reverse(task.closed_at));
        newest.truncate(NEWEST_CLOSED);
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(newest);
        }
    }
}

fn with_status(status: &str) -> ListTasksQuery {
    ListTasksQuery { status: Some(status.to_owned()), ..ListTasksQuery::default() }
}

async fn tasks(client: &mut Client, query: ListTasksQuery) -> Result<Vec<TaskRecord>, ClientError> {
    listing::items(client, ListTasks::request().query(&query), Paging::default()).await
}
