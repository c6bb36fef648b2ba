//! Unreadable sets, and a folder with many sets or that is deleted.

use std::fs;

use coven_api::inbox::InboxStatus;
use coven_testing::{TestHome, check_invariants, wait_until};
use serde_json::Value;

use super::{LAST_ID, ask, choosing, events_of, folder, nth_id, put_set, set_events, show, wait_for_event, waiting};

#[test]
fn a_broken_set_is_reported_with_the_reason_and_does_not_affect_others() {
    let home = TestHome::started();
    let broken = nth_id(1);
    fs::create_dir_all(folder(&home).join(&broken)).expect("disk has space");
    fs::write(folder(&home).join(&broken).join("request.json"), "{\"questions\": \"TOPSECRET\"")
        .expect("disk has space");
    let sound = ask(&home, "Still here?");
    wait_for_event(&home, &sound, "question_set.asked");

    let listed = waiting(&home, 2);

    let ruin = listed.iter().find(|item| item.id == broken).expect("is listed");
    assert_eq!((ruin.kind.as_str(), ruin.status.as_str()), ("question_set", "broken"));
    let why = ruin.question_set().and_then(|set| set.error.as_deref());
    assert!(why.is_some_and(|why| why.contains("request.json is malformed")), "{ruin:?}");
    assert_eq!(show(&home, &broken).status, InboxStatus::Broken);
    home.answer_request(&broken, &choosing("A")).expect_error(409, "question_broken");
    assert_eq!(events_of(&home, &broken), [""; 0], "a broken set has no events");
    let table = home.coven(&["inbox", "--all"]).expect_success();
    assert!(table.contains("broken") && table.contains("Still here?"), "{table}");

    // With valid files, it is a normal set.
    fs::remove_dir_all(folder(&home).join(&broken)).expect("writable");
    put_set(&home, &broken, "Mended?");
    wait_for_event(&home, &broken, "question_set.asked");
    assert_eq!(show(&home, &broken).status, InboxStatus::Pending);
    home.restart();
    assert!(!home.own_log().contains("TOPSECRET") && !home.own_log().contains("Still here?"));
    check_invariants(&home);
}

#[test]
fn a_folder_that_is_deleted_and_created_again_is_watched_again() {
    let home = TestHome::started();
    let lost = ask(&home, "Lost?");
    wait_for_event(&home, &lost, "question_set.asked");

    fs::remove_dir_all(folder(&home).parent().expect("below a folder")).expect("writable");

    wait_for_event(&home, &lost, "question_set.dismissed");
    assert_eq!(home.inbox("?all=true"), []);
    assert!(!folder(&home).exists());
    let new = ask(&home, "New?");
    wait_for_event(&home, &new, "question_set.asked");
    home.coven(&["answer", &new, "--option", "A"]).expect_success();
    wait_for_event(&home, &new, "question_set.completed");
}

#[test]
fn a_thousand_sets_have_one_event_each_and_are_listed() {
    const MANY: u32 = 1000;
    let home = TestHome::new();
    for nth in 0..MANY {
        put_set(&home, &nth_id(nth), &format!("Question {nth}?"));
    }
    home.start();
    assert_eq!(home.inbox("?limit=1000").len(), 1000, "listed while the daemon is still reading them");
    wait_until("all sets have an event", || set_events(&home).len() >= 1000);

    for nth in 0..20 {
        assert_eq!(home.answer_request(&nth_id(nth), &choosing("A")).status, 200);
    }
    home.restart();
    // The daemon checks sets in the order of their ids, so all others were checked before this one.
    put_set(&home, LAST_ID, "One more?");
    wait_for_event(&home, LAST_ID, "question_set.asked");

    let events = set_events(&home);
    assert_eq!(events.len(), 1000 + 20 + 1);
    let asked: std::collections::HashSet<&String> =
        events.iter().filter(|(kind, _)| kind == "question_set.asked").map(|(_, id)| id).collect();
    assert_eq!(asked.len(), 1001);
    let state: Value = home.read("/state");
    assert_eq!(state["questions"].as_array().map(Vec::len), Some(1001));
}
