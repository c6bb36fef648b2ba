//! Query parameters: a route takes those that the OpenAPI document lists for it, and refuses all others.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coven_api::ErrorCode;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use super::reply::ApiError;

/// The names that each route takes, by method and path.
pub struct KnownParameters(HashMap<(Method, String), Vec<String>>);

impl KnownParameters {
    pub fn of(document: &OpenApi) -> Self {
        let mut known = HashMap::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in operations(item) {
                let names = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
                    RefOr::T(it) if it.parameter_in == ParameterIn::Query => Some(it.name.clone()),
                    _ => None,
                });
                known.insert((method, path.clone()), names.collect());
            }
        }
        Self(known)
    }

    fn check(&self, method: &Method, path: &str, query: &[(String, String)]) -> Result<(), ApiError> {
        // HEAD is answered by the handler of GET.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let known = self.0.get(&(method.clone(), path.to_owned())).map_or(&[][..], Vec::as_slice);
        let Some((unknown, _)) = query.iter().find(|(name, _)| !known.contains(name)) else { return Ok(()) };
        let takes = match known {
            [] => "this route takes none".to_owned(),
            _ => format!("this route takes {}", known.join(", ")),
        };
        Err(ApiError::new(ErrorCode::InvalidRequest, format!("unknown query parameter {unknown:?}: {takes}")))
    }
}

fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Refuses parameters that the route does not know: a misspelt filter would otherwise return everything.
pub async fn check(State(known): State<Arc<KnownParameters>>, request: Request, next: Next) -> Response {
    let refusal = match (request.extensions().get::<MatchedPath>(), request.uri().query()) {
        (Some(path), Some(_)) => match Query::<Vec<(String, String)>>::try_from_uri(request.uri()) {
            Ok(Query(query)) => known.check(request.method(), path.as_str(), &query).err(),
            Err(error) => Some(ApiError::new(ErrorCode::InvalidRequest, format!("the query cannot be read: {error}"))),
        },
        _ => None,
    };
    match refusal {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}
