//! Every event of a home in each of its forms: a page, SSE and the live connection send the same bytes, which are as documented.

use std::collections::{BTreeMap, BTreeSet};

use coven_api::event::EventsQuery;
use coven_api::routes::{Endpoint, ListEvents, Live, ReadDocument};
use coven_client::{Client, Frame};
use coven_testing::http::runtime;
use coven_testing::{DEADLINE, EventFeed, TestHome};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::snapshot::TIMED_EVENTS;
use crate::document::misfits;

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: u64,
}

/// The text of each event, by its number.
type Texts = BTreeMap<u64, String>;

fn number(event: &str) -> u64 {
    let event: Value = serde_json::from_str(event).expect("an event");
    event["number"].as_u64().expect("a number")
}

fn in_pages(home: &TestHome) -> Texts {
    let (mut texts, mut since) = (Texts::new(), 0);
    loop {
        let query = EventsQuery { since: Some(since.to_string()), limit: Some(1000), ..EventsQuery::default() };
        let page = runtime().block_on(async {
            let mut client = Client::connect(&home.socket()).await.expect("the daemon answers");
            client.bytes(ListEvents::request().query(&query)).await.expect("a page")
        });
        let page: Page = serde_json::from_slice(&page).expect("a page");
        if page.items.is_empty() {
            return texts;
        }
        since = page.next;
        texts.extend(page.items.iter().map(|event| (number(event.get()), event.get().to_owned())));
    }
}

fn in_stream(home: &TestHome, last: u64) -> Texts {
    let (mut feed, mut texts) = (EventFeed::after(home, 0), Texts::new());
    while texts.last_key_value().is_none_or(|(number, _)| *number < last) {
        let message = feed.next_message();
        let event: Value = message.value();
        assert_eq!((event["number"].as_u64(), &event["kind"]), (message.id, &Value::from(message.event.as_str())));
        texts.insert(number(&message.data), message.data);
    }
    texts
}

fn on_live(home: &TestHome, last: u64) -> Texts {
    let all = async {
        let client = Client::connect(&home.socket()).await.expect("the daemon answers");
        let mut live = client.websocket(Live::request()).await.expect("a live connection");
        let subscribe = json!({"type": "subscribe", "id": 1, "topic": "events", "since": 0});
        live.send_json(&subscribe).await.expect("the daemon reads");
        let mut texts = Texts::new();
        while texts.last_key_value().is_none_or(|(number, _)| *number < last) {
            let frame = live.next().await.expect("a frame").expect("the connection stays open");
            let Frame::Text(text) = frame else { panic!("only text was asked for: {frame:?}") };
            if let Some(event) = text.strip_prefix(r#"{"type":"event","id":1,"event":"#) {
                let event = event.strip_suffix('}').expect("the end of the message").to_owned();
                texts.insert(number(&event), event);
            }
        }
        texts
    };
    runtime().block_on(async { tokio::time::timeout(DEADLINE, all).await.expect("all events in time") })
}

/// Compares the three forms, and each event with the document.
#[track_caller]
pub fn check(home: &TestHome) {
    let pages = in_pages(home);
    let last = *pages.last_key_value().expect("there are events").0;
    let (stream, live) = (in_stream(home, last), on_live(home, last));
    let document: Value = home.read(ReadDocument::ROUTE.path);
    let union = &document["components"]["schemas"]["Event"];
    let mut found = Vec::new();
    for (number, text) in &pages {
        let event: Value = serde_json::from_str(text).expect("an event");
        let kind = event["kind"].as_str().expect("a kind");
        // One that was replaced meanwhile is not sent.
        for other in [&stream, &live].map(|form| form.get(number)) {
            let is_replaced = other.is_none() && TIMED_EVENTS.contains(&kind);
            assert!(is_replaced || other == Some(text), "event {number} is {text} on a page and {other:?} elsewhere");
        }
        let keys: BTreeSet<&str> = event.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["at", "kind", "number", "payload", "subject"]), "{text}");
        let schema = union["discriminator"]["mapping"][kind].as_str().unwrap_or_else(|| panic!("undocumented: {kind}"));
        let schema = document.pointer(schema.trim_start_matches('#')).expect("the schema of the kind");
        misfits(&document, schema, &event, kind, &mut found);
    }
    assert_eq!(found, [""; 0]);
}
