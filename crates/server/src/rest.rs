//! REST: about ten lines a handler.

use std::ops::Range;
use std::str::FromStr;

use axum::Json;
use axum::body::Body as HttpBody;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coven_api::ErrorCode;
use coven_api::entry::{EntriesQuery, EntriesResponse, EntryRecord};
use coven_api::harness::{HarnessQuery, HarnessRecord, ListHarnessesQuery};
use coven_api::header;
use coven_api::health::{API_VERSION, HealthResponse, StopRequest};
use coven_api::list::{BadCursor, List, ListKey, MAX_LIMIT, TimeCursor};
use coven_api::retention::RetentionRequest;
use coven_api::routes::{Endpoint, ListHarnesses, ListSessions};
use coven_api::session::{
    AcceptedResponse, ByteRange, CreateSessionRequest, InputRequest, ListSessionsQuery, LogCheckQuery,
    LogCheckResponse, LogQuery, RenameSessionRequest, ResizeRequest, SessionRecord, StartSessionRequest, WaitQuery,
};
use coven_domain::SessionId;
use coven_domain::activity::Activity;
use coven_domain::query::{SessionFilter, SessionQuery};
use coven_domain::session::SessionState;

use super::App;
use super::operation::Started;
use super::reply::{ApiError, Body, Id, Params};
use coven_engine::describe::HarnessInfo;
use coven_engine::launch::NewSession;
use coven_engine::loops::retention;

pub(super) type Answer<T> = Result<T, ApiError>;

/// Checks the number of items per page.
pub(super) fn page_size(requested: Option<usize>, default: usize) -> Answer<usize> {
    match requested.unwrap_or(default) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(invalid("limit: must be between 1 and 1000")),
    }
}

/// Reads the place that a cursor of this list names.
pub(super) fn place<P: FromStr>(list: ListKey, cursor: Option<&str>) -> Answer<Option<P>> {
    list.place(cursor).map_err(|error| invalid(error.to_string()))
}

pub(super) fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}

