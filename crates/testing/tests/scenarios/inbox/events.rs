//! Every change of a set has exactly one event, also after a crash of the daemon and for changes without a daemon.

use std::collections::BTreeMap;

use coven_api::inbox::InboxStatus;
use coven_testing::process::kill_hard;
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

use super::{LAST_ID, TWO, ask, asker, choosing, events_of, put_set, set_events, wait_for_event, waiting};

/// Returns the events of each set, in order.
fn events_by_set(home: &TestHome) -> BTreeMap<String, Vec<String>> {
    let mut by_set: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (kind, id) in set_events(home) {
        by_set.entry(id).or_default().push(kind.trim_start_matches("question_set.").to_owned());
    }
    by_set
}

#[test]
fn changes_without_a_daemon_get_one_event_from_the_next_daemon() {
    let home = TestHome::started();
    let [answered, dismissed, untouched] = ["Answered?", "Dismissed?", "Untouched?"].map(|prompt| ask(&home, prompt));
    for id in [&answered, &dismissed, &untouched] {
        wait_for_event(&home, id, "question_set.asked");
    }
    home.kill_daemon();
    home.coven(&["answer", &answered, "--option", "A"]).expect_success();
    home.coven(&["questions", "dismiss", &dismissed, "--yes"]).expect_success();
    let [asked, over] = ["Asked?", "Over?"].map(|prompt| ask(&home, prompt));
    home.coven(&["answer", &over, "--reject"]).expect_success();

    home.start();

    wait_for_event(&home, &over, "question_set.rejected");
    wait_for_event(&home, &asked, "question_set.asked");
    wait_for_event(&home, &answered, "question_set.completed");
    wait_for_event(&home, &dismissed, "question_set.dismissed");
    home.kill_daemon();
    home.start();
    home.answer_request(&untouched, &choosing("B"));
    // The daemon checks sets in the order of their ids, so all others were checked again before this one.
    put_set(&home, LAST_ID, "Last?");
    wait_for_event(&home, LAST_ID, "question_set.asked");
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let expected = BTreeMap::from([
        (answered.clone(), words(&["asked", "completed"])),
        (dismissed.clone(), words(&["asked", "dismissed"])),
        (untouched.clone(), words(&["asked", "completed"])),
        (asked.clone(), words(&["asked"])),
        (over.clone(), words(&["asked", "rejected"])),
        (LAST_ID.to_owned(), words(&["asked"])),
    ]);
    assert_eq!(events_by_set(&home), expected);
    let state: Value = home.read("/state");
    let rows = state["questions"].as_array().expect("a list").iter();
    let rows: BTreeMap<&str, &str> =
        rows.map(|row| (row["id"].as_str().expect("an id"), row["status"].as_str().expect("a status"))).collect();
    let expected = BTreeMap::from([
        (answered.as_str(), "completed"),
        (untouched.as_str(), "completed"),
        (asked.as_str(), "pending"),
        (over.as_str(), "rejected"),
        (LAST_ID, "pending"),
    ]);
    assert_eq!(rows, expected);
    check_invariants(&home);
}

#[test]
fn a_set_whose_asking_command_was_killed_is_abandoned() {
    let home = TestHome::started();
    let mut asking = asker(&home, &[TWO]);
    let id = waiting(&home, 1).remove(0).id;
    wait_for_event(&home, &id, "question_set.asked");
    home.kill_daemon();
    kill_hard(asking.id());
    asking.wait().expect("child process");

    home.start();

    wait_for_event(&home, &id, "question_set.abandoned");
    assert_eq!(home.inbox(""), []);
    let ended = home.inbox("?all=true").remove(0);
    assert_eq!((ended.status.as_str(), &ended.answered_by), ("abandoned", &None));
    let reason = ended.question_set().and_then(|set| set.abandon_reason.as_deref());
    assert_eq!(reason, Some("the process that asked has exited"));
}

#[test]
fn expired_sets_are_deleted_when_the_daemon_starts() {
    let home = TestHome::new();
    home.configure(json!({ "questions": { "retentionPeriod": 0 } }));
    let (over, open) = (ask(&home, "Over?"), ask(&home, "Open?"));
    home.coven(&["answer", &over, "--option", "A"]).expect_success();

    home.start();

    wait_for_event(&home, &open, "question_set.asked");
    assert_eq!(events_of(&home, &over), [""; 0], "the set was deleted before the first check");
    assert_eq!(home.inbox("?all=true").len(), 1);
}

#[test]
fn a_timeout_has_an_event() {
    let home = TestHome::started();
    let ran = home.coven(&["ask", TWO, "--timeout", "30", "--json"]);
    let record: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let id = record["id"].as_str().expect("an id");

    wait_for_event(&home, id, "question_set.timed_out");

    assert_eq!(events_of(&home, id), ["question_set.asked", "question_set.timed_out"]);
    assert_eq!(home.inbox("?all=true").remove(0).status, InboxStatus::TimedOut);
}
