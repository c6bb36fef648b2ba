//! REST, SSE and WebSocket: translates requests to engine calls, and results and errors to HTTP.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod activity;
pub mod attach;
mod body;
pub mod compat;
pub mod conversation;
pub mod event;
mod failure;
pub mod guard;
pub mod inbox;
pub mod listen;
mod live;
pub mod messages;
pub mod migrate;
mod objects;
pub mod operation;
mod pages;
mod query;
pub mod reply;
pub mod repo;
pub mod rest;
mod screen;
pub mod socket;
pub mod sse;
pub mod state;
pub mod task;
pub mod workflow;

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use coven_api::repo::{CompatRepoRecord, RepoRecord};
use coven_api::routes::{self, Endpoint, Method};

use coven_engine::Engine;
use guard::Guard;
use pages::Pages;
use query::KnownParameters;
use reply::ApiError;

/// State of every handler.
#[derive(Clone)]
pub struct App {
    pub engine: Arc<Engine>,
    /// The TCP address, if the daemon listens on one.
    pub listen: Option<Arc<str>>,
    pages: Arc<Pages>,
}

impl App {
    pub fn new(engine: Arc<Engine>, listen: Option<Arc<str>>) -> Self {
        Self { engine, listen, pages: Arc::default() }
    }
}

/// The OpenAPI document without its indentation; a test compares it with the table of routes.
const OPENAPI: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// Builds a router from the route table.
#[derive(Default)]
struct Routes {
    router: Router<App>,
    names: Vec<&'static str>,
}

impl Routes {
    fn on<E: Endpoint, T: 'static>(mut self, handler: impl Handler<T, App>) -> Self {
        let method = match E::ROUTE.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        self.names.push(E::ROUTE.name);
        Self { router: self.router.route(E::ROUTE.path, on(method, handler)), ..self }
    }
}

