//! Rejects query parameters that are not in the route table.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coven_api::{ErrorCode, routes};

use super::reply::ApiError;

/// The parameters of each route, by method and path.
pub struct KnownParameters(HashMap<(&'static str, &'static str), &'static [&'static str]>);

impl Default for KnownParameters {
    fn default() -> Self {
        Self(routes::ALL.iter().map(|it| ((it.method.as_str(), it.path), (it.parameters)())).collect())
    }
}

impl KnownParameters {
    fn check(&self, method: &Method, path: &str, query: &[(String, String)]) -> Result<(), ApiError> {
        // The handler of GET also answers HEAD.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let known = self.0.get(&(method.as_str(), path)).copied().unwrap_or_default();
        let Some((unknown, _)) = query.iter().find(|(name, _)| !known.contains(&name.as_str())) else { return Ok(()) };
        let takes = match known {
            [] => "this route takes none".to_owned(),
            _ => format!("this route takes {}", known.join(", ")),
        };
        Err(ApiError::new(ErrorCode::InvalidRequest, format!("unknown query parameter {unknown:?}: {takes}")))
    }
}

/// Rejects unknown parameters: a misspelt filter would otherwise return everything.
pub async fn check(State(known): State<Arc<KnownParameters>>, request: Request, next: Next) -> Response {
    let refusal = match (request.extensions().get::<MatchedPath>(), request.uri().query()) {
        (Some(path), Some(_)) => match Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
            Ok(Query(query)) => known.check(request.method(), path.as_str(), &query).err(),
            Err(error) => Some(ApiError::new(ErrorCode::InvalidRequest, format!("invalid query: {error}"))),
        },
        _ => None,
    };
    match refusal {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}
