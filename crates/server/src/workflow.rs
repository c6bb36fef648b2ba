//! `/api/v1/workflows`, `/api/v1/agents`, and what is done with a task's work.

use axum::Json;
use axum::extract::State;
use coven_api::task::{StartTaskRequest, TaskMoveRequest, TaskRecord};
use coven_api::workflow::{
    AgentListResponse, AgentRecord, FileChangeRecord, ListAgentsQuery, ListWorkflowsQuery, StartTaskResponse,
    TaskDiffResponse, WorkflowDetail, WorkflowListResponse, WorkflowRecord,
};
use coven_domain::query::{AgentQuery, WorkflowQuery};

use super::App;
use super::operation::Started;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, invalid, page_size};
use super::task::words;
use coven_engine::workflow::Claimed;

const DEFAULT_LIMIT: usize = 100;
const NEWEST_AGENTS: usize = 1000;
/// A longer patch is cut.
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
    Body(request): Body<TaskMoveRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.release_task(&id, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn block(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskMoveRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.block_task(&id, request.reason, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn unblock(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskMoveRequest>,
) -> Answer<Json<TaskRecord>> {
    Ok(Json((&app.engine.unblock_task(&id, request.by).await?).into()))
}

pub async fn approve(State(app): State<App>, Id(id): Id, Body(request): Body<TaskMoveRequest>) -> Answer<Started> {
    Ok(Started(app.engine.approve_task(&id, request.by).await?))
}

pub async fn reject(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskMoveRequest>,
) -> Answer<Json<TaskRecord>> {
    let task = app.engine.reject_task(&id, request.reason, request.by).await?;
    Ok(Json((&task).into()))
}

pub async fn diff(State(app): State<App>, Id(id): Id) -> Answer<Json<TaskDiffResponse>> {
    let diff = app.engine.task_diff(&id, PATCH_BYTES).await?;
    Ok(Json(TaskDiffResponse {
        task_id: diff.task.id.to_string(),
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
) -> Answer<Json<WorkflowListResponse>> {
    let task = match &query.task {
        Some(text) => Some(app.engine.find_task(text).await?),
        None => None,
    };
    let states = words(query.status.as_deref(), |word| {
        let known = "running, blocked, pending_merge, completed, failed or cancelled";
        word.parse().map_err(|_| invalid(format!("status: {known}")))
    })?;
    let limit = page_size(query.limit, DEFAULT_LIMIT)?;
    let query = WorkflowQuery { states, task, offset: query.offset.unwrap_or(0), limit };
    let found = app.engine.workflows(&query).await?;
    Ok(Json(WorkflowListResponse { workflows: found.iter().map(WorkflowRecord::from).collect() }))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<WorkflowDetail>> {
    let workflow = app.engine.find_workflow(&id).await?;
    let agents = app.engine.agents(AgentQuery::Workflow(workflow.id)).await?;
    Ok(Json(WorkflowDetail::new(&workflow, &agents)))
}

pub async fn cancel(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskMoveRequest>,
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

pub async fn agents(State(app): State<App>, Params(query): Params<ListAgentsQuery>) -> Answer<Json<AgentListResponse>> {
    let which = match (&query.task, query.all.unwrap_or(false)) {
        (Some(task), _) => AgentQuery::Task(app.engine.find_task(task).await?),
        (None, true) => AgentQuery::Newest(NEWEST_AGENTS),
        (None, false) => AgentQuery::Live,
    };
    let found = app.engine.agents(which).await?;
    Ok(Json(AgentListResponse { agents: found.iter().map(AgentRecord::from).collect() }))
}

pub async fn agent(State(app): State<App>, Id(id): Id) -> Answer<Json<AgentRecord>> {
    Ok(Json((&app.engine.agent(&id).await?).into()))
}
