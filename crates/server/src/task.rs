//! `/api/v1/tasks`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use coven_api::task::{
    CreateTaskRequest, CreateTasksRequest, DeleteTaskQuery, DeleteTaskResponse, EditTaskRequest, ListTasksQuery,
    TaskDetail, TaskHistoryQuery, TaskHistoryRecord, TaskHistoryResponse, TaskMoveRequest, TaskRecord,
};
use coven_domain::query::{TaskForm, TaskQuery, TaskText};
use coven_domain::task::{Priority, TaskEdit};
use serde_json::json;

use super::App;
use super::operation::Started;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, invalid, page_size};
use coven_engine::task::{MAX_BULK, TaskDraft, TaskPatch};

const DEFAULT_LIMIT: usize = 100;
/// Tasks are small; who wants all of them gets them in one page, mostly.
const MOST: usize = 10_000;
/// About what a task takes, so that a long answer is not copied each time it outgrows its place.
const RECORD_BYTES: usize = 512;

pub async fn create(
    State(app): State<App>,
    Body(request): Body<CreateTaskRequest>,
) -> Answer<(StatusCode, Json<TaskRecord>)> {
    let task = app.engine.create_task(draft(request)?).await?;
    Ok((StatusCode::CREATED, Json((&task).into())))
}

pub async fn create_many(State(app): State<App>, Body(request): Body<CreateTasksRequest>) -> Answer<Started> {
    if request.tasks.len() > MAX_BULK {
        return Err(invalid(format!("tasks: at most {MAX_BULK} at once; send them in parts")));
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

pub async fn list(State(app): State<App>, Params(query): Params<ListTasksQuery>) -> Answer<Response> {
    let parent = match &query.parent {
        Some(text) => Some(app.engine.find_task(text).await?),
        None => None,
    };
    let priority = |word: &str| {
        let number: Option<i64> = word.parse().ok();
        number.and_then(|number| Priority::try_from(number).ok()).ok_or_else(|| invalid("priority: 0 to 4"))
    };
    let form = if query.brief.unwrap_or(false) { TaskForm::Brief } else { TaskForm::Record };
    let query = TaskQuery {
        states: words(query.status.as_deref(), |word| {
            word.parse().map_err(|_| invalid("status: open, in_progress, pending_merge, blocked or closed"))
        })?,
        kinds: words(query.kind.as_deref(), kind)?,
        priorities: words(query.priority.as_deref(), priority)?,
        tag: query.tag,
        parent,
        is_ready: query.ready.unwrap_or(false),
        include_deleted: query.include_deleted.unwrap_or(false),
        after: match query.cursor.as_deref().map(str::parse) {
            None => None,
            Some(Ok(place)) => Some(place),
            Some(Err(_)) => return Err(invalid("cursor: give the `next` of the page before")),
        },
        offset: query.offset.unwrap_or(0),
        limit: match query.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MOST => limit,
            _ => return Err(invalid(format!("limit: must be between 1 and {MOST}"))),
        },
    };
    // A `TaskListResponse`, as it is read.
    let mut body = Vec::with_capacity(query.limit.saturating_mul(RECORD_BYTES));
    body.extend_from_slice(b"{\"tasks\":");
    let TaskText { text: mut body, total, next } = app.engine.task_text(&query, form, body).await?;
    let next = json!(next.map(|place| place.to_string()));
    body.extend_from_slice(format!(",\"total\":{total},\"next\":{next}}}").as_bytes());
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<TaskDetail>> {
    let (task, readiness) = app.engine.task(&id).await?;
    let run = app.engine.latest_workflow(task.id).await?;
    Ok(Json(TaskDetail::new(&task, readiness, run.as_ref(), app.engine.worktree_path(task.id))))
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
    Body(request): Body<TaskMoveRequest>,
) -> Answer<Json<TaskRecord>> {
    Ok(Json(TaskRecord::from(&app.engine.close_task(&id, request.reason, request.by).await?)))
}

pub async fn delete(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<DeleteTaskQuery>,
) -> Answer<Json<DeleteTaskResponse>> {
    let deleted = app.engine.delete_task(&id, query.recursive.unwrap_or(false), query.by).await?;
    Ok(Json(DeleteTaskResponse { deleted: deleted.iter().map(ToString::to_string).collect() }))
}

pub async fn history(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<TaskHistoryQuery>,
) -> Answer<Json<TaskHistoryResponse>> {
    let after = query.after.unwrap_or(0);
    let entries = app.engine.task_history(&id, after, page_size(query.limit, DEFAULT_LIMIT)?).await?;
    let next = entries.last().map_or(after, |entry| entry.number);
    let record = |entry: coven_domain::query::TaskHistoryEntry| TaskHistoryRecord {
        at: entry.at.to_string(),
        by: entry.by,
        field: entry.change.field,
        old: entry.change.old,
        new: entry.change.new,
    };
    Ok(Json(TaskHistoryResponse { history: entries.into_iter().map(record).collect(), next }))
}

fn kind(word: &str) -> Answer<coven_domain::task::TaskKind> {
    word.parse().map_err(|_| invalid("type: task, bug, feature or epic"))
}

pub(super) fn words<T>(list: Option<&str>, read: impl Fn(&str) -> Answer<T>) -> Answer<Vec<T>> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()).map(read).collect()
}
