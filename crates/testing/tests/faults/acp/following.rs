//! Followers of a session are notified of its end only when it ends.

use coven_testing::records::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, process};
use rustix::process::Signal;

use super::Fixture;

const STREAM: &[(&str, &str)] = &[("accept", "text/event-stream")];

#[test]
fn a_session_with_a_stopped_holder_is_not_reported_as_ended() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.turn(&id, "say hello");
    let holder = fixture.home.holder_of(&id).expect("has a holder");
    process::signal(holder, Signal::STOP);

    fixture.home.kill_daemon();
    fixture.home.start();
    let mut feed = EventFeed::subscribe(&fixture.home, &path(&id, "/messages"), STREAM);
    let first: Vec<String> = (0..3).map(|_| feed.next_message().event).collect();
    assert_eq!(first, ["message", "message", "state"]);
    process::signal(holder, Signal::CONT);
    fixture.home.wait_for_rest(&id);
    fixture.home.turn(&id, "say again");

    loop {
        let message = feed.next_message();
        assert_ne!(message.event, "end", "{message:?}");
        if message.event == "message" && message.data.contains("again") && message.value()["role"] == "agent" {
            break;
        }
    }
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    let end = loop {
        let message = feed.next_message();
        if message.event == "end" {
            break serde_json::from_value::<SessionRecord>(message.value()).expect("session");
        }
    };
    assert_eq!(end.status, "killed");
    fixture.assert_others_unaffected();
}
