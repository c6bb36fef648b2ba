//! `/api/v1/repos`, and the same in the compatibility API: the repositories that sessions are bound to.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use coven_api::list::{List, ListKey, PageQuery, TimeCursor};
use coven_api::repo::{AddRepoRequest, CompatRepoListResponse, CompatRepoRecord, RepoRecord};
use coven_api::routes::{Endpoint, ListRepos};
use coven_domain::RepoId;
use coven_domain::repo::Repo;

use super::App;
use super::reply::{Body, Id, Params};
use super::rest::{Answer, invalid, page_size, place};

pub async fn list(State(app): State<App>, Params(query): Params<PageQuery>) -> Answer<Json<List<RepoRecord>>> {
    let (list, limit) = (ListKey::of::<ListRepos>(&query), page_size(query.limit, 100)?);
    let last: Option<TimeCursor> = place(list, query.cursor.as_deref())?;
    let place = |it: &Repo| TimeCursor::new(it.created_at, it.id);
    let mut repos = app.engine.repos().await?;
    repos.sort_by_key(place);
    let rest = repos.iter().skip_while(|it| last.as_ref().is_some_and(|last| place(it) <= *last));
    Ok(Json(List::page(rest, limit, |it| list.cursor(place(it))).map(RepoRecord::from).with_total(repos.len() as u64)))
}

pub async fn list_agent(State(app): State<App>) -> Answer<Json<CompatRepoListResponse>> {
    Ok(Json(CompatRepoListResponse { repos: app.engine.repos().await?.iter().map(CompatRepoRecord::from).collect() }))
}

pub async fn add<R: for<'a> From<&'a Repo>>(
    State(app): State<App>,
    Body(request): Body<AddRepoRequest>,
) -> Answer<(StatusCode, Json<R>)> {
    if request.path.is_empty() {
        return Err(invalid("path: give the path of a Git repository"));
    }
    let (repo, is_new) = app.engine.add_repo(Path::new(&request.path), request.name.as_deref()).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(R::from(&repo))))
}

pub async fn show<R: for<'a> From<&'a Repo>>(State(app): State<App>, Id(id): Id) -> Answer<Json<R>> {
    Ok(Json(R::from(&app.engine.repo(parse(&id)?).await?)))
}

pub async fn remove<R: for<'a> From<&'a Repo>>(State(app): State<App>, Id(id): Id) -> Answer<Json<R>> {
    Ok(Json(R::from(&app.engine.remove_repo(parse(&id)?).await?)))
}

pub(super) fn parse(id: &str) -> Answer<RepoId> {
    id.parse().map_err(|_| invalid(format!("id: not the id of a repository; GET {} lists them", ListRepos::ROUTE.path)))
}
