//! `/events`: the event feed as SSE from any cursor, or missed events as JSON.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use coven_api::ErrorCode;
use coven_api::event::EventsQuery;
use coven_domain::Timestamp;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::App;
use super::event::{append_json, append_sse};
use super::reply::{ApiError, Params};
use super::state::StateText;
use coven_engine::EngineError;
use coven_engine::events::Next;

/// Interval of comments that keep idle connections open.
const HEARTBEAT: Duration = Duration::from_secs(15);
const PAGE: usize = 1000;

pub async fn events(
    State(app): State<App>,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> Result<Response, ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let wants_json = text(ACCEPT.as_str()).is_some_and(|accept| accept.contains("application/json"));
    let since = text("last-event-id").or(query.since).or(query.cursor);
    let has_cursor = since.is_some();
    let cursor = match since {
        Some(since) => cursor_of(&app, &since).await?,
        None if wants_json => 0,
        None => newest(&app).await?,
    };
    match wants_json {
        true => {
            let limit = query.limit.unwrap_or(PAGE);
            if !(1..=PAGE).contains(&limit) {
                return Err(ApiError::new(ErrorCode::InvalidRequest, "limit: must be between 1 and 1000"));
            }
            let page = missed(&app, cursor, has_cursor, limit).await?;
            Ok(([(CONTENT_TYPE, "application/json")], page).into_response())
        }
        false => {
            let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
            Ok((headers, HttpBody::from_stream(stream(app, cursor))).into_response())
        }
    }
}

async fn newest(app: &App) -> Result<u64, ApiError> {
    let range = app.engine.event_range().await?;
    Ok(range.end.saturating_sub(1))
}

async fn cursor_of(app: &App, since: &str) -> Result<u64, ApiError> {
    if let Ok(number) = since.parse::<u64>() {
        return Ok(number);
    }
    let at: Timestamp = since
        .parse()
        .map_err(|_| ApiError::new(ErrorCode::InvalidRequest, "since: use an event number or an ISO 8601 time"))?;
    // Several events may share this millisecond; sending one twice is better than losing it.
    let before = Timestamp::from_millis(at.as_millis() - 1);
    Ok(app.engine.event_number_at(before).await?)
}

/// Reports whether events after `cursor` have expired.
async fn has_gap(app: &App, cursor: u64) -> Result<bool, EngineError> {
    let kept = app.engine.event_range().await?;
    Ok(cursor.saturating_add(1) < kept.start || cursor >= kept.end)
}

/// Returns an `EventsResponse` with the stored text of each event.
async fn missed(app: &App, cursor: u64, has_cursor: bool, limit: usize) -> Result<Vec<u8>, ApiError> {
    let gap = has_cursor && has_gap(app, cursor).await?;
    let events = app.engine.events_after(cursor, limit).await?;
    let kept = app.engine.event_range().await?;
    // After a gap without later events, continue at the newest number.
    let rest = if gap { kept.end.saturating_sub(1) } else { cursor };
    let next = events.last().map_or(rest, |event| event.number);
    let mut page = b"{\"items\":[".to_vec();
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            page.push(b',');
        }
        append_json(event, &mut page);
    }
    page.extend_from_slice(format!("],\"next\":{next},\"gap\":{gap}}}").as_bytes());
    Ok(page)
}

enum Step {
    /// Check whether the cursor is still valid.
    Start(u64),
    /// Send the rest of a snapshot.
    Snapshot(Box<StateText>),
    From(u64),
    End,
}

/// Wake-up sources of a subscriber. They live as long as the stream, because creating them costs more than sending an
/// event.
struct Alarms {
    newest: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    heartbeat: Interval,
}

/// Streams events after the cursor. Replay and live are one loop: it sends stored events, then waits for more.
pub fn stream(app: App, cursor: u64) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let alarms = Alarms { newest: app.engine.hub().subscribe(), stopping: app.engine.stopping(), heartbeat };
    unfold((app, alarms, Step::Start(cursor)), |(app, mut alarms, step)| async move {
        let (bytes, next) = match step {
            Step::End => return None,
            Step::Start(cursor) => start(&app, cursor).await,
            Step::Snapshot(state) => rest_of_snapshot(state).await,
            Step::From(cursor) => loop {
                alarms.newest.borrow_and_update();
                match app.engine.hub().after(cursor) {
                    Next::Events { events, cursor } => break (events, Step::From(cursor)),
                    Next::TooOld => break from_store(&app, cursor).await,
                    Next::Nothing => {}
                }
                tokio::select! {
                    changed = alarms.newest.changed() => if changed.is_err() { return None },
                    _ = alarms.heartbeat.tick() => break (Bytes::from_static(b": still here\n\n"), Step::From(cursor)),
                    _ = alarms.stopping.wait_for(|stop| *stop) => return None,
                }
            },
        };
        Some((Ok(bytes), (app, alarms, next)))
    })
}

/// Sends a first comment, so that the subscriber knows it is connected, or a gap and a snapshot if its cursor is too old.
async fn start(app: &App, cursor: u64) -> (Bytes, Step) {
    match has_gap(app, cursor).await {
        Ok(false) => (Bytes::from_static(b": connected\n\n"), Step::From(cursor)),
        Ok(true) => snapshot(app, cursor).await,
        Err(error) => broken(&error),
    }
}

async fn snapshot(app: &App, cursor: u64) -> (Bytes, Step) {
    match StateText::open(app).await {
        Ok(state) => {
            let number = state.event_number();
            let text = format!(
                "event: gap\ndata: {{\"after\":{cursor},\"resumes_at\":{number}}}\n\nid: {number}\nevent: snapshot\ndata: "
            );
            (Bytes::from(text), Step::Snapshot(Box::new(state)))
        }
        Err(error) => broken(&error),
    }
}

/// Returns the next piece of a snapshot, which is one line.
async fn rest_of_snapshot(mut state: Box<StateText>) -> (Bytes, Step) {
    match state.next().await {
        Ok(Some(piece)) => (piece, Step::Snapshot(state)),
        Ok(None) => (Bytes::from_static(b"\n\n"), Step::From(state.event_number())),
        Err(error) => {
            tracing::error!(%error, "the state could not be read to its end");
            (Bytes::new(), Step::End)
        }
    }
}

/// Further back than the ring: a page from the store.
async fn from_store(app: &App, cursor: u64) -> (Bytes, Step) {
    let events = match app.engine.events_after(cursor, PAGE).await {
        Ok(events) => events,
        Err(error) => return broken(&error),
    };
    // Asked after reading: events may have expired meanwhile.
    match (has_gap(app, cursor).await, events.last()) {
        (Err(error), _) => broken(&error),
        (Ok(true), _) | (Ok(false), None) => snapshot(app, cursor).await,
        (Ok(false), Some(last)) => {
            let (mut text, last) = (Vec::new(), last.number);
            for event in &events {
                append_sse(event, &mut text);
            }
            (Bytes::from(text), Step::From(last))
        }
    }
}

fn broken(error: &EngineError) -> (Bytes, Step) {
    tracing::error!(%error, "the feed could not be read; the subscriber is asked to come again");
    (Bytes::from_static(b"event: error\ndata: {\"retry\":true}\n\n"), Step::End)
}
