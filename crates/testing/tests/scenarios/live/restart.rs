//! A daemon that stops, and one that is killed.

use coven_testing::TestHome;
use coven_testing::pattern::difference;
use serde_json::json;

use super::client::{Frame, Live};

#[test]
fn a_daemon_that_stops_sends_a_message_and_closes_the_connection() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0, "window": u32::MAX }));
    std::thread::scope(|scope| {
        scope.spawn(|| home.stop());
        loop {
            match live.next() {
                Frame::Output { .. } => {}
                other => break assert_eq!(other, Frame::Text(json!({ "type": "stopping" }))),
            }
        }
        assert_eq!(live.next(), Frame::Closed(Some(1001)));
    });
}

#[test]
fn after_a_killed_daemon_the_bytes_continue_exactly_where_they_stopped() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let mut seen = Vec::new();
    for round in 0..3 {
        let mut live = Live::connect(&home);
        let wanted = json!({ "from": seen.len(), "on_lag": "wait" });
        live.subscribe(1, &id, wanted);
        if round == 2 {
            live.send(json!({ "type": "input", "session_id": id, "data": "stop\r" }));
            let (rest, exit) = live.all_output(1, seen.len() as u64);
            seen.extend(rest);
            assert_eq!(exit["exit_code"], 0);
            break;
        }
        let until = seen.len() + 500_000;
        while seen.len() < until {
            match live.next() {
                Frame::Output { offset, data, .. } => {
                    assert_eq!(offset, seen.len() as u64);
                    seen.extend(data);
                    live.ack(1, seen.len() as u64);
                }
                other => assert!(matches!(&other, Frame::Text(it) if it["type"] == "lagging"), "{other:?}"),
            }
        }
        home.kill_daemon();
        home.start();
    }
    assert_eq!(difference(&seen, &home.log(&id)), None);
}
