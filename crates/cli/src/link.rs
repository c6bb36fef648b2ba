//! The way to the daemon: finds it, starts it if nothing answers, and sends requests.

use std::future::Future;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use coven_api::{ErrorBody, SessionRecord};
use coven_client::{Client, ClientError};
use coven_host::daemon_start;
use coven_host::home::Home;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

use crate::failure::{self, Failure};
use crate::{output, route, trust_prompt};

/// One connection to the daemon of a home.
pub struct Link {
    client: Client,
}

impl Deref for Link {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Link {
    /// Connects; starts the daemon if it does not run.
    pub async fn open(home: &Home) -> Result<Self, Failure> {
        Self::open_without(home, "").await
    }

    /// As `open`, for a command to which one of a starting daemon's notices does not apply.
    pub async fn open_without(home: &Home, needless_notice: &str) -> Result<Self, Failure> {
        match Self::running(home).await? {
            Some(link) => Ok(link),
            None => {
                trust_prompt::ask_before_start(home)?;
                let started = daemon_start::ensure_running(home, &[])?;
                let notices = started.notices.iter().filter(|notice| *notice != needless_notice);
                notices.for_each(|notice| failure::say(notice));
                Ok(Self { client: Client::connect(&started.socket).await? })
            }
        }
    }

    /// Connects to a daemon that runs already.
    pub async fn running(home: &Home) -> Result<Option<Self>, Failure> {
        match Client::connect(&home.socket()?).await {
            Ok(client) => Ok(Some(Self { client })),
            Err(ClientError::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn session(&mut self, id: &str) -> Result<SessionRecord, Failure> {
        Ok(self.client.get(&route::session(id, "")).await?)
    }

    /// Waits until the session has ended.
    pub async fn ended_session(&mut self, id: &str) -> Result<SessionRecord, Failure> {
        Ok(self.client.get(&route::session(id, "/wait")).await?)
    }

    /// Prints a JSON answer as it came.
    pub async fn print_json(&mut self, path: &str) -> Result<(), Failure> {
        output::json(&self.client.bytes_path(Method::GET, path, None).await?)
    }

    /// The JSON of an answer to `send`.
    pub async fn decode<T: DeserializeOwned>(&mut self, response: Response<Incoming>) -> Result<T, Failure> {
        let status = response.status();
        let body = response.collect().await.map_err(ClientError::from)?.to_bytes();
        match status.is_success() {
            true => Ok(serde_json::from_slice(&body).map_err(ClientError::from)?),
            false => {
                let ErrorBody { error } = serde_json::from_slice(&body).map_err(ClientError::from)?;
                let (status, details) = (status.as_u16(), error.details.map(Box::new));
                Err(ClientError::Api { status, code: error.code, message: error.message, details }.into())
            }
        }
    }

    /// Hands over a streamed answer piece by piece.
    pub async fn stream(&mut self, path: &str) -> Result<Pieces, Failure> {
        Ok(Pieces { response: self.client.call_path(Method::GET, path, None).await? })
    }
}

/// An answer whose body is read as it comes.
pub struct Pieces {
    response: Response<Incoming>,
}

impl Pieces {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        while let Some(frame) = self.response.body_mut().frame().await {
            match frame.map_err(ClientError::from)?.into_data() {
                Ok(bytes) => return Ok(Some(bytes)),
                // Trailers carry nothing for us.
                Err(_) => continue,
            }
        }
        Ok(None)
    }

    pub async fn all(mut self) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// A runtime of this one thread.
pub fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)
}

pub fn block_on<T>(task: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(task)
}

/// For verbs that look at a daemon and must not start one.
pub fn not_running() -> Failure {
    Failure::out_of_reach("the daemon does not run", "Start it with `coven daemon start`")
}
