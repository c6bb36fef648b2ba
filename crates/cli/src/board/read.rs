//! Reads all that the board shows, list by list.

use std::collections::BTreeSet;

use coven_api::inbox::{InboxItem, InboxResponse};
use coven_api::task::{TaskListResponse, TaskRecord};
use coven_api::workflow::{AgentListResponse, AgentRecord, WorkflowListResponse, WorkflowRecord};
use coven_client::{Client, ClientError};

use crate::route;

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
    let mut tasks = tasks(client, "status", "open,in_progress,pending_merge,blocked").await?;
    tasks.extend(newest_closed(client).await?);
    let ready = ready(client).await?;
    let agents: AgentListResponse = client.get("/api/v1/agents").await?;
    let runs: WorkflowListResponse = client.get(&format!("/api/v1/workflows?limit={PAGE}")).await?;
    let inbox = inbox(client).await?;
    Ok(Snapshot { tasks, ready, agents: agents.agents, runs: runs.workflows, inbox })
}

pub async fn ready(client: &mut Client) -> Result<BTreeSet<String>, ClientError> {
    Ok(tasks(client, "ready", "true").await?.into_iter().map(|task| task.id).collect())
}

/// What agents ask. Work to review and blocked tasks wait too, but those have their columns.
pub async fn inbox(client: &mut Client) -> Result<Vec<InboxItem>, ClientError> {
    let mut items = client.get::<InboxResponse>("/api/v1/inbox").await?.items;
    items.retain(|item| !matches!(item.kind.as_str(), "merge" | "blocked"));
    Ok(items)
}

/// The daemon lists by priority, so all of them are looked at.
async fn newest_closed(client: &mut Client) -> Result<Vec<TaskRecord>, ClientError> {
    let mut closed = tasks(client, "status", "closed").await?;
    closed.sort_by(|a, b| b.closed_at.cmp(&a.closed_at));
    closed.truncate(NEWEST_CLOSED);
    Ok(closed)
}

async fn tasks(client: &mut Client, name: &str, value: &str) -> Result<Vec<TaskRecord>, ClientError> {
    let (mut tasks, mut cursor): (Vec<TaskRecord>, Option<String>) = (Vec::new(), None);
    loop {
        let query =
            route::query(&[(name, Some(value.to_owned())), ("limit", Some(PAGE.to_string())), ("cursor", cursor)]);
        let page: TaskListResponse = client.get(&format!("/api/v1/tasks{query}")).await?;
        tasks.extend(page.tasks);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(tasks);
        }
    }
}