fn handlers() -> Routes {
    Routes::default()
        .on::<routes::Health, _>(rest::health)
        .on::<routes::ListHarnesses, _>(rest::list_harnesses)
        .on::<routes::GetHarness, _>(rest::get_harness)
        .on::<routes::ListSessions, _>(rest::list_sessions)
        .on::<routes::CreateSession, _>(rest::create_session)
        .on::<routes::GetSession, _>(rest::get_session)
        .on::<routes::SacrificeSession, _>(rest::sacrifice_session)
        .on::<routes::StartSession, _>(rest::start_session)
        .on::<routes::SendInput, _>(rest::send_input)
        .on::<routes::ResizeSession, _>(rest::resize_session)
        .on::<routes::KillSession, _>(rest::kill_session)
        .on::<routes::FinishSession, _>(rest::finish_session)
        .on::<routes::RenameSession, _>(rest::rename_session)
        .on::<routes::ArchiveSession, _>(rest::archive_session)
        .on::<routes::SummonSession, _>(rest::summon_session)
        .on::<routes::ReadActivity, _>(activity::why)
        .on::<routes::LookAtSession, _>(activity::look)
        .on::<routes::CallHook, _>(activity::hook)
        .on::<routes::WaitSession, _>(rest::wait_session)
        .on::<routes::ListEntries, _>(rest::entries)
        .on::<routes::ReadLog, _>(rest::log)
        .on::<routes::CheckLog, _>(rest::check_log)
        .on::<routes::ReadScreen, _>(screen::read)
        .on::<routes::Attach, _>(attach::attach)
        .on::<routes::Live, _>(live::live)
        .on::<routes::ListMessages, _>(messages::list)
        .on::<routes::PromptSession, _>(messages::prompt)
        .on::<routes::CancelTurn, _>(messages::cancel)
        .on::<routes::ChangeMode, _>(messages::mode)
        .on::<routes::ChangeOption, _>(messages::config_option)
        .on::<routes::ReadAcpState, _>(messages::agent)
        .on::<routes::ListConversations, _>(conversation::list)
        .on::<routes::GetConversation, _>(conversation::show)
        .on::<routes::ListTurns, _>(conversation::turns)
        .on::<routes::ListInbox, _>(inbox::list)
        .on::<routes::GetInboxItem, _>(inbox::show)
        .on::<routes::AnswerInboxItem, _>(inbox::answer)
        .on::<routes::ListQuestions, _>(inbox::list_questions)
        .on::<routes::GetQuestions, _>(inbox::show_questions)
        .on::<routes::ListTasks, _>(task::list)
        .on::<routes::CreateTask, _>(task::create)
        .on::<routes::CreateTasks, _>(task::create_many)
        .on::<routes::GetTask, _>(task::show)
        .on::<routes::ReadTaskReadiness, _>(task::readiness)
        .on::<routes::ListTaskRuns, _>(task::runs)
        .on::<routes::EditTask, _>(task::edit)
        .on::<routes::DeleteTask, _>(task::delete)
        .on::<routes::CloseTask, _>(task::close)
        .on::<routes::ListTaskHistory, _>(task::history)
        .on::<routes::StartTask, _>(workflow::start)
        .on::<routes::ReleaseTask, _>(workflow::release)
        .on::<routes::BlockTask, _>(workflow::block)
        .on::<routes::UnblockTask, _>(workflow::unblock)
        .on::<routes::ApproveTask, _>(workflow::approve)
        .on::<routes::RejectTask, _>(workflow::reject)
        .on::<routes::ReadTaskDiff, _>(workflow::diff)
        .on::<routes::ListWorkflows, _>(workflow::list)
        .on::<routes::GetWorkflow, _>(workflow::show)
        .on::<routes::ListSteps, _>(workflow::steps)
        .on::<routes::ReadDefinition, _>(workflow::definition)
        .on::<routes::CancelWorkflow, _>(workflow::cancel)
        .on::<routes::RetryWorkflow, _>(workflow::retry)
        .on::<routes::ListAgents, _>(workflow::agents)
        .on::<routes::GetAgent, _>(workflow::agent)
        .on::<routes::ListRepos, _>(repo::list)
        .on::<routes::AddRepo, _>(repo::add::<RepoRecord>)
        .on::<routes::GetRepo, _>(repo::show::<RepoRecord>)
        .on::<routes::RemoveRepo, _>(repo::remove::<RepoRecord>)
        .on::<routes::ListCompatRepos, _>(repo::list_agent)
        .on::<routes::AddCompatRepo, _>(repo::add::<CompatRepoRecord>)
        .on::<routes::GetCompatRepo, _>(repo::show::<CompatRepoRecord>)
        .on::<routes::RemoveCompatRepo, _>(repo::remove::<CompatRepoRecord>)
        .on::<routes::ListCompatSessions, _>(compat::list)
        .on::<routes::CreateCompatSession, _>(compat::create)
        .on::<routes::GetCompatSession, _>(compat::show)
        .on::<routes::CancelCompatSession, _>(compat::cancel)
        .on::<routes::PromptCompatSession, _>(compat::prompt)
        .on::<routes::ListCompatMessages, _>(compat::messages)
        .on::<routes::Migrate, _>(migrate::migrate)
        .on::<routes::RunRetention, _>(rest::retention)
        .on::<routes::ListOperations, _>(operation::list)
        .on::<routes::GetOperation, _>(operation::show)
        .on::<routes::ReadDocument, _>(|| async { ([("content-type", "application/json")], OPENAPI) })
        .on::<routes::StopDaemon, _>(rest::stop_daemon)
        .on::<routes::ReadState, _>(state::state)
        .on::<routes::ListEvents, _>(sse::events)
}

/// Returns the router of all routes behind `guard`.
pub fn router(app: App, guard: Guard) -> Router {
    let parameters = Arc::new(KnownParameters::default());
    let limit = app.engine.max_body_bytes();
    handlers()
        .router
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(axum::extract::DefaultBodyLimit::disable())
        .layer(from_fn_with_state(parameters, query::check))
        .layer(from_fn_with_state(limit, body::read_whole))
        .layer(from_fn_with_state(Arc::new((guard, limit)), guard::check))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_table_has_a_handler() {
        let mut handled = handlers().names;
        let mut all: Vec<&str> = routes::ALL.iter().map(|route| route.name).collect();
        handled.sort_unstable();
        all.sort_unstable();
        assert_eq!(handled, all);
    }
}
