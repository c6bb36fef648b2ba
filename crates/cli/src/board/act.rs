//! Does what the user asked for: one request to the daemon, one sentence if it failed.

use std::time::Duration;

use coven_api::inbox::{AnswerRequest, InboxItem};
use coven_api::operation::Operation;
use coven_api::task::{
    CreateTaskRequest, DeleteTaskResponse, EditTaskRequest, StartTaskRequest, TaskDetail, TaskHistoryRecord,
    TaskHistoryResponse, TaskMoveRequest, TaskRecord,
};
use coven_api::workflow::{AgentListResponse, StartTaskResponse, TaskDiffResponse, WorkflowDetail, WorkflowRecord};
use coven_client::{Client, ClientError};
use coven_domain::task::TaskState;
use coven_holder::clock;
use hyper::Method;
use tokio::time::timeout;

use super::page::{self, Known};
use super::report::{Done, Request, Subject, What};
use crate::failure::Failure;
use crate::verb::{environment, task_text};
use crate::way::Way;
use crate::wording::{plain, short_id};
use crate::{operation, route};

/// Longer than any grace period an ending session is given by default.
const DEADLINE: Duration = Duration::from_secs(60);
/// A merge runs checks, and waits for other merges.
const LONG_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
const PAGE: usize = 1000;

/// `by` is who asks, inside a session.
pub async fn perform(way: &Way, by: Option<&str>, request: &Request) -> Result<Done, String> {
    let deadline = if request.what == What::Approve { LONG_DEADLINE } else { DEADLINE };
    match timeout(deadline, send(way, by, request)).await {
        Ok(answer) => answer.map_err(|failure| failure.sentence()),
        Err(_) => Err("the daemon does not answer; see `coven daemon status`, then try again".to_owned()),
    }
}

async fn send(way: &Way, by: Option<&str>, Request { id, what }: &Request) -> Result<Done, Failure> {
    // Somebody is there and wants something: a daemon that went is started again.
    let mut client = way.open().await?;
    let by = by.map(str::to_owned);
    let moves = |reason: Option<&String>| TaskMoveRequest {
        reason: reason.filter(|reason| !reason.is_empty()).cloned(),
        by: by.clone(),
    };
    let starts = StartTaskRequest { by: by.clone(), env: Some(environment()), ..StartTaskRequest::default() };
    let mut did = async |verb: &str, reason: Option<&String>| -> Result<Done, Failure> {
        let task: TaskRecord = client.post(&route::task(id, verb), &moves(reason)).await?;
        Ok(Done::Did(task_text::line(&task)))
    };
    match what {
        What::Release => did("/release", None).await,
        What::Block(reason) => did("/block", Some(reason)).await,
        What::Unblock => did("/unblock", None).await,
        What::Approve => {
            let started: Operation = client.post(&route::task(id, "/approve"), &moves(None)).await?;
            let task: TaskRecord = operation::quiet_result(&mut client, started).await?;
            let changes = task.changes.map_or_else(String::new, |changes| format!(": {changes}"));
            Ok(Done::Did(format!("{}{changes}", task_text::line(&task))))
        }
        What::Reject(reason) => did("/reject", Some(reason)).await,
        What::Close(reason) => did("/close", Some(reason)).await,
        What::Start => {
            let started: StartTaskResponse = client.post(&route::task(id, "/start"), &starts).await?;
            Ok(Done::Did(task_text::line(&started.task)))
        }
        What::Retry => {
            let begun: StartTaskResponse = client.post(&route::workflow(id, "/retry"), &starts).await?;
            let step = begun.workflow.step_name.as_deref().unwrap_or("its step");
            Ok(Done::Did(format!("{} at {step}", task_text::line(&begun.task))))
        }
        What::Cancel => {
            let run: WorkflowRecord = client.post(&route::workflow(id, "/cancel"), &moves(None)).await?;
            Ok(Done::Did(format!("{} {}", short_id(&run.id), run.name)))
        }
        What::Delete { is_recursive } => {
            let query = route::query(&[("recursive", is_recursive.then(|| "true".to_owned())), ("by", by.clone())]);
            let gone: DeleteTaskResponse = client.delete(&route::task(id, &query)).await?;
            let ids: Vec<&str> = gone.deleted.iter().map(|id| short_id(id)).collect();
            Ok(Done::Did(ids.join(", ")))
        }
        What::Create(task) => {
            let task = CreateTaskRequest { by: by.clone(), ..(**task).clone() };
            let made: TaskRecord = client.post("/api/v1/tasks", &task).await?;
            Ok(Done::Made(made.id.clone(), task_text::line(&made)))
        }
        What::Edit(edit) => {
            let edit = EditTaskRequest { by: by.clone(), ..(**edit).clone() };
            let body = serde_json::to_vec(&edit).map_err(ClientError::from)?;
            let answer = client.bytes_path(Method::PATCH, &route::task(id, ""), Some(body)).await?;
            let task: TaskRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
            Ok(Done::Did(task_text::line(&task)))
        }
        // A terminal takes its line as an option.
        What::Answer { option } | What::Reply(option) => {
            let answer = AnswerRequest { option: Some(option.clone()), ..AnswerRequest::default() };
            let item: InboxItem = client.post(&route::question(id, "/answer"), &answer).await?;
            Ok(Done::Did(plain(&item.title)))
        }
        What::Attach => session_of(&mut client, id).await,
        What::Look(subject) => Ok(Done::Page(look(&mut client, id, *subject).await?)),
    }
}

