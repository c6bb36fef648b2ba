//! Authentication: over TCP every request needs the token, an exact Host and, if it has one, an exact Origin.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use coven_api::ErrorCode;
use subtle::ConstantTimeEq;

use super::body;
use super::reply::ApiError;

/// Requirements of a transport.
pub enum Guard {
    /// The Unix socket: the peer's uid was checked when it connected.
    Socket,
    Tcp {
        token: String,
        hosts: Vec<String>,
        origins: Vec<String>,
    },
}

impl Guard {
    fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Self::Tcp { token, hosts, origins } = self else { return Ok(()) };
        let text = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("")).collect::<Vec<_>>();
        // Exactly one known Host: after DNS rebinding, a page sends its own.
        match text(HOST).as_slice() {
            [host] if hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) => {}
            _ => {
                return Err(ApiError::new(
                    ErrorCode::ForbiddenHost,
                    "the Host header is not an address of this daemon",
                ));
            }
        }
        match text(ORIGIN).as_slice() {
            [] => {}
            [origin] if origins.iter().any(|known| known == origin) => {}
            _ => {
                return Err(ApiError::new(
                    ErrorCode::ForbiddenOrigin,
                    "this Origin may not call; see http.allowedOrigins",
                ));
            }
        }
        let given = text(AUTHORIZATION);
        let is_known = matches!(given.as_slice(), [value] if value
            .strip_prefix("Bearer ")
            .is_some_and(|given| given.as_bytes().ct_eq(token.as_bytes()).into()));
        match is_known {
            true => Ok(()),
            false => Err(ApiError::new(
                ErrorCode::Unauthorized,
                "send `Authorization: Bearer <token>` with the content of the home's token file",
            )),
        }
    }
}

/// Admits or rejects a request. Reads at most `limit` bytes of a rejected body.
pub async fn check(State(door): State<Arc<(Guard, usize)>>, request: Request, next: Next) -> Response {
    let (guard, limit) = &*door;
    match guard.admit(request.headers()) {
        // A write completes even if the client disconnects: a cancelled launch would leave a process without an owner.
        Ok(()) if !request.method().is_safe() => match tokio::spawn(next.run(request)).await {
            Ok(response) => response,
            Err(_) => ApiError::new(ErrorCode::Internal, "the request failed; see the daemon's log").into_response(),
        },
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            tracing::warn!(code = refusal.code.as_str(), path = request.uri().path(), "a request was refused");
            let (parts, body) = request.into_parts();
            body::discard(&parts.headers, body, *limit);
            let mut response = refusal.into_response();
            if response.status() == axum::http::StatusCode::UNAUTHORIZED {
                response.headers_mut().insert("www-authenticate", axum::http::HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(headers: &[(&'static str, &str)]) -> Result<(), ErrorCode> {
        let guard = Guard::Tcp {
            token: "secret".into(),
            hosts: vec!["127.0.0.1:7777".into(), "localhost:7777".into()],
            origins: vec!["http://localhost:7777".into()],
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header"));
        }
        guard.admit(&map).map_err(|error| error.code)
    }

    const HOST_OK: (&str, &str) = ("host", "127.0.0.1:7777");
    const TOKEN_OK: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn the_token_the_host_and_the_origin_must_all_be_right() {
        assert_eq!(admit(&[HOST_OK, TOKEN_OK]), Ok(()));
        assert_eq!(admit(&[HOST_OK, TOKEN_OK, ("origin", "http://localhost:7777")]), Ok(()));
        assert_eq!(admit(&[HOST_OK]), Err(ErrorCode::Unauthorized));
        for wrong in ["Bearer secre", "Bearer secret2", "secret", "Basic secret", "Bearer "] {
            assert_eq!(admit(&[HOST_OK, ("authorization", wrong)]), Err(ErrorCode::Unauthorized), "{wrong}");
        }
        assert_eq!(admit(&[TOKEN_OK]), Err(ErrorCode::ForbiddenHost));
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:7777.evil.example"] {
            assert_eq!(admit(&[("host", host), TOKEN_OK]), Err(ErrorCode::ForbiddenHost), "{host}");
        }
        assert_eq!(admit(&[HOST_OK, HOST_OK, TOKEN_OK]), Err(ErrorCode::ForbiddenHost));
        for origin in ["http://evil.example", "null", "https://localhost:7777"] {
            assert_eq!(admit(&[HOST_OK, TOKEN_OK, ("origin", origin)]), Err(ErrorCode::ForbiddenOrigin), "{origin}");
        }
    }
}
