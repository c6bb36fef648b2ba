//! `/api/v1/tasks`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coven_api::list::{List, ListKey, MAX_LIMIT, PageQuery};
use coven_api::routes::{ListTaskHistory, ListTaskRuns, ListTasks};
use coven_api::task::{
    CreateTaskRequest, CreateTasksRequest, DeleteTaskQuery, DeleteTaskResponse, EditTaskRequest, ListTasksQuery,
    TaskHistoryRecord, TaskReadiness, TaskRecord, TaskTransitionRequest,
};
use coven_api::workflow::WorkflowRecord;
use coven_domain::query::{AddedBy, TaskPage, TaskQuery, WorkflowQuery};
use coven_domain::task::{NotReady, Priority, TaskEdit};
use coven_domain::{OperationId, TaskId};

use super::App;
use super::operation::Started;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, invalid, page_size, place};
use coven_engine::task::{MAX_BULK, TaskDraft, TaskPatch};

const DEFAULT_LIMIT: usize = 100;

pub async fn create(
    State(app): State<App>,
    Body(request): Body<CreateTaskRequest>,
) -> Answer<(StatusCode, Json<TaskRecord>)> {
    let task = app.engine.create_task(draft(request)?).await?;
    Ok((StatusCode::CREATED, Json((&task).into())))
}

pub async fn create_many(State(app): State<App>, Body(request): Body<CreateTasksRequest>) -> Answer<Started> {
    if request.tasks.len() > MAX_BULK {
        return Err(invalid(format!("tasks: at most {MAX_BULK} per request; send them in parts")));
    }
    let drafts = request.tasks.into_iter().map(draft).collect::<Answer<Vec<_>>>()?;
    Ok(Started(app.engine.add_tasks(drafts).await?))
}

fn draft(request: CreateTaskRequest) -> Answer<TaskDraft> {
    Ok(TaskDraft {
        reference: request.reference,
        title: request.title,
        body: request.body,
        kind: request.kind.as_deref().map(kind).transpose()?,
        priority: request.priority,
        parent: request.parent,
        depends_on: request.depends_on,
        tags: request.tags,
        harness: request.harness,
        args: request.args,
        workflow: request.workflow,
        base_branch: request.base_branch,
        repo: request.repo,
        by: request.by,
    })
}

