//! `/api/v1/operations`, and the response of requests that start an operation.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use coven_api::list::{List, ListKey};
use coven_api::operation::{GetOperationQuery, ListOperationsQuery, Operation};
use coven_api::retention::RetentionResponse;
use coven_api::routes::{Endpoint as _, GetOperation, ListOperations};
use coven_api::task::TaskRecord;
use coven_domain::operation as domain;
use coven_domain::query::OperationQuery;
use coven_engine::EngineError;
use coven_engine::operation::{OperationRender, OperationResult};
use serde::Serialize;

use super::reply::{ApiError, Id, Params};
use super::rest::{Answer, invalid, page_size, place};
use super::task::words;
use super::{App, migrate};

const DEFAULT_LIMIT: usize = 100;

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
        OperationResult::Tasks(tasks) => text(&List::whole(tasks.iter().map(TaskRecord::from).collect())),
        OperationResult::Migrated { done, dry_run } => text(&migrate::response(done, dry_run)),
        OperationResult::Swept { report, dry_run } => text(&RetentionResponse::new(report, dry_run)),
    }
}

fn error(error: &EngineError) -> domain::OperationError {
    let ApiError { code, message, details } = ApiError::from(error);
    domain::OperationError { code: code.as_str().to_owned(), message, details }
}
