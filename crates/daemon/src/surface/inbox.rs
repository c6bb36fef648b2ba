//! `/api/v1/inbox`: everything that waits for a human.

use axum::Json;
use axum::extract::State;
use coven_api::ErrorBody;
use coven_api::inbox::{AnswerRequest, InboxItem, InboxOption, InboxQuery, InboxResponse};
use coven_domain::permission::{Decision, Permission};

use super::App;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, find, invalid};
use crate::engine::acp::Answer as Given;

/// What waits, oldest first.
#[utoipa::path(get, path = "/api/v1/inbox", params(InboxQuery), responses((status = 200, body = InboxResponse)))]
pub async fn list(State(app): State<App>, Params(query): Params<InboxQuery>) -> Answer<Json<InboxResponse>> {
    let session = match &query.session {
        Some(id) => Some(find(&app, id).await?),
        None => None,
    };
    let permissions = app.engine.permissions(session, query.all.unwrap_or(false)).await?;
    let mut items = Vec::with_capacity(permissions.len());
    for permission in permissions {
        items.push(item(&app, permission).await?);
    }
    Ok(Json(InboxResponse { items }))
}

#[utoipa::path(get, path = "/api/v1/inbox/{id}", params(("id" = String, Path)), responses((status = 200, body = InboxItem), (status = 404, body = ErrorBody)))]
pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<InboxItem>> {
    let permission = app.engine.find_permission(&id).await?;
    Ok(Json(item(&app, permission).await?))
}

/// Answers; the first answer wins.
#[utoipa::path(post, path = "/api/v1/inbox/{id}/answer", params(("id" = String, Path)), request_body = AnswerRequest, responses((status = 200, body = InboxItem), (status = 404, body = ErrorBody), (status = 409, description = "already answered", body = ErrorBody)))]
pub async fn answer(State(app): State<App>, Id(id): Id, Body(request): Body<AnswerRequest>) -> Answer<Json<InboxItem>> {
    let given = match (request.option, request.decision) {
        (Some(option), None) => Given::Option(option),
        (None, Some(word)) => {
            let decision: Decision = word.parse().map_err(|error| invalid(format!("decision: {error}")))?;
            Given::Decision(decision)
        }
        (None, None) | (Some(_), Some(_)) => return Err(invalid("give either option or decision")),
    };
    let permission = app.engine.find_permission(&id).await?;
    let answered = app.engine.answer_permission(&permission, &given).await?;
    Ok(Json(item(&app, answered).await?))
}

async fn item(app: &App, permission: Permission) -> Answer<InboxItem> {
    let session = app.engine.session(permission.session).await?;
    let options = permission.options.iter().map(|option| InboxOption {
        id: option.id.clone(),
        name: option.name.clone(),
        kind: option.kind.clone(),
    });
    Ok(InboxItem {
        id: permission.id.to_string(),
        kind: "permission".to_owned(),
        status: permission.state.to_string(),
        session_id: Some(permission.session.to_string()),
        harness: Some(session.harness),
        repo_id: session.repo_id.map(|id| id.to_string()),
        title: permission.title,
        created_at: permission.created_at.to_string(),
        answered_at: permission.answered_at.map(|at| at.to_string()),
        answered_by: permission.answered_by.map(|by| by.to_string()),
        answer: permission.answer,
        options: options.collect(),
        detail: permission.tool_call,
    })
}
