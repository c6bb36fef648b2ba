//! `/api/sessions`: the compatibility API, with every field of the AGENT interface.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coven_api::compat::{
    CompatMessageRecord, CompatMessagesQuery, CompatPromptResponse, CompatSessionDetail, CompatSessionListResponse,
    CompatSessionRecord, CreateCompatSessionRequest, ListCompatSessionsQuery, PromptRequest,
};
use coven_api::repo::CompatRepoRecord;
use coven_domain::message::StoredMessage;
use coven_domain::query::{MessageQuery, SessionFilter, SessionQuery};
use coven_domain::session::{Channel, CompatStatus, SessionState};
use coven_domain::{SessionId, Timestamp};
use serde_json::value::RawValue;

use super::App;
use super::reply::{Body, Id, Params};
use super::repo::parse;
use super::rest::{Answer, find, invalid};
use coven_engine::EngineError;
use coven_engine::acp::ensure_acp;
use coven_engine::launch::NewSession;

pub async fn create(
    State(app): State<App>,
    Body(request): Body<CreateCompatSessionRequest>,
) -> Answer<(StatusCode, Json<CompatSessionRecord>)> {
    let new = NewSession {
        repo_id: Some(parse(&request.repo_id)?),
        channel: Some(Channel::Acp),
        harness: request.harness.or_else(|| app.engine.agent_interface_harness()),
        prompt: request.text.unwrap_or_default(),
        title: request.title,
        ..NewSession::default()
    };
    let session = app.engine.create_session(new).await?;
    Ok((StatusCode::CREATED, Json(CompatSessionRecord::from(&session))))
}

pub async fn list(
    State(app): State<App>,
    Params(query): Params<ListCompatSessionsQuery>,
) -> Answer<Json<CompatSessionListResponse>> {
    let (limit, offset) = (query.limit.unwrap_or(20), query.offset.unwrap_or(0));
    if !(1..=1000).contains(&limit) {
        return Err(invalid("limit: must be between 1 and 1000"));
    }
    let mut states = Vec::new();
    for word in query.status.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty()) {
        let asked: CompatStatus = word.parse().map_err(|error| invalid(format!("status: {error}")))?;
        states.extend(SessionState::ALL.iter().copied().filter(|state| CompatStatus::from(*state) == asked));
    }
    let filter = SessionFilter {
        states,
        channel: Some(Channel::Acp),
        repo: query.repo_id.as_deref().map(parse).transpose()?,
        ..SessionFilter::default()
    };
    let page = app.engine.list_sessions(&SessionQuery { filter, after: None, offset: offset as u64, limit }).await?;
    let sessions = page.sessions.iter().map(CompatSessionRecord::from).collect();
    Ok(Json(CompatSessionListResponse { sessions, total: page.total, limit, offset }))
}

/// Finds a session; this API shows only ACP sessions.
async fn find_agent(app: &App, text: &str) -> Answer<(SessionId, coven_domain::session::Session)> {
    let id = find(app, text).await?;
    let session = app.engine.session(id).await?;
    if ensure_acp(&session).is_err() {
        return Err(EngineError::SessionNotFound(text.chars().take(64).collect()).into());
    }
    Ok((id, session))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<CompatSessionDetail>> {
    let (id, session) = find_agent(&app, &id).await?;
    let messages = app.engine.history(id, &MessageQuery::default()).await?;
    let repo = match session.repo_id {
        Some(repo) => app.engine.known_repo(repo).await?,
        None => None,
    };
    Ok(Json(CompatSessionDetail {
        session: CompatSessionRecord::from(&session),
        repo: repo.as_ref().map(CompatRepoRecord::from),
        messages: messages.into_iter().map(|message| record(id, message)).collect::<Result<_, _>>()?,
    }))
}

pub async fn prompt(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<PromptRequest>,
) -> Answer<(StatusCode, Json<CompatPromptResponse>)> {
    let (id, _) = find_agent(&app, &id).await?;
    let message = app.engine.prompt(id, &request.text).await?;
    let response = CompatPromptResponse { ok: true, accepted: true, message_id: message };
    Ok((StatusCode::ACCEPTED, Json(response)))
}

pub async fn messages(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<CompatMessagesQuery>,
) -> Answer<Json<Vec<CompatMessageRecord>>> {
    let (id, _) = find_agent(&app, &id).await?;
    let since = query.since.as_deref().map(str::parse::<Timestamp>).transpose();
    let since = since.map_err(|_| invalid("since: give an ISO 8601 time such as 2026-01-31T12:00:00Z"))?;
    let messages = app.engine.history(id, &MessageQuery { since, ..MessageQuery::default() }).await?;
    Ok(Json(messages.into_iter().map(|message| record(id, message)).collect::<Result<_, _>>()?))
}

pub async fn cancel(State(app): State<App>, Id(id): Id) -> Answer<Json<CompatSessionRecord>> {
    let (id, _) = find_agent(&app, &id).await?;
    let session = app.engine.kill_session(id).await?;
    Ok(Json(CompatSessionRecord::from(&session)))
}

fn record(session: SessionId, message: StoredMessage) -> Answer<CompatMessageRecord> {
    let content = RawValue::from_string(message.content).map_err(|source| EngineError::Unreadable {
        id: session,
        what: "a message",
        source,
    })?;
    Ok(CompatMessageRecord { id: message.id, session_id: session, role: message.role, content, timestamp: message.at })
}
