//! Reads all that the board shows, list by list.

use std::collections::BTreeSet;

use coven_api::inbox::InboxItem;
use coven_api::routes::{Endpoint, ListAgents, ListInbox, ListTasks, ListWorkflows};
use coven_api::task::{ListTasksQuery, TaskRecord};
use coven_api::workflow::{AgentRecord, ListWorkflowsQuery, WorkflowRecord};
use coven_client::{Client, ClientError};

const PAGE: usize = 1000;
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
    let agents = client.call(ListAgents::request()).await?;
    let query = ListWorkflowsQuery { limit: Some(PAGE), ..ListWorkflowsQuery::default() };
    let runs = client.call(ListWorkflows::request().query(&query)).await?;
    let inbox = inbox(client).await?;
    Ok(Snapshot { tasks, ready, agents: agents.agents, runs: runs.workflows, inbox })
}

pub async fn ready(client: &mut Client) -> Result<BTreeSet<String>, ClientError> {
    let query = ListTasksQuery { ready: Some(true), ..ListTasksQuery::default() };
    Ok(tasks(client, query).await?.into_iter().map(|task| task.id).collect())
}

/// What agents ask. Work to review and blocked tasks wait too, but those have their columns.
pub async fn inbox(client: &mut Client) -> Result<Vec<InboxItem>, ClientError> {
    let mut items = client.call(ListInbox::request()).await?.items;
    items.retain(|item| !matches!(item.kind.as_str(), "merge" | "blocked"));
    Ok(items)
}

/// The daemon lists by priority, so all of them are looked at.
async fn newest_closed(client: &mut Client) -> Result<Vec<TaskRecord>, ClientError> {
    let mut closed = tasks(client, with_status("closed")).await?;
    closed.sort_by(|a, b| b.closed_at.cmp(&a.closed_at));
    closed.truncate(NEWEST_CLOSED);
    Ok(closed)
}

fn with_status(status: &str) -> ListTasksQuery {
    ListTasksQuery { status: Some(status.to_owned()), ..ListTasksQuery::default() }
}

async fn tasks(client: &mut Client, mut query: ListTasksQuery) -> Result<Vec<TaskRecord>, ClientError> {
    let mut tasks = Vec::new();
    query.limit = Some(PAGE);
    loop {
        let page = client.call(ListTasks::request().query(&query)).await?;
        tasks.extend(page.tasks);
        query.cursor = page.next;
        if query.cursor.is_none() {
            return Ok(tasks);
        }
    }
}
