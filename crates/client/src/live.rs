//! `/api/v1/live` with the messages of `api`.

use bytes::Bytes;
use coven_api::live::{LiveMessage, LiveRequest, OutputHeader};
use coven_api::routes::{Endpoint as _, Live as LiveRoute};

use crate::{Client, ClientError, Frame, WebSocket, WebSocketReceiver, WebSocketSender};

/// A frame that the daemon sent.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveFrame {
    Message(Box<LiveMessage>),
    /// Bytes of a session's log for the subscription `id`; `offset` is that of the first byte.
    Output {
        id: u32,
        offset: u64,
        data: Bytes,
    },
}

/// One live connection. Dropping it closes the connection.
pub struct Live {
    sender: LiveSender,
    receiver: LiveReceiver,
}

pub struct LiveSender(WebSocketSender);

pub struct LiveReceiver(WebSocketReceiver);

impl Client {
    /// Turns the connection into a live connection. Its first frame is `welcome`.
    pub async fn live(self) -> Result<Live, ClientError> {
        Ok(self.websocket(LiveRoute::request()).await?.into())
    }
}

impl From<WebSocket> for Live {
    fn from(socket: WebSocket) -> Self {
        let (sender, receiver) = socket.split();
        Self { sender: LiveSender(sender), receiver: LiveReceiver(receiver) }
    }
}

impl Live {
    pub async fn send(&mut self, request: &LiveRequest) -> Result<(), ClientError> {
        self.sender.send(request).await
    }

    /// Returns the next frame, or nothing once the daemon has closed. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<LiveFrame>, ClientError> {
        self.receiver.next().await
    }

    /// Splits it for a task that reads and another one that writes.
    pub fn split(self) -> (LiveSender, LiveReceiver) {
        (self.sender, self.receiver)
    }
}

impl LiveSender {
    pub async fn send(&mut self, request: &LiveRequest) -> Result<(), ClientError> {
        self.0.send_json(request).await
    }
}

impl LiveReceiver {
    pub async fn next(&mut self) -> Result<Option<LiveFrame>, ClientError> {
        self.0.next().await?.map(LiveFrame::parse).transpose()
    }
}

impl LiveFrame {
    /// Reads a frame of the WebSocket.
    pub fn parse(frame: Frame) -> Result<Self, ClientError> {
        match frame {
            Frame::Text(text) => Ok(Self::Message(serde_json::from_str(&text)?)),
            Frame::Binary(frame) => {
                let (OutputHeader { id, offset }, _) = OutputHeader::decode(&frame).ok_or(ClientError::LiveFrame)?;
                Ok(Self::Output { id, offset, data: frame.slice(OutputHeader::BYTES..) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_told_from_messages_and_other_bytes_are_refused() {
        let mut bytes = OutputHeader { id: 7, offset: 300 }.encode().to_vec();
        bytes.extend(b"hello");
        let output = LiveFrame::parse(Frame::Binary(bytes.into())).expect("output");
        assert_eq!(output, LiveFrame::Output { id: 7, offset: 300, data: Bytes::from_static(b"hello") });
        let message = LiveFrame::parse(Frame::Text(r#"{"type":"unsubscribed","id":7}"#.to_owned())).expect("a message");
        assert!(
            matches!(message, LiveFrame::Message(message) if matches!(*message, LiveMessage::Unsubscribed { id: 7, .. }))
        );
        for bad in [Frame::Binary(Bytes::from_static(b"short")), Frame::Text("{}".to_owned())] {
            assert!(LiveFrame::parse(bad).is_err());
        }
    }
}
