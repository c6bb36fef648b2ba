//! Does what the user asked for: one request to the daemon, one sentence if it failed.

use std::time::Duration;

use coven_api::inbox::AnswerRequest;
use coven_api::request::Request as ApiRequest;
use coven_api::routes::{
    AnswerInboxItem, ApproveTask, BlockTask, CancelWorkflow, CloseTask, CreateTask, DeleteTask, EditTask, Endpoint,
    ListAgents, ListTaskHistory, ReadDefinition, ReadTaskDiff, RejectTask, ReleaseTask, RetryWorkflow, StartTask,
    UnblockTask,
};
use coven_api::task::{
    CreateTaskRequest, DeleteTaskQuery, EditTaskRequest, StartTaskRequest, TaskRecord, TaskTransitionRequest,
};
use coven_api::workflow::{AgentRecord, ListAgentsQuery};
use coven_client::{Client, ClientError};
use coven_domain::TaskId;
use coven_domain::task::TaskState;
use coven_holder::clock;
use tokio::time::timeout;

use super::page::{self, Known};
use super::report::{Done, Request, Subject, What};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::format::sanitize_line;
use crate::listing::{self, Paging};
use crate::operation;
use crate::verb::environment;
use crate::verb::task_text::{self, TaskView};
use crate::verb::workflow_text::RunView;

/// Longer than any grace period an ending session is given by default.
const DEADLINE: Duration = Duration::from_secs(60);
/// A merge runs checks, and waits for other merges.
const LONG_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// `by` is who asks, inside a session.
pub async fn perform(connector: &DaemonConnector, by: Option<&str>, request: &Request) -> Result<Done, String> {
    let deadline = if request.what == What::Approve { LONG_DEADLINE } else { DEADLINE };
    match timeout(deadline, send(connector, by, request)).await {
        Ok(answer) => answer.map_err(|failure| failure.sentence()),
        Err(_) => Err("the daemon does not answer; see `coven daemon status`, then try again".to_owned()),
    }
}

async fn send(connector: &DaemonConnector, by: Option<&str>, Request { id, what }: &Request) -> Result<Done, Failure> {
    // Somebody is there and wants something: a daemon that went is started again.
    let mut client = connector.open().await?;
    let by = by.map(str::to_owned);
    let moves = |reason: Option<&String>| TaskTransitionRequest {
        reason: reason.filter(|reason| !reason.is_empty()).cloned(),
        by: by.clone(),
    };
    let starts = StartTaskRequest { by: by.clone(), env: Some(environment()), ..StartTaskRequest::default() };
    match what {
        What::Release => moved(&mut client, ReleaseTask::of(id).body(&moves(None))).await,
        What::Block(reason) => moved(&mut client, BlockTask::of(id).body(&moves(Some(reason)))).await,
        What::Unblock => moved(&mut client, UnblockTask::of(id).body(&moves(None))).await,
        What::Approve => {
            let started = client.call(ApproveTask::of(id).body(&moves(None))).await?;
            let task: TaskRecord = operation::quiet_result(&mut client, started).await?;
            let changes = task.changes.map_or_else(String::new, |changes| format!(": {changes}"));
            Ok(Done::Did(format!("{}{changes}", task_text::line(&task))))
        }
        What::Reject(reason) => moved(&mut client, RejectTask::of(id).body(&moves(Some(reason)))).await,
        What::Close(reason) => moved(&mut client, CloseTask::of(id).body(&moves(Some(reason)))).await,
        What::Start => {
            let started = client.call(StartTask::of(id).body(&starts)).await?;
            Ok(Done::Did(task_text::line(&started.task)))
        }
        What::Retry => {
            let begun = client.call(RetryWorkflow::of(id).body(&starts)).await?;
            let step = begun.workflow.step_name.as_deref().unwrap_or("its step");
            Ok(Done::Did(format!("{} at {step}", task_text::line(&begun.task))))
        }
        What::Cancel => {
            let run = client.call(CancelWorkflow::of(id).body(&moves(None))).await?;
            Ok(Done::Did(format!("{} {}", run.id.short(), run.name)))
        }
        What::Delete { is_recursive } => {
            let query = DeleteTaskQuery { recursive: is_recursive.then_some(true), by: by.clone() };
            let gone = client.call(DeleteTask::of(id).query(&query)).await?;
            let ids: Vec<String> = gone.deleted.iter().map(TaskId::short).collect();
            Ok(Done::Did(ids.join(", ")))
        }
        What::Create(task) => {
            let task = CreateTaskRequest { by: by.clone(), ..(**task).clone() };
            let made = client.call(CreateTask::request().body(&task)).await?;
            Ok(Done::Made(made.id.to_string(), task_text::line(&made)))
        }
        What::Edit(edit) => {
            let edit = EditTaskRequest { by: by.clone(), ..(**edit).clone() };
            moved(&mut client, EditTask::of(id).body(&edit)).await
        }
        // A terminal takes its line as an option.
        What::Answer { option } | What::Reply(option) => {
            let answer = AnswerRequest { option: Some(option.clone()), ..AnswerRequest::default() };
            let item = client.call(AnswerInboxItem::of(id).body(&answer)).await?;
            Ok(Done::Did(sanitize_line(&item.title)))
        }
        What::Attach => session_of(&mut client, id).await,
        What::Look(subject) => Ok(Done::Page(look(&mut client, id, *subject).await?)),
    }
}

/// Changes a task and describes it.
async fn moved<E>(client: &mut Client, request: ApiRequest<E>) -> Result<Done, Failure>
where
    E: Endpoint<Response = TaskRecord>,
{
    Ok(Done::Did(task_text::line(&client.call(request).await?)))
}

/// The session of whoever works on the task, or worked on it last.
async fn session_of(client: &mut Client, id: &str) -> Result<Done, Failure> {
    let session = agents_of(client, id).await?.into_iter().rev().find_map(|agent| agent.session_id);
    session
        .map(|id| Done::Session(id.to_string()))
        .ok_or_else(|| Failure::not_found("the task has no session yet", "Try again in a moment"))
}

async fn agents_of(client: &mut Client, id: &str) -> Result<Vec<AgentRecord>, ClientError> {
    let query = ListAgentsQuery { task: Some(id.to_owned()), ..ListAgentsQuery::default() };
    listing::items(client, ListAgents::request().query(&query), Paging::default()).await
}

async fn look(client: &mut Client, id: &str, subject: Subject) -> Result<Vec<page::PageLine>, Failure> {
    let now = clock::now();
    match subject {
        Subject::Diff => Ok(page::diff(&client.call(ReadTaskDiff::of(id)).await?)),
        Subject::Workflow => {
            let run = RunView::read(client, id).await?;
            let file = client.call(ReadDefinition::of(id)).await?;
            Ok(page::workflow(&run, &file.definition, now))
        }
        Subject::Detail => Ok(page::detail(&known(client, id).await?, now)),
    }
}

async fn known(client: &mut Client, id: &str) -> Result<Known, Failure> {
    let task = TaskView::read(client, id).await?;
    let run = match &task.run {
        Some(run) => Some(RunView::read(client, &run.id.to_string()).await?),
        None => None,
    };
    let agents = agents_of(client, id).await?;
    let history = listing::items(client, ListTaskHistory::of(id), Paging::default()).await?;
    let diff = match task.task.status == TaskState::PendingMerge {
        // A branch that is gone is no reason to show nothing of the task.
        true => client.call(ReadTaskDiff::of(id)).await.ok(),
        false => None,
    };
    Ok(Known { task, run, agents, history, diff })
}
