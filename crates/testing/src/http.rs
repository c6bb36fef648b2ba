//! Requests over the home's socket, one connection each: by route, or with literal paths and bodies.

use coven_api::ErrorBody;
use coven_api::health::HealthResponse;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, Health};
use coven_client::{Client, ClientError};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{DEADLINE, TestHome};

/// The daemon's response to a request.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl HttpResponse {
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, String::from_utf8_lossy(&self.body)))
    }

    /// Asserts that the response is an error with this status and code, and returns its message.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str) -> String {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        let ErrorBody { error } = self.json();
        assert_eq!(error.code.as_str(), code, "{text}");
        error.message
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or(""))
    }
}

pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("runtime")
}

impl TestHome {
    /// Calls a route and asserts success.
    #[track_caller]
    pub fn call<E: Endpoint<Response: DeserializeOwned>>(&self, request: Request<E>) -> E::Response {
        let target = request.target().to_owned();
        let answer = runtime().block_on(async {
            let answer = async { Client::connect(&self.socket()).await?.call(request).await };
            tokio::time::timeout(DEADLINE, answer).await.unwrap_or_else(|_| panic!("no answer in time: {target}"))
        });
        answer.unwrap_or_else(|error| panic!("{target}: {error:?}"))
    }

    /// Sends a request and returns any response.
    pub fn try_request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<HttpResponse, ClientError> {
        runtime().block_on(async {
            let answer = async {
                let mut client = Client::connect(&self.socket()).await?;
                let response = client.send_raw(method, path, &[], body).await?;
                let (parts, body) = response.into_parts();
                let body = body.collect().await?.to_bytes().to_vec();
                Ok(HttpResponse { status: parts.status.as_u16(), headers: parts.headers, body })
            };
            tokio::time::timeout(DEADLINE, answer).await.unwrap_or_else(|_| panic!("no answer in time: {path}"))
        })
    }

    #[track_caller]
    pub fn request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> HttpResponse {
        self.try_request(method, path, body).unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> HttpResponse {
        self.request(Method::GET, path, None)
    }

    /// Sends a GET request and asserts success.
    #[track_caller]
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.request(Method::POST, path, Some(body.to_string().into_bytes()))
    }

    #[track_caller]
    pub fn health(&self) -> HealthResponse {
        self.call(Health::request())
    }
}