pub async fn list(State(app): State<App>, Params(query): Params<ListTasksQuery>) -> Answer<Json<List<TaskRecord>>> {
    let key = ListKey::of::<ListTasks>(&query);
    let parent = match &query.parent {
        Some(text) => Some(app.engine.find_task(text).await?),
        None => None,
    };
    let priority = |word: &str| {
        let number: Option<i64> = word.parse().ok();
        number.and_then(|number| Priority::try_from(number).ok()).ok_or_else(|| invalid("priority: 0 to 4"))
    };
    let ids: Vec<TaskId> =
        words(query.id.as_deref(), |word| word.parse().map_err(|_| invalid("id: whole ids of tasks")))?;
    if ids.len() > MAX_LIMIT {
        return Err(invalid(format!("id: at most {MAX_LIMIT} at a time")));
    }
    let operation: Option<OperationId> =
        query.operation.as_deref().map(str::parse).transpose().map_err(|_| invalid("operation: not an id"))?;
    // Tasks of one operation have another order, and so other places.
    let (added, after) = match operation {
        Some(operation) => (Some(AddedBy { operation, after: place(key, query.cursor.as_deref())? }), None),
        None => (None, place(key, query.cursor.as_deref())?),
    };
    let query = TaskQuery {
        ids,
        states: words(query.status.as_deref(), |word| {
            word.parse().map_err(|_| invalid("status: open, in_progress, pending_merge, blocked or closed"))
        })?,
        kinds: words(query.kind.as_deref(), kind)?,
        priorities: words(query.priority.as_deref(), priority)?,
        tag: query.tag,
        parent,
        is_ready: query.ready.unwrap_or(false),
        include_deleted: query.include_deleted.unwrap_or(false),
        operation: added,
        after,
        limit: page_size(query.limit, DEFAULT_LIMIT)?,
    };
    let TaskPage { tasks, total, next } = app.engine.tasks(&query).await?;
    let last = tasks.last().map(|task| task.id).filter(|_| added.is_some());
    let next = next.map(|place| last.map_or_else(|| key.cursor(place), |last| key.cursor(last)));
    let items = tasks.into_iter().map(TaskRecord::from).collect();
    Ok(Json(List { items, next, total }))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<TaskRecord>> {
    let (task, _) = app.engine.task(&id).await?;
    Ok(Json(task.into()))
}

pub async fn readiness(State(app): State<App>, Id(id): Id) -> Answer<Json<TaskReadiness>> {
    let (task, readiness) = app.engine.task(&id).await?;
    let why = readiness.err().unwrap_or_default();
    let dependency = |why: &NotReady| match why {
        NotReady::DependsOn { id, .. } => Some(*id),
        NotReady::State(_) | NotReady::Claimed(_) | NotReady::Deleted => None,
    };
    Ok(Json(TaskReadiness {
        task_id: task.id,
        ready: why.is_empty(),
        not_ready: why.iter().map(ToString::to_string).collect(),
        open_dependencies: why.iter().filter_map(dependency).collect(),
        worktree: app.engine.worktree_path(task.id),
    }))
}

pub async fn runs(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<PageQuery>,
) -> Answer<Json<List<WorkflowRecord>>> {
    let task = app.engine.find_task(&id).await?;
    let list = ListKey::below::<ListTaskRuns>(task, &query);
    let (after, limit) = (place(list, query.cursor.as_deref())?, page_size(query.limit, DEFAULT_LIMIT)?);
    let query = WorkflowQuery { states: Vec::new(), task: Some(task), after, limit };
    Ok(Json(super::workflow::page_of(list, app.engine.workflows(&query).await?)))
}

pub async fn edit(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<EditTaskRequest>,
) -> Answer<Json<TaskRecord>> {
    let fields = TaskEdit {
        title: request.title,
        body: request.body,
        kind: request.kind.as_deref().map(kind).transpose()?,
        priority: request.priority,
        parent: None,
        depends_on: None,
        tags: request.tags,
        base_branch: request.base_branch,
        harness: request.harness,
        args: request.args,
        workflow: request.workflow,
    };
    let EditTaskRequest { parent, depends_on, repo, by, .. } = request;
    let patch = TaskPatch { fields, parent, depends_on, repo, by };
    Ok(Json(TaskRecord::from(&app.engine.edit_task(&id, patch).await?)))
}

pub async fn close(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<TaskTransitionRequest>,
) -> Answer<Json<TaskRecord>> {
    Ok(Json(TaskRecord::from(&app.engine.close_task(&id, request.reason, request.by).await?)))
}

pub async fn delete(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<DeleteTaskQuery>,
) -> Answer<Json<DeleteTaskResponse>> {
    let deleted = app.engine.delete_task(&id, query.recursive.unwrap_or(false), query.by).await?;
    Ok(Json(DeleteTaskResponse { deleted }))
}

pub async fn history(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<PageQuery>,
) -> Answer<Json<List<TaskHistoryRecord>>> {
    let list = ListKey::below::<ListTaskHistory>(app.engine.find_task(&id).await?, &query);
    let (after, limit) = (place(list, query.cursor.as_deref())?.unwrap_or(0), page_size(query.limit, DEFAULT_LIMIT)?);
    let entries = app.engine.task_history(&id, after, limit + 1).await?;
    Ok(Json(List::page(entries.into_iter().map(TaskHistoryRecord::from), limit, |entry| list.cursor(entry.number))))
}

fn kind(word: &str) -> Answer<coven_domain::task::TaskKind> {
    word.parse().map_err(|_| invalid("type: task, bug, feature or epic"))
}

pub(super) fn words<T>(list: Option<&str>, read: impl Fn(&str) -> Answer<T>) -> Answer<Vec<T>> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()).map(read).collect()
}
