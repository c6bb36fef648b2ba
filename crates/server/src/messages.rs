//! ACP sessions in `/api/v1`: prompts, and messages as pages or as a stream.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::State as Shared;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coven_api::SessionRecord;
use coven_api::acp_state::{AcpCommand, AcpInfo, AcpModes, AcpOption, AcpStateRecord, AcpUsage};
use coven_api::compat::PromptRequest;
use coven_api::message::{
    ConfigOptionRequest, MessageRecord, MessagesQuery, MessagesResponse, ModeRequest, PromptResponse,
};
use coven_api::session::AcceptedResponse;
use coven_domain::SessionId;
use coven_domain::message::Activity;
use coven_domain::query::MessageQuery;
use coven_engine::acp::State;
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Serialize;

use super::App;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, find, invalid};
use coven_engine::acp::ensure_acp;

const HEARTBEAT: Duration = Duration::from_secs(15);
const PAGE: usize = 200;
const RETRY_DELAY: Duration = Duration::from_millis(200);

pub async fn list(
    Shared(app): Shared<App>,
    Id(id): Id,
    headers: HeaderMap,
    Params(query): Params<MessagesQuery>,
) -> Answer<Response> {
    let limit = query.limit.unwrap_or(100);
    if !(1..=1000).contains(&limit) {
        return Err(invalid("limit: must be between 1 and 1000"));
    }
    let id = find(&app, &id).await?;
    ensure_acp(&app.engine.session(id).await?)?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let after = text("last-event-id").and_then(|id| id.parse().ok()).or(query.after).or(query.cursor).unwrap_or(0);
    if text(ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/event-stream")) {
        let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
        return Ok((headers, HttpBody::from_stream(follow(app, id, after))).into_response());
    }
    let query = MessageQuery { after, before: query.before, limit: Some(limit), since: None };
    let items: Vec<MessageRecord> = app.engine.messages(id, &query).await?.iter().map(Into::into).collect();
    let next = items.last().map_or(after, |message| message.number);
    Ok(Json(MessagesResponse { items, next }).into_response())
}

pub async fn prompt(
    Shared(app): Shared<App>,
    Id(id): Id,
    Body(request): Body<PromptRequest>,
) -> Answer<(StatusCode, Json<PromptResponse>)> {
    let id = find(&app, &id).await?;
    let message = app.engine.prompt(id, &request.text).await?;
    let response = PromptResponse { ok: true, accepted: true, message_id: message };
    Ok((StatusCode::ACCEPTED, Json(response)))
}

pub async fn cancel(Shared(app): Shared<App>, Id(id): Id) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    app.engine.cancel_turn(find(&app, &id).await?).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn mode(
    Shared(app): Shared<App>,
    Id(id): Id,
    Body(request): Body<ModeRequest>,
) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    app.engine.set_mode(find(&app, &id).await?, &request.mode_id).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn config_option(
    Shared(app): Shared<App>,
    Id(id): Id,
    Body(request): Body<ConfigOptionRequest>,
) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    app.engine.set_config_option(find(&app, &id).await?, &request.config_id, &request.value).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn agent(Shared(app): Shared<App>, Id(id): Id) -> Answer<Json<AcpStateRecord>> {
    Ok(Json(state(&app, find(&app, &id).await?).await?))
}

async fn state(app: &App, id: SessionId) -> Answer<AcpStateRecord> {
    let read = |state: &State| AcpStateRecord {
        activity: state.activity(),
        queued: state.queued(),
        agent_session_id: state.agent_session_id.clone(),
        agent: AcpInfo::read(&state.agent),
        capabilities: Some(&state.capabilities).filter(|sent| sent.is_object()).cloned(),
        modes: AcpModes::read(&state.modes),
        config_options: AcpOption::read_all(&state.config_options),
        commands: AcpCommand::read_all(&state.commands),
        usage: AcpUsage::read(&state.usage),
        title: state.title.clone(),
        stop_reason: state.stop_reason.clone(),
    };
    let (mut state, is_live) = app.engine.acp_state(id, read).await?;
    if !is_live {
        state.activity = Activity::Ended;
    }
    Ok(state)
}

/// A client that follows a session, with the messages and the state that it has received.
struct Follower {
    app: App,
    id: SessionId,
    after: u64,
    sent: Option<AcpStateRecord>,
    is_done: bool,
}

/// Streams messages after a number, state changes of the agent, and the end of the session.
fn follow(app: App, id: SessionId, after: u64) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let changes = app.engine.acp_changes(id);
    let follower = Follower { app, id, after, sent: None, is_done: false };
    unfold((follower, changes), |(mut follower, mut changes)| async move {
        if follower.is_done {
            return None;
        }
        loop {
            // Marked as seen before the read, so that a later commit wakes this task.
            let is_live = match &mut changes {
                Some(changes) => {
                    changes.borrow_and_update();
                    follower.app.engine.acp_changes(follower.id).is_some()
                }
                None => false,
            };
            let Ok(mut bytes) = follower.next().await else { return None };
            if bytes.is_empty() && !is_live {
                let session = follower.app.engine.session(follower.id).await.ok()?;
                if session.is_over() || session.is_detached() {
                    follower.is_done = true;
                    event("end", None, &SessionRecord::from(&session), &mut bytes);
                }
            }
            if !bytes.is_empty() {
                return Some((Ok(Bytes::from(bytes)), (follower, changes)));
            }
            let Some(waiting) = changes.as_mut().filter(|_| is_live) else {
                // The holder does not answer, or the session is about to be launched.
                tokio::time::sleep(RETRY_DELAY).await;
                changes = follower.app.engine.acp_changes(follower.id);
                continue;
            };
            tokio::select! {
                // The session has ended; the rest is in the store.
                changed = waiting.changed() => if changed.is_err() { continue },
                () = tokio::time::sleep(HEARTBEAT) => {
                    bytes.extend_from_slice(b": still here\n\n");
                }
                () = follower.app.engine.stopped() => return None,
            }
            if !bytes.is_empty() {
                let changes = follower.app.engine.acp_changes(follower.id);
                return Some((Ok(Bytes::from(bytes)), (follower, changes)));
            }
        }
    })
}

impl Follower {
    async fn next(&mut self) -> Answer<Vec<u8>> {
        let mut bytes = Vec::new();
        let query = MessageQuery { after: self.after, limit: Some(PAGE), ..MessageQuery::default() };
        for message in self.app.engine.messages(self.id, &query).await? {
            self.after = message.number;
            event("message", Some(message.number), &MessageRecord::from(&message), &mut bytes);
        }
        let now = state(&self.app, self.id).await?;
        if self.sent.as_ref() != Some(&now) {
            event("state", None, &now, &mut bytes);
            self.sent = Some(now);
        }
        Ok(bytes)
    }
}

fn event(name: &str, id: Option<u64>, data: &impl Serialize, out: &mut Vec<u8>) {
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    serde_json::to_writer(&mut *out, data).expect("plain data to memory");
    out.extend_from_slice(b"\n\n");
}
