//! A client of `/api/v1/live`.

use coven_api::live::OutputHeader;
use coven_testing::http::runtime;
use coven_testing::{DEADLINE, TestHome};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as RawFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::{WebSocketStream, client_async};

/// A blocking client, so that a test can send other requests between two messages.
pub struct Live {
    runtime: Runtime,
    socket: WebSocketStream<UnixStream>,
    pub welcome: Value,
}

#[derive(Debug, PartialEq)]
pub enum Frame {
    Text(Value),
    Output { id: u32, offset: u64, data: Vec<u8> },
    Closed(Option<u16>),
}

impl Live {
    pub fn connect(home: &TestHome) -> Self {
        let runtime = runtime();
        let (socket, _) = runtime.block_on(async {
            let stream = UnixStream::connect(home.socket()).await.expect("the daemon answers");
            client_async("ws://localhost/api/v1/live", stream).await.expect("an upgrade")
        });
        let mut live = Self { runtime, socket, welcome: Value::Null };
        live.welcome = live.message("welcome");
        live
    }

    pub fn send(&mut self, message: Value) {
        self.send_text(&message.to_string());
    }

    pub fn send_text(&mut self, text: &str) {
        self.runtime.block_on(self.socket.send(Message::Text(text.into()))).expect("open connection");
    }

    pub fn send_binary(&mut self, bytes: &'static [u8]) {
        self.runtime.block_on(self.socket.send(Message::Binary(bytes.into()))).expect("open connection");
    }

    /// Sends a message that the daemon may refuse before it has read all of it.
    pub fn send_refused(&mut self, message: Message) {
        let _ = self.runtime.block_on(self.socket.send(message));
    }

    /// Sends one text message in several frames.
    pub fn send_fragments(&mut self, parts: Vec<String>) {
        let last = parts.len() - 1;
        for (number, part) in parts.into_iter().enumerate() {
            let code = OpCode::Data(if number == 0 { Data::Text } else { Data::Continue });
            let frame = RawFrame::message(part, code, number == last);
            self.send_refused(Message::Frame(frame));
        }
    }

    /// Sends bytes that are not a whole frame.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.runtime.block_on(self.socket.get_mut().write_all(bytes)).expect("it is open");
    }

    pub fn next(&mut self) -> Frame {
        loop {
            let next = async { tokio::time::timeout(DEADLINE, self.socket.next()).await };
            let message = self.runtime.block_on(next).expect("a frame in time");
            return match message.expect("open connection").expect("a frame") {
                Message::Text(text) => Frame::Text(serde_json::from_str(&text).expect("JSON")),
                Message::Binary(frame) => {
                    let (OutputHeader { id, offset }, data) = OutputHeader::decode(&frame).expect("output");
                    assert!((1..=64 << 10).contains(&data.len()), "{} bytes in a frame", data.len());
                    Frame::Output { id, offset, data: data.to_vec() }
                }
                Message::Close(close) => Frame::Closed(close.map(|close| close.code.into())),
                _ => continue,
            };
        }
    }

    /// Returns the next frame that is not an event. It must be a message of this type.
    pub fn message(&mut self, kind: &str) -> Value {
        loop {
            match self.next() {
                Frame::Text(message) if message["type"] == kind => return message,
                Frame::Text(message) if message["type"] == "event" => {}
                other => panic!("{kind} was expected: {other:?}"),
            }
        }
    }

    /// Subscribes, and returns the offset that the answer names.
    pub fn subscribe(&mut self, id: u32, session: &str, more: Value) -> u64 {
        let mut request = json!({ "type": "subscribe", "id": id, "topic": "session", "session_id": session });
        for (name, value) in more.as_object().expect("fields") {
            request[name] = value.clone();
        }
        self.send(request);
        let answer = self.message("subscribed");
        assert_eq!(answer["id"], id);
        answer["offset"].as_u64().expect("a number")
    }

    pub fn ack(&mut self, id: u32, offset: u64) {
        self.send(json!({ "type": "ack", "id": id, "offset": offset }));
    }

    /// Returns the output of a subscription up to `to`, and asserts that it has no gap.
    pub fn output(&mut self, id: u32, from: u64, to: u64) -> Vec<u8> {
        let mut seen = Vec::new();
        while from + (seen.len() as u64) < to {
            match self.next() {
                Frame::Output { id: of, offset, data } => {
                    assert_eq!((of, offset), (id, from + seen.len() as u64));
                    seen.extend(data);
                }
                other => panic!("output was expected: {other:?}"),
            }
        }
        assert_eq!(from + seen.len() as u64, to, "a frame ends where it should");
        seen
    }

    /// Reads and acknowledges the output of a subscription until it contains `text`.
    pub fn output_until(&mut self, id: u32, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.next() {
                Frame::Output { id: of, offset, data } if of == id => {
                    let end = offset + data.len() as u64;
                    seen.extend(data);
                    self.ack(id, end);
                }
                Frame::Output { .. } => {}
                Frame::Text(message) => assert_ne!(message["type"], "error", "{message}"),
                Frame::Closed(code) => panic!("closed with {code:?} before {text:?}"),
            }
            let so_far = String::from_utf8_lossy(&seen);
            if so_far.contains(text) {
                return so_far.into_owned();
            }
        }
    }

    /// Reads and acknowledges all output up to the end of the session. Panics on a jump.
    pub fn all_output(&mut self, id: u32, from: u64) -> (Vec<u8>, Value) {
        let mut seen: Vec<u8> = Vec::new();
        loop {
            match self.next() {
                Frame::Output { id: of, offset, data } => {
                    assert_eq!((of, offset), (id, from + seen.len() as u64));
                    seen.extend(data);
                    self.ack(id, from + seen.len() as u64);
                }
                Frame::Text(message) if message["type"] == "exit" => return (seen, message),
                Frame::Text(message) => assert_eq!(message["type"], "lagging", "{message}"),
                Frame::Closed(code) => panic!("closed with {code:?}"),
            }
        }
    }

    /// Asserts that no frame is pending: the refusal of an invalid message must be the next frame.
    pub fn expect_silence(&mut self) {
        self.send(json!({ "type": "ack", "id": u32::MAX, "offset": 0, "request": 4711 }));
        assert_eq!(self.message("error")["request"], 4711);
    }
}
