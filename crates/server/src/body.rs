//! Reads request bodies in one place, with a limit on size and time, whether or not the route uses them.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coven_api::ErrorCode;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;

use super::reply::ApiError;

/// Timeout of a body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// How long the daemon keeps reading after it rejected a request, so that the client can read the response.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads the body before the handler runs. A body that the route does not use is dropped with the request, and the
/// connection can carry the next one.
pub async fn read_whole(State(limit): State<usize>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if declared_length(&parts.headers).is_some_and(|length| length > limit as u64) {
        discard(&parts.headers, body, limit);
        return closing(too_large(limit));
    }
    match tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await {
        Ok(Ok(whole)) => next.run(Request::from_parts(parts, Body::from(whole.to_bytes()))).await,
        Ok(Err(error)) if error.is::<LengthLimitError>() => closing(too_large(limit)),
        Ok(Err(error)) => {
            let message = format!("the body could not be read: {error}");
            closing(ApiError::new(ErrorCode::InvalidRequest, message))
        }
        Err(_) => {
            let message = format!("the body did not arrive within {} seconds", BODY_TIME.as_secs());
            closing(ApiError::new(ErrorCode::RequestTimeout, message))
        }
    }
}

/// Reads and drops the rest of a rejected request, at most `limit` bytes and for a short time. Closing a socket with
/// unread bytes resets the connection, and the client would lose the response.
pub fn discard(headers: &HeaderMap, body: Body, limit: usize) {
    // The client waits for `100 Continue` and has not sent the body.
    if headers.contains_key(EXPECT) || body.is_end_stream() {
        return;
    }
    // Ends by itself after a timeout.
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
        let mut pieces = body.into_data_stream();
        let mut left = limit;
        while let Some(Ok(piece)) = pieces.next().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    }));
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the body is larger than {limit} bytes; raise http.maxBodyBytes to allow it");
    ApiError::new(ErrorCode::BodyTooLarge, message)
}

/// The rest of the body is not read, so the connection cannot carry another request.
fn closing(refusal: ApiError) -> Response {
    let mut response = refusal.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
