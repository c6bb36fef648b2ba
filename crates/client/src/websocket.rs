//! WebSockets of the daemon: attach and live.

use bytes::Bytes;
use coven_api::request::Request;
use coven_api::routes::{self, Endpoint};
use futures_util::{SinkExt, StreamExt};
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::{Client, ClientError};

/// Limit for one message: a screen is the largest that the daemon sends.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");
const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");

type Stream = WebSocketStream<TokioIo<Upgraded>>;

/// One message. Pings are answered and not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Binary(Bytes),
}

/// An open WebSocket. Dropping it closes the connection.
pub struct WebSocket {
    sender: WebSocketSender,
    receiver: WebSocketReceiver,
}

pub struct WebSocketSender(futures_util::stream::SplitSink<Stream, Message>);

pub struct WebSocketReceiver(futures_util::stream::SplitStream<Stream>);

impl Client {
    /// Turns the connection into a WebSocket of the route `E`.
    pub async fn websocket<E, M>(mut self, request: Request<E>) -> Result<WebSocket, ClientError>
    where
        E: Endpoint<Response = routes::WebSocket<M>>,
    {
        let key = generate_key();
        let headers = [
            (CONNECTION, HeaderValue::from_static("upgrade")),
            (UPGRADE, HeaderValue::from_static("websocket")),
            (VERSION, HeaderValue::from_static("13")),
            (KEY, HeaderValue::try_from(&key).map_err(hyper::http::Error::from)?),
        ];
        let answer = self.answer(request, headers).await?;
        if answer.status() != 101 || answer.header(ACCEPT.as_str()) != Some(&derive_accept_key(key.as_bytes())) {
            return Err(ClientError::from_answer(answer.status(), b""));
        }
        let upgraded = hyper::upgrade::on(answer.into_response()).await?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let stream = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await;
        let (sender, receiver) = stream.split();
        Ok(WebSocket { sender: WebSocketSender(sender), receiver: WebSocketReceiver(receiver) })
    }
}

impl WebSocket {
    pub async fn send(&mut self, frame: Frame) -> Result<(), ClientError> {
        self.sender.send(frame).await
    }

    /// Sends a value as a text frame.
    pub async fn send_json(&mut self, message: &impl Serialize) -> Result<(), ClientError> {
        self.sender.send_json(message).await
    }

    /// Returns the next message, or nothing once the daemon has closed. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        self.receiver.next().await
    }

    /// Closes in order: messages that were sent before arrive.
    pub async fn close(mut self) -> Result<(), ClientError> {
        self.sender.0.close().await.or_else(ended)
    }

    /// Splits it for a task that reads and another one that writes.
    pub fn split(self) -> (WebSocketSender, WebSocketReceiver) {
        (self.sender, self.receiver)
    }
}

impl WebSocketSender {
    pub async fn send(&mut self, frame: Frame) -> Result<(), ClientError> {
        let message = match frame {
            Frame::Text(text) => Message::Text(text.into()),
            Frame::Binary(bytes) => Message::Binary(bytes),
        };
        self.0.send(message).await.map_err(broken)
    }

    pub async fn send_json(&mut self, message: &impl Serialize) -> Result<(), ClientError> {
        self.send(Frame::Text(serde_json::to_string(message)?)).await
    }
}

impl WebSocketReceiver {
    pub async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        loop {
            return match self.0.next().await {
                Some(Ok(Message::Text(text))) => Ok(Some(Frame::Text(text.as_str().to_owned()))),
                Some(Ok(Message::Binary(bytes))) => Ok(Some(Frame::Binary(bytes))),
                Some(Ok(Message::Close(_))) | None => Ok(None),
                Some(Ok(_)) => continue,
                Some(Err(error)) => ended(error).map(|()| None),
            };
        }
    }
}

/// The end of a connection that both sides agreed on is not an error.
fn ended(error: Error) -> Result<(), ClientError> {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => Ok(()),
        error => Err(broken(error)),
    }
}

fn broken(error: Error) -> ClientError {
    ClientError::WebSocket(Box::new(error))
}
