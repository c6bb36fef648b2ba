//! A connection to the daemon of a home; starts the daemon if it is not running.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use coven_api::SessionRecord;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, GetSession, WaitSession};
use coven_client::blocking::{self, HttpResponse};
use coven_client::{Client, ClientError};
use coven_host::daemon_start;
use coven_host::home::Home;
use tokio::runtime::{Builder, Runtime};

use crate::failure::{self, Failure};
use crate::{output, trust_prompt};

/// A connection to the daemon of a home.
pub struct DaemonClient {
    client: Client,
}

impl Deref for DaemonClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for DaemonClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl DaemonClient {
    /// Connects; starts the daemon if it is not running.
    pub async fn open(home: &Home) -> Result<Self, Failure> {
        Self::open_without(home, "").await
    }

    /// Like `open`, but does not print the startup notice `needless_notice`.
    pub async fn open_without(home: &Home, needless_notice: &str) -> Result<Self, Failure> {
        match Self::running(home).await? {
            Some(link) => Ok(link),
            None => {
                trust_prompt::ask_before_start(home)?;
                let started = daemon_start::ensure_running(home, &[])?;
                let notices = started.notices.iter().filter(|notice| *notice != needless_notice);
                notices.for_each(|notice| failure::print_error(notice));
                Ok(Self { client: Client::connect(&started.socket).await? })
            }
        }
    }

    /// Connects to the daemon if it is running.
    pub async fn running(home: &Home) -> Result<Option<Self>, Failure> {
        match Client::connect(&home.socket()?).await {
            Ok(client) => Ok(Some(Self { client })),
            Err(ClientError::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn session(&mut self, id: &str) -> Result<SessionRecord, Failure> {
        Ok(self.client.call(GetSession::of(id)).await?)
    }

    /// Waits until the session has ended.
    pub async fn ended_session(&mut self, id: &str) -> Result<SessionRecord, Failure> {
        Ok(self.client.call(WaitSession::of(id)).await?)
    }

    /// Prints a JSON response unchanged.
    pub async fn print_json<E: Endpoint>(&mut self, request: Request<E>) -> Result<(), Failure> {
        output::json(&self.client.bytes(request).await?)
    }
}

/// How long a quick GET waits before `DaemonClient` repeats it.
const QUICK_GET_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the body of a GET without starting a runtime. `DaemonClient` repeats a request that does not succeed: it starts the
/// daemon if nothing answers, and reports the reason.
pub fn quick_get<E: Endpoint>(home: &Home, request: Request<E>) -> Result<Vec<u8>, Failure> {
    if let Some(answer) = try_quick_get(home, &request, QUICK_GET_TIMEOUT)? {
        return Ok(answer.body);
    }
    block_on(async { Ok(DaemonClient::open(home).await?.bytes(request).await?.to_vec()) })
}

/// Returns the response of a running daemon, if it is a success.
pub fn try_quick_get<E: Endpoint>(
    home: &Home,
    request: &Request<E>,
    timeout: Duration,
) -> Result<Option<HttpResponse>, Failure> {
    Ok(blocking::try_get(&home.socket()?, request, timeout))
}

/// Builds a runtime on the current thread.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)
}

pub fn block_on<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(task)
}

/// The error of verbs that must not start a daemon.
pub fn not_running() -> Failure {
    Failure::unavailable("the daemon is not running", "Start it with `coven daemon start`")
}
