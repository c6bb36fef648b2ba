//! REST, SSE and WebSocket. Only translates: requests into engine calls, answers and errors into HTTP.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod agent;
pub mod attach;
mod body;
pub mod conversation;
mod failure;
pub mod guard;
pub mod inbox;
pub mod listen;
pub mod messages;
pub mod migrate;
mod objects;
mod pages;
mod query;
pub mod reply;
pub mod repo;
pub mod rest;
pub mod socket;
pub mod sse;
pub mod task;
pub mod workflow;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use coven_api::task::BriefTaskListResponse;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use coven_engine::Engine;
use guard::Guard;
use pages::Pages;
use query::KnownParameters;
use reply::ApiError;

/// What every handler gets.
#[derive(Clone)]
pub struct App {
    pub engine: Arc<Engine>,
    /// The TCP address that is listened on, if any.
    pub listen: Option<Arc<str>>,
    pages: Arc<Pages>,
}

impl App {
    pub fn new(engine: Arc<Engine>, listen: Option<Arc<str>>) -> Self {
        Self { engine, listen, pages: Arc::default() }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "coven",
        description = "Sessions of AI coding agents: launch, attach, replay, answer, control. \
                       On the home's Unix socket without a token; on TCP with `Authorization: Bearer`."
    ),
    components(schemas(BriefTaskListResponse))
)]
struct ApiDoc;

fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(ApiDoc::openapi())
        .routes(routes!(rest::health))
        .routes(routes!(rest::harnesses))
        .routes(routes!(rest::list_sessions, rest::create_session))
        .routes(routes!(rest::get_session, rest::sacrifice_session))
        .routes(routes!(rest::start_session))
        .routes(routes!(rest::send_input))
        .routes(routes!(rest::resize_session))
        .routes(routes!(rest::kill_session))
        .routes(routes!(rest::finish_session))
        .routes(routes!(rest::rename_session))
        .routes(routes!(rest::archive_session))
        .routes(routes!(rest::summon_session))
        .routes(routes!(rest::wait_session))
        .routes(routes!(rest::entries))
        .routes(routes!(rest::log))
        .routes(routes!(rest::check_log))
        .routes(routes!(rest::screen))
        .routes(routes!(attach::attach))
        .routes(routes!(messages::list))
        .routes(routes!(messages::prompt))
        .routes(routes!(messages::cancel))
        .routes(routes!(messages::mode))
        .routes(routes!(messages::config_option))
        .routes(routes!(messages::agent))
        .routes(routes!(conversation::list))
        .routes(routes!(conversation::show))
        .routes(routes!(conversation::turns))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::show))
        .routes(routes!(inbox::answer))
        .routes(routes!(task::list, task::create))
        .routes(routes!(task::create_many))
        .routes(routes!(task::show, task::edit, task::delete))
        .routes(routes!(task::close))
        .routes(routes!(task::history))
        .routes(routes!(workflow::start))
        .routes(routes!(workflow::release))
        .routes(routes!(workflow::block))
        .routes(routes!(workflow::unblock))
        .routes(routes!(workflow::approve))
        .routes(routes!(workflow::reject))
        .routes(routes!(workflow::diff))
        .routes(routes!(workflow::list))
        .routes(routes!(workflow::show))
        .routes(routes!(workflow::cancel))
        .routes(routes!(workflow::retry))
        .routes(routes!(workflow::agents))
        .routes(routes!(workflow::agent))
        .routes(routes!(repo::list, repo::add))
        .routes(routes!(repo::show, repo::remove))
        .routes(routes!(agent::list, agent::create))
        .routes(routes!(agent::show, agent::cancel))
        .routes(routes!(agent::prompt))
        .routes(routes!(agent::messages))
        .routes(routes!(migrate::migrate))
        .routes(routes!(rest::retention))
        .routes(routes!(rest::stop_daemon))
        .routes(routes!(rest::state))
        .routes(routes!(sse::events))
}

/// The OpenAPI document as JSON text.
pub fn openapi() -> String {
    let mut text = documented().into_openapi().to_pretty_json().expect("a document is plain data");
    text.push('\n');
    text
}

/// All routes; `guard` decides who may pass.
pub fn router(app: App, guard: Guard) -> Router {
    let (router, document) = documented().split_for_parts();
    let parameters = Arc::new(KnownParameters::of(&document));
    let document: Arc<str> = document.to_json().expect("a document is plain data").into();
    let limit = app.engine.max_body_bytes();
    router
        .route(
            "/api/openapi.json",
            get(move || async move { ([("content-type", "application/json")], document.to_string()) }),
        )
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(from_fn_with_state(parameters, query::check))
        .layer(from_fn_with_state(limit, body::read_whole))
        .layer(from_fn_with_state(Arc::new((guard, limit)), guard::check))
        .with_state(app)
}
