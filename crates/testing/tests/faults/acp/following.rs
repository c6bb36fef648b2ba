//! Those who follow a conversation hear of its end when it ends.

use coven_api::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, process};
use rustix::process::Signal;

use super::Scene;

const STREAM: &[(&str, &str)] = &[("accept", "text/event-stream")];

#[test]
fn a_session_whose_holder_is_silent_is_not_told_as_ended() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.turn(&id, "say hello");
    let holder = scene.home.holder_of(&id).expect("a holder");
    process::signal(holder, Signal::STOP);

    scene.home.kill_daemon();
    scene.home.start();
    let mut feed = EventFeed::subscribe(&scene.home, &path(&id, "/messages"), STREAM);
    let first: Vec<String> = (0..3).map(|_| feed.next_message().event).collect();
    assert_eq!(first, ["message", "message", "state"]);
    process::signal(holder, Signal::CONT);
    scene.home.wait_for_rest(&id);
    scene.home.turn(&id, "say again");

    loop {
        let message = feed.next_message();
        assert_ne!(message.event, "end", "{message:?}");
        if message.event == "message" && message.data.contains("again") && message.value()["role"] == "agent" {
            break;
        }
    }
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    let end = loop {
        let message = feed.next_message();
        if message.event == "end" {
            break serde_json::from_value::<SessionRecord>(message.value()).expect("a session");
        }
    };
    assert_eq!(end.status, "killed");
    scene.is_sound();
}
