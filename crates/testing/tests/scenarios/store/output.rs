//! `session.output`: subscribers are notified of new output.

use coven_api::event::{EventRecord, OutputPayload};
use coven_testing::pattern::flood;
use coven_testing::{EventFeed, TestHome, check_invariants, wait_until};
use serde_json::json;

fn announced(events: &[EventRecord], id: &str) -> Vec<(u64, u64)> {
    let of_session = events.iter().filter(|it| it.kind == "session.output" && it.subject == id);
    of_session.map(|it| (it.number, it.payload::<OutputPayload>().expect("its payload").offset)).collect()
}

#[test]
fn a_flood_is_announced_at_most_ten_times_a_second_up_to_its_end() {
    let home = TestHome::started();
    let mut feed = EventFeed::open(&home);
    let id = home.run_to_end("flood 20000000").id;

    let mut seen = Vec::new();
    while seen.last().is_none_or(|it: &EventRecord| it.kind != "session.completed") {
        seen.push(feed.next_message().record());
    }

    let offsets: Vec<u64> = announced(&seen, &id).iter().map(|(_, offset)| *offset).collect();
    assert!(offsets.windows(2).all(|pair| pair[0] <= pair[1]), "{offsets:?}");
    assert_eq!(offsets.last(), Some(&(flood(20_000_000).len() as u64)));
    let times: Vec<i64> = seen.iter().filter(|it| it.kind == "session.output").map(|it| it.at.as_millis()).collect();
    // An event gets its time when the store is free for it, so the events of two seconds may come close to each other. The
    // clock has milliseconds, hence one less than a second.
    assert!(times.windows(21).all(|events| events[20] - events[0] >= 999), "{times:?}");
    let seconds = times.last().zip(times.first()).map_or(0, |(last, first)| (last - first) / 1000);
    assert!(times.len() as i64 <= 10 * (seconds + 2), "{times:?}");
    // Only the newest is kept, and its missing predecessors are not a gap.
    let page = home.events_since("0");
    assert_eq!(announced(&page.items, &id).len(), 1);
    let after_the_first = home.events_since(&seen[0].number.to_string());
    assert!(!page.gap && !after_the_first.gap);
    assert_eq!(after_the_first.items.last(), seen.last());
    check_invariants(&home);
}

#[test]
fn the_last_output_of_a_running_session_is_announced() {
    let home = TestHome::started();
    let id = home.launch("say hello ;; hang").id;
    let newest = || announced(&home.events_since("0").items, &id).pop();
    wait_until("the output is announced", || newest().is_some_and(|(_, offset)| offset == 7));

    // Reading the ledger announces nothing.
    let before = newest();
    for _ in 0..5 {
        home.entries(&id);
    }
    assert_eq!(newest(), before);

    // The next daemon announces the length of the log once.
    home.kill_daemon();
    home.start();
    wait_until("the output is announced again", || {
        newest().is_some_and(|now| before.is_some_and(|before| now.0 > before.0))
    });
    assert_eq!(newest().map(|(_, offset)| offset), Some(7));
    home.kill(&id);
}

#[test]
fn the_output_of_an_acp_session_is_announced() {
    let home = TestHome::started_with_agent(json!({}));
    let id = home.open(&home.make_repo("app")).id;
    let newest = || announced(&home.events_since("0").items, &id).pop().unwrap_or_default();
    home.turn(&id, "say hello");
    wait_until("its first output is announced", || newest().1 > 0);
    let before = newest();
    home.turn(&id, "say hello again");
    wait_until("its new output is announced", || newest().0 > before.0 && newest().1 > before.1);
}

#[test]
fn an_event_has_the_same_bytes_everywhere() {
    let home = TestHome::started();
    let mut feed = EventFeed::open(&home);
    home.coven(&["task", "add", "one", "--body", "its \"body\"\n"]).expect_success();
    home.run_to_end("say hello");
    let mut sent = Vec::new();
    while sent.last().is_none_or(|it: &String| !it.contains("session.completed")) {
        sent.push(feed.next_message().data);
    }
    // Only the newest announcement of output is kept.
    let is_output = |data: &String| data.contains("session.output");
    let announced = sent.iter().filter(|data| is_output(data)).count();
    let mut superseded = announced.saturating_sub(1);
    sent.retain(|data| {
        let is_superseded = is_output(data) && superseded > 0;
        superseded -= usize::from(is_superseded);
        !is_superseded
    });
    assert!(sent[0].contains(r#""body":"its \"body\"\n""#), "{}", sent[0]);

    let check = |home: &TestHome| {
        let page = home.coven(&["events", "--json"]).expect_success();
        let mut replayed = EventFeed::after(home, 0);
        for data in &sent {
            assert_eq!(replayed.next_message().data, *data);
            assert!(page.contains(data.as_str()), "{data} is not in {page}");
        }
    };
    // From memory, then from the store.
    check(&home);
    home.restart();
    check(&home);
}
