//! Events on a live connection.

use coven_testing::TestHome;
use serde_json::{Value, json};

use super::client::{Frame, Live};

fn next_event(live: &mut Live, id: u32) -> Value {
    match live.next() {
        Frame::Text(message) if message["type"] == "event" => {
            assert_eq!(message["id"], id);
            message["event"].clone()
        }
        other => panic!("an event was expected: {other:?}"),
    }
}

/// Returns the events of the event route.
fn stored(home: &TestHome, since: u64) -> Vec<Value> {
    let events = home.events_since(&since.to_string());
    let events = serde_json::to_value(events).expect("plain data");
    events["items"].as_array().or(events["events"].as_array()).expect("a page").clone()
}

#[test]
fn events_after_a_number_arrive_in_order_followed_by_new_ones() {
    let home = TestHome::started();
    home.run_to_end("say hello");
    let mut live = Live::connect(&home);
    live.send(json!({ "type": "subscribe", "id": 4, "topic": "events", "since": 0 }));
    assert_eq!(live.message("subscribed"), json!({ "type": "subscribed", "id": 4, "offset": 0 }));
    let (mut seen, mut is_second) = (Vec::new(), false);
    loop {
        let event = next_event(&mut live, 4);
        let is_end = event["kind"] == "session.completed";
        seen.push(event);
        if is_end && is_second {
            break;
        }
        if is_end {
            is_second = true;
            let launched = home.post("/api/v1/sessions", &json!({ "harness": "claude", "prompt": "say again" }));
            assert_eq!(launched.status, 201);
        }
    }
    let numbers: Vec<u64> = seen.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert!(numbers.is_sorted_by(|one, other| one < other), "{numbers:?}");
}

#[test]
fn an_event_is_the_same_as_in_the_list() {
    let home = TestHome::started();
    home.run_to_end("say hello");
    let listed = stored(&home, 0);
    let mut live = Live::connect(&home);
    live.send(json!({ "type": "subscribe", "id": 1, "topic": "events", "since": 0 }));
    live.message("subscribed");
    let last = listed.last().expect("events")["number"].clone();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|event: &Value| event["number"] != last) {
        seen.push(next_event(&mut live, 1));
    }
    assert_eq!(seen, listed);
}

#[test]
fn an_expired_or_unknown_cursor_is_a_gap() {
    let home = TestHome::started();
    home.run_to_end("say hello");
    home.stop();
    home.edit_database(
        "DELETE FROM events WHERE number < 3; UPDATE meta SET value = '2' WHERE key = 'events_expired_to'",
    );
    home.start();
    let mut live = Live::connect(&home);
    for since in [0, 1_000_000, u64::MAX] {
        live.send(json!({ "type": "subscribe", "id": 1, "topic": "events", "since": since }));
        live.message("subscribed");
        let gap = live.message("gap");
        assert_eq!((&gap["id"], &gap["event_number"]), (&json!(1), &live.welcome["event_number"]));
        live.send(json!({ "type": "unsubscribe", "id": 1 }));
        live.message("unsubscribed");
    }
}
