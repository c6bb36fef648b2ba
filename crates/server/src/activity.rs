//! `/activity`, `/look` and `/hook` of a session: what its agent is doing.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coven_api::activity::{ActivityResponse, HookCallRequest, HookCallResponse, HookStatus, LookRequest};
use coven_api::session::AcceptedResponse;
use coven_engine::activity::HookState;
use coven_engine::hook::HookCall;

use super::App;
use super::reply::{Body, Calling, Id};
use super::rest::{Answer, find, invalid};

const MAX_LOOK_SECONDS: u64 = 60;

pub async fn why(State(app): State<App>, Id(id): Id) -> Answer<Json<ActivityResponse>> {
    let evidence = app.engine.why(find(&app, &id).await?).await?;
    let status = Some(evidence.status).filter(|_| evidence.session.is_live());
    let (hooks, hooks_reason) = match evidence.hooks {
        HookState::Off => (HookStatus::Off, None),
        HookState::Unavailable(reason) => (HookStatus::Unavailable, Some(reason)),
        HookState::Silent => (HookStatus::Silent, None),
        HookState::Reporting => (HookStatus::Reporting, None),
    };
    Ok(Json(ActivityResponse {
        session_id: evidence.session.id,
        activity: status.as_ref().map(|status| status.activity),
        since: status.as_ref().and_then(|status| status.since),
        source: status.as_ref().and_then(|status| status.source),
        unseen: status.as_ref().is_some_and(|status| status.is_unseen),
        detail: status.and_then(|status| status.detail),
        hooks,
        hooks_reason,
        background: evidence.background,
        observations: evidence.observations.into_iter().map(Into::into).collect(),
    }))
}

pub async fn look(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<LookRequest>,
) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    if request.seconds.is_some_and(|seconds| seconds > MAX_LOOK_SECONDS) {
        return Err(invalid("seconds: must be at most 60"));
    }
    app.engine.look_at(find(&app, &id).await?, request.seconds.map(Duration::from_secs)).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn hook(
    State(app): State<App>,
    Id(id): Id,
    Calling(caller): Calling,
    Body(request): Body<HookCallRequest>,
) -> Answer<Json<HookCallResponse>> {
    let HookCallRequest { id: call, event, payload, called_at } = request;
    let call = HookCall { id: call, event, payload, called_at };
    let output = app.engine.hook_called(find(&app, &id).await?, call, &caller).await?;
    Ok(Json(HookCallResponse { output }))
}
