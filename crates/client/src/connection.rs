//! One connection to the daemon.

use bytes::Bytes;
use coven_api::header;
use coven_api::request::Request;
use coven_api::routes::Endpoint;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::transport;
use crate::{Address, ClientError, StreamingBody};

/// Limit for answers that are read as a whole.
const MAX_ANSWER_BYTES: usize = 1 << 30;
/// Limit for the body of an error answer.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// One connection to the daemon. Requests on it run one after the other.
pub struct Client {
    address: Address,
    sender: SendRequest<Full<Bytes>>,
    // The connection's task belongs to the client and ends with it.
    connection: JoinHandle<()>,
    headers: HeaderMap,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Client {
    pub async fn connect(address: impl Into<Address>) -> Result<Self, ClientError> {
        let address = address.into();
        let headers = common_headers(&address)?;
        let (sender, connection) = open(&address).await?;
        Ok(Self { address, sender, connection, headers })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the answer of a route. An error answer becomes `ClientError::Api`.
    pub async fn call<E>(&mut self, request: Request<E>) -> Result<E::Response, ClientError>
    where
        E: Endpoint<Response: DeserializeOwned>,
    {
        Ok(serde_json::from_slice(&self.bytes(request).await?)?)
    }

    /// Returns the bytes of an answer as they came: JSON to print, or a raw body.
    pub async fn bytes<E: Endpoint>(&mut self, request: Request<E>) -> Result<Bytes, ClientError> {
        self.answer(request, [(ACCEPT, HeaderValue::from_static("application/json"))])
            .await?
            .read_to_end(MAX_ANSWER_BYTES)
            .await
    }

    /// Returns the answer's headers, and its body as it arrives.
    pub async fn stream<E: Endpoint>(&mut self, request: Request<E>) -> Result<StreamingBody, ClientError> {
        self.answer(request, []).await
    }

    /// Sends a request and returns its answer if that is a success.
    pub(crate) async fn answer<E: Endpoint>(
        &mut self,
        request: Request<E>,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<StreamingBody, ClientError> {
        let (target, body) = request.into_parts();
        let method = E::ROUTE.method.as_str().parse().expect("the table has known methods only");
        let response = self.send(method, &target, headers, body).await?;
        let status = response.status();
        let body = StreamingBody::new(response);
        match status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            true => Ok(body),
            false => Err(ClientError::from_answer(status.as_u16(), &body.read_to_end(MAX_ERROR_BYTES).await?)),
        }
    }

    /// Sends text that a test spells out, and returns the answer whatever its status.
    pub async fn send_raw(
        &mut self,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let header = |(name, value): &(&str, &str)| -> Result<_, hyper::http::Error> {
            Ok((HeaderName::try_from(*name)?, HeaderValue::try_from(*value)?))
        };
        let headers: Vec<_> = headers.iter().map(header).collect::<Result<_, _>>()?;
        self.send(method, target, headers, body).await
    }

    async fn send(
        &mut self,
        method: Method,
        target: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut request = hyper::Request::builder().method(method).uri(target);
        if let Some(all) = request.headers_mut() {
            all.clone_from(&self.headers);
            if body.is_some() {
                all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            all.extend(headers);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        // The connection's task gets a turn first: it notices a connection that the daemon closed while it was idle.
        tokio::task::yield_now().await;
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                // The daemon closed the connection, which was idle, and has seen nothing of the request.
                Some(request) => {
                    let (sender, connection) = open(&self.address).await?;
                    self.sender = sender;
                    std::mem::replace(&mut self.connection, connection).abort();
                    Ok(self.sender.send_request(request).await?)
                }
                None => Err(error.into_error().into()),
            },
        }
    }
}

async fn open(address: &Address) -> Result<(SendRequest<Full<Bytes>>, JoinHandle<()>), ClientError> {
    let stream = transport::connect(address).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(async move {
        // The error also reaches the caller that waits for a response.
        let _ = connection.with_upgrades().await;
    });
    Ok((sender, connection))
}

/// Returns the headers of every request to this address.
fn common_headers(address: &Address) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    let value = |text: String| HeaderValue::try_from(text).map_err(hyper::http::Error::from);
    headers.insert(HOST, value(address.host_header())?);
    if let Some(token) = address.token() {
        let mut token = value(token.header())?;
        token.set_sensitive(true);
        headers.insert(AUTHORIZATION, token);
    }
    // The daemon records the session that an answer comes from.
    if let Some(session) = std::env::var("COVEN_SESSION_ID").ok().and_then(|id| HeaderValue::try_from(id).ok())
        && !session.is_empty()
    {
        headers.insert(HeaderName::from_static(header::CALLER_SESSION), session);
    }
    Ok(headers)
}
