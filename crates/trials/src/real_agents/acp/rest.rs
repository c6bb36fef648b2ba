//! Calls to the daemon's REST API over its socket, each with a timeout.

use std::path::PathBuf;
use std::time::Duration;

use coven_api::request::Request;
use coven_api::routes::Endpoint;
use coven_client::{Client, ClientError};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::super::TrialResult;

/// No call waits for an agent, so all must be fast.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

pub struct Rest {
    socket: PathBuf,
    runtime: Runtime,
}

impl Rest {
    pub fn new(socket: PathBuf) -> TrialResult<Self> {
        Ok(Self { socket, runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()? })
    }

    pub fn call<E: Endpoint<Response: DeserializeOwned>>(&self, request: Request<E>) -> TrialResult<E::Response> {
        let name = format!("{} {}", E::ROUTE.method.as_str(), request.target());
        self.with_timeout(&name, async { Client::connect(&self.socket).await?.call(request).await })
    }

    fn with_timeout<T>(&self, name: &str, call: impl Future<Output = Result<T, ClientError>>) -> TrialResult<T> {
        match self.runtime.block_on(async { timeout(CALL_TIMEOUT, call).await }) {
            Err(_) => Err(format!("{name}: no response in {} s", CALL_TIMEOUT.as_secs()).into()),
            Ok(Err(ClientError::Api { status, code, message, .. })) => {
                Err(format!("{name}: {status} {code}: {message}").into())
            }
            Ok(Err(error)) => Err(format!("{name}: {error}").into()),
            Ok(Ok(answer)) => Ok(answer),
        }
    }
}
