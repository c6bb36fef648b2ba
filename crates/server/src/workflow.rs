//! `/api/v1/workflows`, `/api/v1/agents`, and actions on a task's work.

use axum::Json;
use axum::extract::State;
use coven_api::list::{List, ListKey, PageQuery};
use coven_api::routes::{ListAgents, ListSteps, ListWorkflows};
use coven_api::task::{StartTaskRequest, TaskRecord, TaskTransitionRequest};
use coven_api::workflow::{
    AgentRecord, DefinitionResponse, FileChangeRecord, ListAgentsQuery, ListWorkflowsQuery, StartTaskResponse,
    StepRecord, TaskDiffResponse, WorkflowRecord, steps_of,
};
use coven_domain::query::{AgentQuery, Page, WorkflowQuery};
use coven_domain::workflow::WorkflowRun;

use super::App;
use super::operation::Started;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, invalid, page_size, place};
use super::task::words;
use coven_engine::workflow::Claimed;

const DEFAULT_LIMIT: usize = 100;
/// Longer patches are truncated.
const PATCH_BYTES: usize = 4 << 20;

fn started(claimed: &Claimed) -> Json<StartTaskResponse> {
    Json(StartTaskResponse {
        task: (&claimed.task).into(),
        agent: (&claimed.agent).into(),
        workflow: (&claimed.workflow).into(),
    })
}

pub async fn start(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<StartTaskRequest>,
) -> Answer<Json<StartTaskResponse>> {
    let claimed = app.engine.start_task(&id, request.by, request.env).await?;
    Ok(started(&claimed))
}

pub async fn release(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.release_task(&id, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn block(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.block_task(&id, request.reason, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn unblock(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<TaskRecord>> {
    Ok(Json((&app.engine.unblock_task(&id, request.by).await?).into()))
}

pub async fn approve(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Started> {
    Ok(Started(app.engine.approve_task(&id, request.by).await?))
}

pub async fn reject(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.reject_task(&id, request.reason, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn diff(State(app): State<App>, Id(id): Id) -> Answer<Json<TaskDiffResponse>> {
    let diff = app.engine.task_diff(&id, PATCH_BYTES).await?;
    Ok(Json(TaskDiffResponse {
        task_id: diff.task.id,
        base_branch: diff.task.base_branch.clone(),
        base_commit: diff.base.clone(),
        branch: diff.branch.clone(),
        merged: diff.is_merged,
        additions: diff.files.iter().filter_map(|file| file.added).sum(),
        deletions: diff.files.iter().filter_map(|file| file.deleted).sum(),
        files: diff
            .files
            .iter()
            .map(|file| FileChangeRecord { path: file.path.clone(), additions: file.added, deletions: file.deleted })
            .collect(),
        patch: diff.patch,
        truncated: diff.is_cut,
        uncommitted: diff.has_uncommitted,
    }))
}

pub async fn list(
    State(app): State<App>,
    Params(query): Params<ListWorkflowsQuery>,
) -> Answer<Json<List<WorkflowRecord>>> {
    let task = match &query.task {
        Some(text) => Some(app.engine.find_task(text).await?),
        None => None,
    };
    let states = words(query.status.as_deref(), |word| {
        let known = "running, blocked, pending_merge, completed, failed or cancelled";
        word.parse().map_err(|_| invalid(format!("status: {known}")))
    })?;
    let list = ListKey::of::<ListWorkflows>(&query);
    let (after, limit) = (place(list, query.cursor.as_deref())?, page_size(query.limit, DEFAULT_LIMIT)?);
    Ok(Json(page_of(list, app.engine.workflows(&WorkflowQuery { states, task, after, limit }).await?)))
}

pub(super) fn page_of(list: ListKey, page: Page<WorkflowRun>) -> List<WorkflowRecord> {
    let items = page.items.iter().map(WorkflowRecord::from).collect();
    List { items, next: page.next.map(|place| list.cursor(place)), total: None }
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<WorkflowRecord>> {
    Ok(Json((&app.engine.find_workflow(&id).await?).into()))
}

pub async fn steps(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<PageQuery>,
) -> Answer<Json<List<StepRecord>>> {
    let workflow = app.engine.find_workflow(&id).await?;
    let list = ListKey::below::<ListSteps>(workflow.id, &query);
    let after: usize = place(list, query.cursor.as_deref())?.unwrap_or(0);
    let limit = page_size(query.limit, DEFAULT_LIMIT)?;
    let steps = steps_of(&workflow).into_iter().skip(after);
    Ok(Json(List::page(steps, limit, |_| list.cursor(after.saturating_add(limit)))))
}

pub async fn definition(State(app): State<App>, Id(id): Id) -> Answer<Json<DefinitionResponse>> {
    let workflow = app.engine.find_workflow(&id).await?;
    Ok(Json(DefinitionResponse { workflow_id: workflow.id, definition: workflow.definition }))
}

pub async fn cancel(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<WorkflowRecord>> {
    let workflow = app.engine.cancel_workflow(&id, request.by).await?;
    Ok(Json((&workflow).into()))
}

pub async fn retry(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<StartTaskRequest>,
) -> Answer<Json<StartTaskResponse>> {
    let claimed = app.engine.retry_workflow(&id, request.by, request.env).await?;
    Ok(started(&claimed))
}

pub async fn agents(State(app): State<App>, Params(query): Params<ListAgentsQuery>) -> Answer<Json<List<AgentRecord>>> {
    let which = match (&query.task, &query.workflow, query.all.unwrap_or(false)) {
        (Some(_), Some(_), _) => return Err(invalid("give task or workflow, not both")),
        (Some(task), None, _) => AgentQuery::Task(app.engine.find_task(task).await?),
        (None, Some(workflow), _) => AgentQuery::Run(app.engine.find_workflow(workflow).await?.id),
        (None, None, true) => AgentQuery::All,
        (None, None, false) => AgentQuery::Live,
    };
    let list = ListKey::of::<ListAgents>(&query);
    let (after, limit) = (place(list, query.cursor.as_deref())?, page_size(query.limit, DEFAULT_LIMIT)?);
    let page = app.engine.agents(which, after, limit).await?;
    let items = page.items.into_iter().map(AgentRecord::from).collect();
    Ok(Json(List { items, next: page.next.map(|place| list.cursor(place)), total: None }))
}

pub async fn agent(State(app): State<App>, Id(id): Id) -> Answer<Json<AgentRecord>> {
    Ok(Json((&app.engine.agent(&id).await?).into()))
}
