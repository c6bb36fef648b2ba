//! The typed client: HTTP over the home's Unix socket.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use coven_api::error::{ErrorBody, ErrorCode};
use coven_api::header;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// What is set aside for an answer before any of it has come.
const LARGEST_GUESS: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the daemon does not answer on {}", socket.display())]
    Unreachable { socket: PathBuf, source: std::io::Error },
    #[error("a process of another user listens on {}; nothing was sent to it", socket.display())]
    NotOurs { socket: PathBuf },
    #[error("{message}")]
    Api { status: u16, code: String, message: String, details: Option<Box<serde_json::Value>> },
    #[error("the connection to the daemon broke")]
    Broken(#[from] hyper::Error),
    #[error("the daemon sent something this coven does not understand; restart it with `coven daemon restart`")]
    Decode(#[from] serde_json::Error),
    #[error("the request could not be written")]
    Request(#[from] hyper::http::Error),
}

impl ClientError {
    /// The exit code of a command that met it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Broken(_) => 5,
            Self::NotOurs { .. } => 4,
            Self::Api { code, .. } => ErrorCode::from_word(code).map_or(1, ErrorCode::exit_code),
            Self::Decode(_) | Self::Request(_) => 1,
        }
    }

    pub fn is(&self, wanted: ErrorCode) -> bool {
        matches!(self, Self::Api { code, .. } if code == wanted.as_str())
    }
}

/// One connection to the daemon. Requests on it go one after the other.
pub struct Client {
    socket: PathBuf,
    sender: SendRequest<Full<Bytes>>,
    // The connection's task belongs to the client and ends with it.
    connection: tokio::task::JoinHandle<()>,
    /// The session that this process runs in; the daemon records who answers.
    session: Option<HeaderValue>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Client {
    pub async fn connect(socket: &Path) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { socket: socket.to_owned(), source };
        let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
        // Prompts and environments are sent over it.
        if stream.peer_cred().map_err(unreachable)?.uid() != rustix::process::geteuid().as_raw() {
            return Err(ClientError::NotOurs { socket: socket.to_owned() });
        }
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(async move {
            // An error here reaches whoever waits for a response.
            let _ = connection.with_upgrades().await;
        });
        let session = std::env::var("COVEN_SESSION_ID").ok().filter(|id| !id.is_empty());
        let session = session.and_then(|id| HeaderValue::try_from(id).ok());
        Ok(Self { socket: socket.to_owned(), sender, connection, session })
    }

    /// Sends and returns the response as it is, whatever its status; for raw and streamed bodies.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(session) = &self.session {
            request = request.header(header::CALLER_SESSION, session);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                // The daemon closed the connection, which was idle, and has seen nothing of the request.
                Some(request) => {
                    *self = Self::connect(&self.socket.clone()).await?;
                    Ok(self.sender.send_request(request).await?)
                }
                None => Err(error.into_error().into()),
            },
        }
    }

    /// Sends and turns an error answer into `ClientError::Api`.
    pub async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let response = self.send(method, path, &[], body).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Self::api_error(status, response.collect().await?.to_bytes())),
        }
    }

    fn api_error(status: StatusCode, body: Bytes) -> ClientError {
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) => ClientError::Api {
                status: status.as_u16(),
                code: error.code,
                message: error.message,
                details: error.details.map(Box::new),
            },
            Err(_) => ClientError::Api {
                status: status.as_u16(),
                code: ErrorCode::Internal.as_str().to_owned(),
                message: format!("the daemon answered {status}"),
                details: None,
            },
        }
    }

    pub async fn bytes(&mut self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Bytes, ClientError> {
        let mut response = self.call(method, path, body).await?;
        // Put in place piece by piece: all of them beside their whole would be the answer twice.
        let size = response.body().size_hint().lower().min(LARGEST_GUESS);
        let mut whole = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        while let Some(frame) = response.frame().await {
            if let Ok(piece) = frame?.into_data() {
                whole.extend_from_slice(&piece);
            }
        }
        Ok(whole.into())
    }

    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.bytes(Method::GET, path, None).await?)?)
    }

    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body)?;
        Ok(serde_json::from_slice(&self.bytes(Method::POST, path, Some(body)).await?)?)
    }

    pub async fn delete<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.bytes(Method::DELETE, path, None).await?)?)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_the_daemon_closed_is_opened_again() {
        let dir = std::env::temp_dir().join(format!("coven-client-{}", std::process::id()));
        let _ = std::fs::remove_file(&dir);
        let listener = UnixListener::bind(&dir).expect("a socket");
        // Answers one request and closes the connection, as the daemon does with an idle one.
        let answer = async |listener: UnixListener| {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                seen.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1").await.expect("it listens");
            listener
        };
        let mut client = Client::connect(&dir).await.expect("it listens");
        let (first, listener) = tokio::join!(client.get::<u8>("/"), answer(listener));
        let (second, _) = tokio::join!(client.get::<u8>("/"), answer(listener));
        assert_eq!((first.expect("an answer"), second.expect("an answer")), (1, 1));
        let _ = std::fs::remove_file(&dir);
    }
}