pub async fn health(State(app): State<App>) -> Json<HealthResponse> {
    let health = app.engine.health().await;
    Json(HealthResponse {
        ok: health.problems.is_empty(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_version: API_VERSION,
        pid: std::process::id(),
        started_at: health.started_at,
        home: health.home.to_string_lossy().into_owned(),
        listen: app.listen.as_deref().map(str::to_owned),
        sessions_live: health.sessions_live,
        sessions_total: health.sessions_total,
        launches_queued: health.launches_queued,
        last_event: health.last_event,
        problems: health.problems,
    })
}

pub async fn list_harnesses(
    State(app): State<App>,
    Params(query): Params<ListHarnessesQuery>,
) -> Answer<Json<List<HarnessRecord>>> {
    let (list, limit) = (ListKey::of::<ListHarnesses>(&query), page_size(query.limit, 100)?);
    let last: Option<String> = place(list, query.cursor.as_deref())?;
    let mut harnesses = app.engine.describe_harnesses(query.versions.unwrap_or(false), query.path).await;
    if let Some(last) = last {
        let at = harnesses.iter().position(|it| it.id == last).ok_or_else(|| invalid(BadCursor.to_string()))?;
        harnesses.drain(..=at);
    }
    Ok(Json(List::page(harnesses.into_iter().map(harness_record), limit, |last| list.cursor(&last.id))))
}

pub async fn get_harness(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<HarnessQuery>,
) -> Answer<Json<HarnessRecord>> {
    let harnesses = app.engine.describe_harnesses(query.versions.unwrap_or(false), query.path).await;
    let found = harnesses.into_iter().find(|it| it.id == id).map(harness_record);
    found.map(Json).ok_or_else(|| {
        let list = ListHarnesses::ROUTE.path;
        ApiError::new(ErrorCode::HarnessNotFound, format!("unknown harness {id}; list them with GET {list}"))
    })
}

fn harness_record(it: HarnessInfo) -> HarnessRecord {
    HarnessRecord {
        id: it.id,
        label: it.label,
        program: it.program,
        argv: it.argv,
        identity: it.identity,
        is_builtin: it.is_builtin,
        is_installed: it.is_installed,
        path: it.path,
        version: it.version,
        note: it.note,
    }
}

pub async fn list_sessions(
    State(app): State<App>,
    RawQuery(raw): RawQuery,
    Params(query): Params<ListSessionsQuery>,
) -> Answer<Response> {
    // Read before the page, so that a commit in between makes the cached page invalid.
    let (number, raw) = (app.engine.newest_event(), raw.unwrap_or_default());
    let json = |page: Bytes| ([("content-type", "application/json")], page).into_response();
    if let Some(page) = app.pages.get(number, &raw) {
        return Ok(json(page));
    }
    let page = app.engine.list_sessions(&session_query(&query)?).await?;
    let next = match (page.has_more, page.sessions.last()) {
        (true, Some(last)) => {
            Some(ListKey::of::<ListSessions>(&query).cursor(TimeCursor::new(last.created_at, last.id)))
        }
        _ => None,
    };
    let items = page.sessions.iter().map(SessionRecord::from).collect();
    let list = List { items, next, total: Some(page.total) };
    let body = Bytes::from(serde_json::to_vec(&list).expect("a list is plain data"));
    app.pages.put(number, &raw, &body);
    Ok(json(body))
}

fn session_query(query: &ListSessionsQuery) -> Answer<SessionQuery> {
    let states = query
        .status
        .iter()
        .flat_map(|list| list.split(','))
        .map(|word| word.trim().parse::<SessionState>().map_err(|error| invalid(format!("status: {error}"))))
        .collect::<Result<_, _>>()?;
    let channel = query.channel.as_deref().map(str::parse).transpose();
    let repo = query.repo_id.as_deref().map(str::parse).transpose();
    let activities = activities("activity", query.activity.as_deref())?;
    let after = match place::<TimeCursor>(ListKey::of::<ListSessions>(query), query.cursor.as_deref())? {
        Some(last) => Some((last.at, last.id.parse().map_err(|_| invalid(BadCursor.to_string()))?)),
        None => None,
    };
    let limit = page_size(query.limit, 20)?;
    Ok(SessionQuery {
        filter: SessionFilter {
            states,
            harness: query.harness.clone(),
            channel: channel.map_err(|error| invalid(format!("channel: {error}")))?,
            repo: repo.map_err(|_| invalid("repo_id: not an id"))?,
            include_archived: query.all.unwrap_or(false),
            activities,
        },
        after,
        offset: query.offset.unwrap_or(0),
        limit,
    })
}

/// Reads a comma-separated list of activities.
fn activities(name: &str, list: Option<&str>) -> Answer<Vec<Activity>> {
    let words = list.iter().flat_map(|list| list.split(',')).map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|error| invalid(format!("{name}: {error}")))).collect()
}

pub async fn create_session(
    State(app): State<App>,
    Body(request): Body<CreateSessionRequest>,
) -> Answer<(StatusCode, Json<SessionRecord>)> {
    let is_empty = request.harness.is_none() && request.argv.is_none() && request.prompt.is_none();
    if is_empty && request.resume.is_none() && request.channel.is_none() {
        return Err(invalid("set harness or argv, or a prompt for the default agent"));
    }
    let channel = request.channel.as_deref().map(str::parse).transpose();
    let repo_id = request.repo_id.as_deref().map(str::parse).transpose();
    let resume = match &request.resume {
        Some(id) => Some(find(&app, id).await?),
        None => None,
    };
    let new = NewSession {
        resume,
        harness: request.harness,
        argv: request.argv,
        prompt: request.prompt.unwrap_or_default(),
        args: request.args,
        cwd: request.cwd.map(Into::into),
        project_root: request.project_root.map(Into::into),
        title: request.title,
        repo_id: repo_id.map_err(|_| invalid("repo_id: not an id"))?,
        channel: channel.map_err(|error| invalid(format!("channel: {error}")))?,
        is_detached: request.detach.unwrap_or(false),
        env: request.env,
        size: (request.rows, request.cols),
        step: None,
        is_now: request.now.unwrap_or(false),
    };
    let session = app.engine.create_session(new).await?;
    Ok((StatusCode::CREATED, Json(SessionRecord::from(&session))))
}

pub(super) async fn find(app: &App, text: &str) -> Answer<SessionId> {
    Ok(app.engine.find_session(text).await?)
}

pub async fn get_session(State(app): State<App>, Id(id): Id) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.session(id).await?)))
}

pub async fn start_session(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<StartSessionRequest>,
) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    let (size, is_now) = ((request.rows, request.cols), request.now.unwrap_or(false));
    let session = app.engine.start_session(id, request.env, size, is_now).await?;
    Ok(Json(SessionRecord::from(&session)))
}

