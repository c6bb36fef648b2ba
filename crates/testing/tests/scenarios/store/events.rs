//! STORE-10 and STORE-11: events are stored, and a subscriber that reconnects misses none.

use coven_testing::{EventFeed, TestHome, check_invariants, wait_until};

#[test]
fn store_10_events_are_stored_and_survive_the_daemon() {
    let home = TestHome::started();
    let session = home.run_to_end("exit 0");
    let before = home.events_since("0");
    let kinds: Vec<&str> =
        before.items.iter().filter(|it| it.subject == session.id).map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, ["session.created", "session.running", "session.completed"]);

    home.kill_daemon();
    home.start();

    let after = home.events_since("0");
    assert_eq!(after.items[..before.items.len()], before.items);
    assert!(!after.gap);
    check_invariants(&home);
}

#[test]
fn store_11_a_subscriber_that_reconnects_gets_the_missed_events() {
    let home = TestHome::started();
    let mut feed = EventFeed::open(&home);
    let seen = home.run_to_end("exit 0");
    let last = feed.next_of("session.completed");
    assert_eq!(last.subject, seen.id);
    drop(feed);

    let missed = home.run_to_end("exit 4");
    let by_time = home.events_since(&last.at.to_string());
    let by_number = home.events_since(&last.number.to_string());
    home.restart();
    let mut feed = EventFeed::after(&home, last.number);

    let expected = ["session.created", "session.running", "session.failed"];
    for (number, kind) in (last.number + 1..).zip(expected) {
        let message = feed.next_message();
        assert_eq!((message.id, message.event.as_str()), (Some(number), kind));
        assert_eq!(message.record().subject, missed.id);
    }
    let kinds = |events: &[coven_api::event::EventRecord]| -> Vec<String> {
        events.iter().filter(|it| it.subject == missed.id).map(|it| it.kind.clone()).collect()
    };
    assert_eq!(kinds(&by_number.items), expected);
    assert_eq!(kinds(&by_time.items), expected);
    assert!(!by_number.gap);
    // New events follow the replayed ones.
    let live = home.run_to_end("exit 0");
    assert_eq!(feed.next_of("session.created").subject, live.id);
}

#[test]
fn store_11_a_cursor_that_is_too_old_gets_a_gap_and_a_snapshot() {
    let home = TestHome::new();
    home.configure(serde_json::json!({ "store": { "eventRetentionHours": 0 } }));
    home.start();
    let session = home.run_to_end("exit 0");
    let last = home.health().last_event;
    home.restart();
    wait_until("the sweep at the start is done", || home.events_since("1").gap);

    let mut feed = EventFeed::after(&home, 1);

    let gap = feed.next_message();
    assert_eq!((gap.id, gap.event.as_str()), (None, "gap"));
    let snapshot = feed.next_message();
    assert_eq!(snapshot.event, "snapshot");
    assert!(snapshot.id.is_some_and(|id| id >= last), "{snapshot:?}");
    assert_eq!(snapshot.value()["sessions"][0]["id"], session.id.as_str());
    let missed = home.events_since("1");
    assert!(missed.gap);
    // A client that continues at `next` gets no second gap.
    assert!(!home.events_since(&missed.next.to_string()).gap);
    assert!(home.events_since("2020-01-01T00:00:00.000Z").gap, "a time before all stored events");
}