/// The session of whoever works on the task, or worked on it last.
async fn session_of(client: &mut Client, id: &str) -> Result<Done, Failure> {
    let found: AgentListResponse = client.get(&agents_of(id)).await?;
    let session = found.agents.into_iter().rev().find_map(|agent| agent.session_id);
    session.map(Done::Session).ok_or_else(|| Failure::missing("the task has no session yet", "Try again in a moment"))
}

fn agents_of(id: &str) -> String {
    format!("/api/v1/agents{}", route::query(&[("task", Some(id.to_owned()))]))
}

async fn look(client: &mut Client, id: &str, subject: Subject) -> Result<Vec<page::PageLine>, Failure> {
    let now = clock::now();
    match subject {
        Subject::Diff => Ok(page::diff(&client.get::<TaskDiffResponse>(&route::task(id, "/diff")).await?)),
        Subject::Workflow => Ok(page::workflow(&client.get(&route::workflow(id, "")).await?, now)),
        Subject::Detail => Ok(page::detail(&known(client, id).await?, now)),
    }
}

async fn known(client: &mut Client, id: &str) -> Result<Known, Failure> {
    let task: TaskDetail = client.get(&route::task(id, "")).await?;
    let run: Option<WorkflowDetail> = match &task.run {
        Some(run) => Some(client.get(&route::workflow(&run.id, "")).await?),
        None => None,
    };
    let agents: AgentListResponse = client.get(&agents_of(id)).await?;
    let history = history(client, id).await?;
    let diff = match task.task.status == TaskState::PendingMerge.as_str() {
        // A branch that is gone is no reason to show nothing of the task.
        true => client.get(&route::task(id, "/diff")).await.ok(),
        false => None,
    };
    Ok(Known { task, run, agents: agents.agents, history, diff })
}

async fn history(client: &mut Client, id: &str) -> Result<Vec<TaskHistoryRecord>, ClientError> {
    let (mut history, mut after) = (Vec::new(), 0);
    loop {
        let query = route::query(&[("after", Some(after.to_string())), ("limit", Some(PAGE.to_string()))]);
        let page: TaskHistoryResponse = client.get(&route::task(id, &format!("/history{query}"))).await?;
        let is_last = page.history.len() < PAGE;
        history.extend(page.history);
        after = page.next;
        if is_last {
            return Ok(history);
        }
    }
}
