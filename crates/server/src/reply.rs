//! Request bodies, parameters and errors of the REST API.

use std::convert::Infallible;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use coven_api::error::ErrorDetail;
use coven_api::routes::{Endpoint as _, ReadDocument};
use coven_api::{ErrorBody, ErrorCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{failure, objects};
use coven_engine::EngineError;
use coven_engine::caller::Caller;

#[derive(Debug)]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: String,
    pub details: Option<Value>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    pub fn not_found() -> Self {
        Self::new(ErrorCode::NotFound, format!("unknown route; see {}", ReadDocument::ROUTE.path))
    }

    pub fn method_not_allowed() -> Self {
        let message = format!("the route does not support this method; see {}", ReadDocument::ROUTE.path);
        Self::new(ErrorCode::MethodNotAllowed, message)
    }

    /// Returns the error for the wire.
    pub fn into_detail(self) -> ErrorDetail {
        ErrorDetail { code: self.code, message: self.message, details: self.details }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::from(&error)
    }
}

impl From<&EngineError> for ApiError {
    fn from(error: &EngineError) -> Self {
        let code = failure::code(error.kind());
        if code == ErrorCode::Internal {
            // The only place that logs the chain of causes.
            let chain: Vec<String> =
                std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
                    .map(ToString::to_string)
                    .collect();
            tracing::error!(error = chain.join(": "), "a request failed");
        }
        Self { code, message: error.to_string(), details: failure::details(error) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("the table has valid statuses");
        let code = self.code;
        let mut response = (status, Json(ErrorBody { error: self.into_detail() })).into_response();
        if code == ErrorCode::TooManySessions {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        response
    }
}

/// A JSON body; an empty one counts as `{}`.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| ApiError::new(ErrorCode::InvalidRequest, rejection.body_text()))?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        objects::read(text).map(Self).map_err(|error| {
            let message = error.to_string();
            match message.contains("recursion limit") {
                true => ApiError::new(ErrorCode::JsonTooDeep, "the body is nested too deeply"),
                false => ApiError::new(ErrorCode::InvalidRequest, format!("invalid request body: {message}")),
            }
        })
    }
}

/// The id or prefix in a path.
pub struct Id(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(rejection) => Err(ApiError::new(ErrorCode::InvalidRequest, rejection.body_text())),
        }
    }
}

/// The process on the other end of the Unix socket.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub pid: Option<u32>,
}

/// The sender of the request.
pub struct Calling(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Calling {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let claimed = parts.headers.get(header::CALLER_SESSION);
        let claimed = claimed.and_then(|id| id.to_str().ok()?.parse().ok());
        Ok(match parts.extensions.get::<Peer>() {
            Some(peer) => Self(Caller::on_socket(peer.pid, claimed)),
            None => Self(Caller::over_tcp(claimed)),
        })
    }
}

/// Query parameters.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Query::from_request_parts(parts, state).await.map(|Query(query)| Self(query)).map_err(
            |rejection: QueryRejection| {
                ApiError::new(ErrorCode::InvalidRequest, format!("invalid query: {}", rejection.body_text()))
            },
        )
    }
}