pub async fn send_input(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<InputRequest>,
) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    let bytes = request.bytes().map_err(invalid)?;
    app.engine.send_input(find(&app, &id).await?, bytes).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn resize_session(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<ResizeRequest>,
) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    check_size(request.rows, request.cols)?;
    app.engine.resize_session(find(&app, &id).await?, request.rows, request.cols).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

/// Rejects an invalid terminal size.
pub(crate) fn check_size(rows: u16, cols: u16) -> Answer<()> {
    match (1..=1000).contains(&rows) && (1..=1000).contains(&cols) {
        true => Ok(()),
        false => Err(invalid("rows and cols must be between 1 and 1000")),
    }
}

pub async fn kill_session(State(app): State<App>, Id(id): Id) -> Answer<(StatusCode, Json<AcceptedResponse>)> {
    app.engine.kill_session(find(&app, &id).await?).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED)))
}

pub async fn finish_session(State(app): State<App>, Id(id): Id) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.finish_session(id).await?)))
}

pub async fn rename_session(
    State(app): State<App>,
    Id(id): Id,
    Body(request): Body<RenameSessionRequest>,
) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.rename_session(id, &request.title).await?)))
}

pub async fn archive_session(State(app): State<App>, Id(id): Id) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.archive_session(id).await?)))
}

pub async fn summon_session(State(app): State<App>, Id(id): Id) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.summon_session(id).await?)))
}

pub async fn sacrifice_session(State(app): State<App>, Id(id): Id) -> Answer<Json<SessionRecord>> {
    let id = find(&app, &id).await?;
    Ok(Json(SessionRecord::from(&app.engine.sacrifice_session(id).await?)))
}

pub async fn wait_session(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<WaitQuery>,
) -> Answer<Json<SessionRecord>> {
    let activities = activities("for", query.activities.as_deref())?;
    let id = find(&app, &id).await?;
    tokio::select! {
        session = app.engine.wait_for(id, &activities) => Ok(Json(SessionRecord::from(&session?))),
        () = app.engine.stopped() => Err(coven_engine::EngineError::Stopping.into()),
    }
}

pub async fn entries(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<EntriesQuery>,
) -> Answer<Json<EntriesResponse>> {
    let limit = page_size(query.limit, 100)?;
    let id = find(&app, &id).await?;
    let (entries, next) = app.engine.entries(id, query.after.or(query.cursor).unwrap_or(0), limit).await?;
    let entries = entries.iter().map(|(entry, output)| EntryRecord::new(entry, output.as_deref())).collect();
    Ok(Json(EntriesResponse { entries, next }))
}

pub async fn log(State(app): State<App>, Id(id): Id, Params(query): Params<LogQuery>) -> Answer<Response> {
    let id = find(&app, &id).await?;
    let is_following = query.follow.as_deref().is_some_and(|text| text != "false" && text != "0");
    let (first, stream) = app.engine.log_stream(id, query.from.unwrap_or(0), query.to, is_following).await?;
    let headers = [
        ("content-type", "application/octet-stream".to_owned()),
        (header::OFFSET, first.to_string()),
        (header::SESSION, id.to_string()),
    ];
    Ok((headers, HttpBody::from_stream(stream)).into_response())
}

pub async fn check_log(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<LogCheckQuery>,
) -> Answer<Json<LogCheckResponse>> {
    let id = find(&app, &id).await?;
    let found = app.engine.check_log(id, query.content.unwrap_or(true)).await?;
    let ranges = |ranges: Vec<Range<u64>>| ranges.into_iter().map(|it| ByteRange { from: it.start, to: it.end });
    Ok(Json(LogCheckResponse {
        session_id: id,
        first: found.first,
        end: found.end,
        missing: ranges(found.missing).collect(),
        changed: ranges(found.changed).collect(),
    }))
}

pub async fn retention(State(app): State<App>, Body(request): Body<RetentionRequest>) -> Answer<Started> {
    Ok(Started(retention::start(&app.engine, request.dry_run).await?))
}

pub async fn stop_daemon(
    State(app): State<App>,
    Body(request): Body<StopRequest>,
) -> (StatusCode, Json<AcceptedResponse>) {
    if request.kill_sessions {
        app.engine.kill_all().await;
    }
    app.engine.stop();
    (StatusCode::ACCEPTED, Json(AcceptedResponse::ACCEPTED))
}
