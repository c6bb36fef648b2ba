//! `/api/v1/operations`, and the response of requests that start an operation.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use coven_api::list::{List, ListKey};
use coven_api::operation::{GetOperationQuery, ListOperationsQuery, Operation};
use coven_api::retention::RetentionResponse;
use coven_api::routes::{Endpoint as _, GetOperation, ListOperations, ListTasks};
use coven_api::task::{ListTasksQuery, TaskRecord};
use coven_domain::OperationId;
use coven_domain::operation as domain;
use coven_domain::query::OperationQuery;
use coven_domain::task::Task;
use coven_engine::EngineError;
use coven_engine::operation::{OperationRender, OperationResult};
use serde::Serialize;

use super::reply::{ApiError, Id, Params};
use super::rest::{Answer, invalid, page_size, place};
use super::task::words;
use super::{App, migrate};

const DEFAULT_LIMIT: usize = 100;
/// How many tasks the result of an operation holds; the others are on the pages that follow it.
const MAX_RESULT_TASKS: usize = 100;
const MAX_RESULT_BYTES: usize = 64 << 10;

/// Renders results and errors of operations for the engine.
pub const RENDER: OperationRender = OperationRender { result, error };

/// 202 with an operation and its address.
pub struct Started(pub domain::Operation);

impl IntoResponse for Started {
    fn into_response(self) -> Response {
        let address = GetOperation::of(&self.0.id.to_string()).target().to_owned();
        (StatusCode::ACCEPTED, [(LOCATION, address)], Json(Operation::from(&self.0))).into_response()
    }
}

pub async fn list(State(app): State<App>, Params(query): Params<ListOperationsQuery>) -> Answer<Json<List<Operation>>> {
    let states =
        words(query.status.as_deref(), |word| word.parse().map_err(|error| invalid(format!("status: {error}"))))?;
    let kinds = words(query.kind.as_deref(), |word| word.parse().map_err(|error| invalid(format!("kind: {error}"))))?;
    let list = ListKey::of::<ListOperations>(&query);
    let query = OperationQuery {
        states,
        kinds,
        subject: query.subject,
        after: place(list, query.cursor.as_deref())?,
        limit: page_size(query.limit, DEFAULT_LIMIT)?,
    };
    let page = app.engine.operations(&query).await?;
    let items = page.items.iter().map(Operation::from).collect();
    Ok(Json(List { items, next: page.next.map(|place| list.cursor(place)), total: None }))
}

pub async fn show(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<GetOperationQuery>,
) -> Answer<Json<Operation>> {
    let operation = match query.wait.unwrap_or(false) {
        true => app.engine.wait_for_operation(&id, query.since).await?,
        false => app.engine.operation(&id).await?,
    };
    Ok(Json(Operation::from(&operation)))
}

fn result(result: OperationResult) -> String {
    fn text(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("a result is plain data")
    }
    match result {
        OperationResult::Task(task) => text(&TaskRecord::from(&*task)),
        OperationResult::Tasks { operation, tasks } => text(&first_tasks(operation, &tasks)),
        OperationResult::Migrated { done, dry_run } => text(&migrate::response(done, dry_run)),
        OperationResult::Swept { report, dry_run } => text(&RetentionResponse::new(report, dry_run)),
    }
}

/// The first page of the tasks that an operation added. The record and its event stay small, however many tasks there are.
fn first_tasks(operation: OperationId, tasks: &[Task]) -> List<TaskRecord> {
    let mut bytes = 0;
    let fits = |task: &&Task| {
        bytes += task.body.len() + task.title.len();
        bytes <= MAX_RESULT_BYTES
    };
    let count = tasks.iter().take(MAX_RESULT_TASKS).take_while(fits).count().max(1);
    let query = ListTasksQuery { operation: Some(operation.to_string()), ..ListTasksQuery::default() };
    let list = ListKey::of::<ListTasks>(&query);
    let page = List::page(tasks.iter(), count, |last| list.cursor(last.id));
    page.map(TaskRecord::from).with_total(tasks.len() as u64)
}

fn error(error: &EngineError) -> domain::OperationError {
    let ApiError { code, message, details } = ApiError::from(error);
    domain::OperationError { code: code.as_str().to_owned(), message, details }
}
