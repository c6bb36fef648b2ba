//! Server-sent events out of a stream of bytes.

use std::collections::VecDeque;

use coven_api::request::Request;
use coven_api::routes::Endpoint;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};

use crate::{Client, ClientError, StreamingBody};

/// Limit for one event: a snapshot of a large home is the largest that the daemon sends.
const MAX_EVENT_BYTES: usize = 256 << 20;

/// One event as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub id: Option<String>,
    pub kind: String,
    pub data: String,
}

impl SseEvent {
    /// Returns whether events before this one have expired: the state must be read again.
    pub fn is_gap(&self) -> bool {
        self.kind == "gap"
    }
}

/// Collects bytes, cut anywhere, and returns whole events.
#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
}

impl SseParser {
    /// Returns the events that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, ClientError> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + self.event.data.len() + piece.len() > MAX_EVENT_BYTES {
                return Err(ClientError::TooLarge { limit: MAX_EVENT_BYTES });
            }
            self.line.extend_from_slice(piece);
            if self.line.last() == Some(&b'\n') {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                events.extend(self.take_line(line.trim_end_matches(['\r', '\n'])));
            }
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            // A heartbeat is a comment followed by an empty line: it completes no event.
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

/// The events of an answer, read as they arrive. Dropping it closes the connection.
pub struct EventStream {
    body: StreamingBody,
    parser: SseParser,
    waiting: VecDeque<SseEvent>,
    _connection: Client,
}

impl Client {
    /// Subscribes to a route that answers with events. `last_event_id` continues after the event of that number.
    pub async fn events<E: Endpoint>(
        mut self,
        request: Request<E>,
        last_event_id: Option<&str>,
    ) -> Result<EventStream, ClientError> {
        let mut headers = vec![(ACCEPT, HeaderValue::from_static("text/event-stream"))];
        if let Some(id) = last_event_id {
            let id = HeaderValue::try_from(id).map_err(hyper::http::Error::from)?;
            headers.push((HeaderName::from_static("last-event-id"), id));
        }
        let body = self.answer(request, headers).await?;
        Ok(EventStream { body, parser: SseParser::default(), waiting: VecDeque::new(), _connection: self })
    }
}

impl EventStream {
    /// Returns the events that arrived together: none for a heartbeat, `None` at the end. Cancel-safe.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<SseEvent>>, ClientError> {
        if !self.waiting.is_empty() {
            return Ok(Some(self.waiting.drain(..).collect()));
        }
        match self.body.next().await? {
            None => Ok(None),
            Some(bytes) => Ok(Some(self.parser.feed(&bytes)?)),
        }
    }

    /// Returns the next event, or nothing at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        while self.waiting.is_empty() {
            match self.next_batch().await? {
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
            let mut parser = SseParser::default();
            let events: Vec<SseEvent> =
                stream.chunks(step).flat_map(|piece| parser.feed(piece).expect("it is small")).collect();
            assert_eq!(events, [seven.clone(), gap.clone()]);
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 64 << 20];
        let refused = (0..8).find_map(|_| parser.feed(&piece).err());
        assert!(matches!(refused, Some(ClientError::TooLarge { .. })), "{refused:?}");
    }
}
