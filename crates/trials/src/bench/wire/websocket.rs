//! A blocking client of `/api/v1/live`: JSON frames in both directions, output in binary frames.
//!
//! Not `coven-client`: each viewer is one blocking thread, so that the trial measures the daemon and not a runtime beside it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use coven_api::live::OutputHeader;
use coven_api::routes::{Endpoint, Live};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

use crate::bench::coven::{Coven, Session};
use crate::bench::{BenchResult, pty};

const SUBSCRIPTION: u32 = 1;

pub struct LiveClient {
    socket: WebSocket<UnixStream>,
}

/// A frame from the daemon, with its size on the wire.
pub enum Frame {
    /// Output, and the offset after it.
    Output {
        end: u64,
        size: usize,
    },
    Control {
        message: Value,
        size: usize,
    },
}

impl LiveClient {
    pub fn open(home: &Coven) -> BenchResult<Self> {
        let stream = UnixStream::connect(home.home().join("coven.sock"))?;
        stream.set_read_timeout(Some(pty::STEP_TIMEOUT))?;
        let (socket, _) = tungstenite::client(format!("ws://localhost{}", Live::ROUTE.path), stream)?;
        let mut client = Self { socket };
        client.expect("welcome")?;
        Ok(client)
    }

    /// Subscribes to a session and waits for its screen. Returns the screen's offset.
    pub fn watch(&mut self, session: &Session, mode: &str) -> BenchResult<u64> {
        self.send(&json!({
            "type": "subscribe", "id": SUBSCRIPTION, "topic": "session", "session_id": session.id, "mode": mode,
        }))?;
        let screen = self.expect("screen")?;
        screen["offset"].as_u64().ok_or_else(|| "the screen frame has no offset".into())
    }

    pub fn input(&mut self, session: &Session, data: &str) -> BenchResult<()> {
        self.send(&json!({ "type": "input", "session_id": session.id, "data": data }))
    }

    pub fn ack(&mut self, offset: u64) -> BenchResult<()> {
        self.send(&json!({ "type": "ack", "id": SUBSCRIPTION, "offset": offset }))
    }

    pub fn next(&mut self) -> BenchResult<Frame> {
        loop {
            match self.socket.read()? {
                Message::Binary(bytes) => {
                    let (header, data) = OutputHeader::decode(&bytes).ok_or("a binary frame without its header")?;
                    return Ok(Frame::Output { end: header.offset + data.len() as u64, size: bytes.len() });
                }
                Message::Text(text) => {
                    return Ok(Frame::Control { message: serde_json::from_str(&text)?, size: text.len() });
                }
                Message::Close(_) => return Err("the daemon closed the connection".into()),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    pub fn expect(&mut self, wanted: &str) -> BenchResult<Value> {
        loop {
            if let Frame::Control { message, .. } = self.next()? {
                match message["type"].as_str() {
                    Some(kind) if kind == wanted => return Ok(message),
                    Some("error") => return Err(format!("the daemon answered {message}").into()),
                    Some(_) | None => {}
                }
            }
        }
    }

    /// Returns a handle to close the connection from another thread.
    pub fn closer(&self) -> BenchResult<UnixStream> {
        Ok(UnixStream::from(self.socket.get_ref().as_fd().try_clone_to_owned()?))
    }

    fn send(&mut self, message: &Value) -> BenchResult<()> {
        Ok(self.socket.send(Message::text(message.to_string()))?)
    }
}
