//! Lines to an agent that does not read: each byte reaches it exactly once, even if the daemon dies.

use coven_domain::message::Activity;
use coven_holder::journal::Record;
use coven_testing::sessions::path;
use coven_testing::{journal, wait_until};
use serde_json::{Value, json};

use super::{Fixture, gate, kill_and_restart, open_gate};

/// Number of unread input bytes above which a holder accepts no more.
const INPUT_LIMIT: usize = 1 << 20;

/// Returns the number of input bytes that the holder has accepted.
fn accepted_bytes(fixture: &Fixture, id: &str) -> usize {
    let length = |record| if let Record::Input(bytes) = record { bytes.len() } else { 0 };
    journal::records(&fixture.home.session_dir(id)).into_iter().map(|it| length(it.record)).sum()
}

/// Requests modes with ids of these lengths while the agent does not read. Returns the ids.
#[track_caller]
fn request_modes(fixture: &Fixture, id: &str, lengths: &[usize]) -> Vec<String> {
    let request = |(nth, length): (usize, &usize)| {
        let mode = format!("{nth}-{}", "m".repeat(*length));
        let answer = fixture.home.post(&path(id, "/mode"), &json!({ "mode_id": mode }));
        assert_eq!(answer.status, 202, "{}", String::from_utf8_lossy(&answer.body));
        mode
    };
    lengths.iter().enumerate().map(request).collect()
}

/// Asserts that every line is complete and that each mode was requested once and in order.
#[track_caller]
fn assert_each_arrived_once(fixture: &Fixture, id: &str, modes: &[String]) {
    let received = fixture.home.received_text(id);
    let lines: Vec<Value> = received
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: a line of {}", line.len())))
        .collect();
    let requested = lines.iter().filter(|it| it["method"] == "session/set_mode");
    let requested: Vec<&str> = requested.filter_map(|it| it["params"]["modeId"].as_str()).collect();
    let names = |modes: &[&str]| modes.iter().map(|it| (it[..2].to_owned(), it.len())).collect::<Vec<_>>();
    assert_eq!(names(&requested), names(&modes.iter().map(String::as_str).collect::<Vec<_>>()));
    assert_eq!(accepted_bytes(fixture, id), received.len(), "the journal matches the received bytes");
}

#[test]
fn the_next_daemon_does_not_resend_queued_lines() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    fixture.home.turn(&id, &format!("say deaf ;; deaf {}", gate.display()));

    // When the daemon dies, lines are queued in the holder or in a socket buffer. Short lines too.
    let modes = request_modes(&fixture, &id, &[900_000, 900_000, 20_000, 900_000, 10]);
    for _ in 0..3 {
        wait_until("the holder's input queue is full", || accepted_bytes(&fixture, &id) > INPUT_LIMIT);
        kill_and_restart(&fixture.home);
        assert_eq!(fixture.home.agent_state(&id).activity, Activity::Idle);
    }
    open_gate(&gate);
    fixture.home.turn(&id, "say reading");

    assert_each_arrived_once(&fixture, &id, &modes);
    assert_eq!(fixture.home.agent_text(&id), "deafreading");
    fixture.assert_others_unaffected();
}

#[test]
fn a_partly_sent_line_stays_intact_across_a_kill_and_a_restart() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    fixture.home.turn(&id, &format!("say deaf ;; deaf {}", gate.display()));

    let modes = request_modes(&fixture, &id, &[2_500_000, 3_500_000, 1_200_000]);
    wait_until("the holder's input queue is full", || accepted_bytes(&fixture, &id) > INPUT_LIMIT);
    kill_and_restart(&fixture.home);
    fixture.home.turn(&fixture.bystander, "say in between");
    fixture.home.restart();
    fixture.home.turn(&fixture.bystander, "say in between");
    kill_and_restart(&fixture.home);
    open_gate(&gate);
    fixture.home.turn(&id, "say reading");

    assert_each_arrived_once(&fixture, &id, &modes);
    fixture.assert_others_unaffected();
}
