//! `/api/repos`: the repositories that sessions are bound to.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coven_api::repo::{AddRepoRequest, RepoListResponse, RepoRecord};
use coven_api::routes::{Endpoint, ListRepos};
use coven_domain::RepoId;

use super::App;
use super::reply::{Body, Id};
use super::rest::{Answer, invalid};

pub async fn add(
    State(app): State<App>,
    Body(request): Body<AddRepoRequest>,
) -> Answer<(StatusCode, Json<RepoRecord>)> {
    if request.path.is_empty() {
        return Err(invalid("path: give the path of a Git repository"));
    }
    let (repo, is_new) = app.engine.add_repo(Path::new(&request.path), request.name.as_deref()).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(RepoRecord::from(&repo))))
}

pub async fn list(State(app): State<App>) -> Answer<Json<RepoListResponse>> {
    Ok(Json(RepoListResponse { repos: app.engine.repos().await?.iter().map(RepoRecord::from).collect() }))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<RepoRecord>> {
    Ok(Json(RepoRecord::from(&app.engine.repo(parse(&id)?).await?)))
}

pub async fn remove(State(app): State<App>, Id(id): Id) -> Answer<Json<RepoRecord>> {
    Ok(Json(RepoRecord::from(&app.engine.remove_repo(parse(&id)?).await?)))
}

pub(super) fn parse(id: &str) -> Answer<RepoId> {
    id.parse().map_err(|_| invalid(format!("repoId: not an id; see GET {}", ListRepos::ROUTE.path)))
}
