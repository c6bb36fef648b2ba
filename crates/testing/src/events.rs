//! A subscriber of `/events`.

use std::time::Instant;

use coven_api::event::EventRecord;
use coven_api::routes::{Endpoint, ListEvents};
use coven_client::Client;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::http::runtime;
use crate::{DEADLINE, TestHome};

/// One message of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: Option<u64>,
    pub event: String,
    pub data: String,
}

impl Message {
    #[track_caller]
    pub fn record(&self) -> EventRecord {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Reads the stream message by message.
pub struct EventFeed {
    runtime: Runtime,
    // Dropped after the body, whose connection it owns.
    body: Incoming,
    _client: Client,
    text: String,
}

impl EventFeed {
    /// Subscribes to new events.
    pub fn open(home: &TestHome) -> Self {
        Self::subscribe(home, ListEvents::ROUTE.path, &[])
    }

    /// Subscribes with `Last-Event-ID`.
    pub fn after(home: &TestHome, number: u64) -> Self {
        Self::subscribe(home, ListEvents::ROUTE.path, &[("last-event-id", &number.to_string())])
    }

    #[track_caller]
    pub fn subscribe(home: &TestHome, path: &str, headers: &[(&str, &str)]) -> Self {
        let runtime = runtime();
        let (client, body) = runtime.block_on(async {
            let mut client = Client::connect(&home.socket()).await.expect("the daemon answers");
            let response = client.send_raw(Method::GET, path, headers, None).await.expect("an answer");
            assert_eq!(response.status().as_u16(), 200);
            (client, response.into_body())
        });
        let mut feed = Self { runtime, body, _client: client, text: String::new() };
        // The first bytes show that the subscription is active.
        assert!(feed.read_more(), "the feed ended immediately");
        feed
    }

    /// Waits for the next message and returns it. Skips heartbeats.
    #[track_caller]
    pub fn next_message(&mut self) -> Message {
        // Heartbeats arrive forever, so the wait has its own limit.
        let until = Instant::now() + DEADLINE;
        loop {
            assert!(Instant::now() < until, "no event in time");
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let message = parse(block);
                self.text = rest.to_owned();
                match message {
                    Some(message) => return message,
                    None => continue,
                }
            }
            assert!(self.read_more(), "the feed ended; unread: {:?}", self.text);
        }
    }

    /// Waits for the next event of this kind and skips others.
    #[track_caller]
    pub fn next_of(&mut self, kind: &str) -> EventRecord {
        let until = Instant::now() + DEADLINE;
        loop {
            let message = self.next_message();
            if message.event == kind {
                return message.record();
            }
            assert!(Instant::now() < until, "no {kind} event in time");
        }
    }

    fn read_more(&mut self) -> bool {
        let read = async { tokio::time::timeout(DEADLINE, self.body.frame()).await.expect("data before the deadline") };
        match self.runtime.block_on(read) {
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    self.text.push_str(&String::from_utf8_lossy(bytes));
                }
                true
            }
            Some(Err(_)) | None => false,
        }
    }
}

fn parse(block: &str) -> Option<Message> {
    let mut message = Message { id: None, event: String::new(), data: String::new() };
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => message.id = id.parse().ok(),
            Some(("event", event)) => message.event = event.to_owned(),
            Some(("data", data)) => message.data.push_str(data),
            _ => {}
        }
    }
    (!message.event.is_empty()).then_some(message)
}
