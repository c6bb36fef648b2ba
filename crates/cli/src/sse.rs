//! Server-sent events out of a stream of bytes.

use std::collections::VecDeque;

use coven_client::{Client, ClientError};
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;

/// One event as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub id: Option<String>,
    pub kind: String,
    pub data: String,
}

/// Collects pieces, cut anywhere, and gives out whole events.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    event: SseEvent,
}

impl Sse {
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                events.extend(self.take_line(line.trim_end_matches(['\r', '\n'])));
            }
        }
        events
    }

    fn take_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            // A heartbeat is a comment followed by an empty line: nothing has gathered then.
            let event = std::mem::take(&mut self.event);
            return (!event.data.is_empty() || !event.kind.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => self.event.kind = value.to_owned(),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

/// The events of an answer, read as they come.
pub struct EventStream {
    body: Incoming,
    sse: Sse,
    waiting: VecDeque<SseEvent>,
}

impl EventStream {
    pub async fn open(client: &mut Client, path: &str) -> Result<Self, ClientError> {
        let response = client.send_raw(Method::GET, path, &[("accept", "text/event-stream")], None).await?;
        let response = match response.status().is_success() {
            true => response,
            // The same question again, for the error's words: those need the body of this answer to be read first.
            false => {
                response.collect().await?;
                client.call_path(Method::GET, path, None).await?
            }
        };
        Ok(Self { body: response.into_body(), sse: Sse::default(), waiting: VecDeque::new() })
    }

    /// The events that came together, perhaps none; nothing at the end.
    pub async fn some(&mut self) -> Result<Option<Vec<SseEvent>>, ClientError> {
        match self.body.frame().await {
            None => Ok(None),
            Some(frame) => {
                let events = frame?.into_data().map_or_else(|_| Vec::new(), |bytes| self.sse.feed(&bytes));
                Ok(Some(self.waiting.drain(..).chain(events).collect()))
            }
        }
    }

    /// The next event; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        while self.waiting.is_empty() {
            match self.some().await? {
                Some(events) => self.waiting.extend(events),
                None => return Ok(None),
            }
        }
        Ok(self.waiting.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_whole_however_they_are_cut() {
        let stream = b": hello\n\nid: 7\nevent: session.created\ndata: {\"a\":\ndata: 1}\n\nevent: gap\r\ndata:x\r\n\r\n: beat\n\n";
        let seven = SseEvent { id: Some("7".into()), kind: "session.created".into(), data: "{\"a\":\n1}".into() };
        let gap = SseEvent { id: None, kind: "gap".into(), data: "x".into() };
        for step in [1, 3, 10, 1000] {
            let mut sse = Sse::default();
            let events: Vec<SseEvent> = stream.chunks(step).flat_map(|piece| sse.feed(piece)).collect();
            assert_eq!(events, [seven.clone(), gap.clone()]);
        }
    }
}
