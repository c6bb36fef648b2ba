//! Harnesses that stop or kill their own holder: the session can still be ended, and nothing of it stays.

use std::fs;
use std::thread;

use coven_api::SessionRecord;
use coven_holder::process as kernel;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually, process, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Stops its holder once the file `go` is there, and ignores every polite signal.
const STOPS_WHEN_TOLD: &str =
    "trap '' TERM HUP; echo ready; until [ -e go ]; do sleep 0.02; done; kill -STOP $PPID; exec sleep 1000";
/// Stops its holder in answer to SIGTERM.
const STOPS_WHEN_ENDED: &str = "trap 'kill -STOP $PPID' TERM HUP; echo ready; while :; do sleep 0.05; done";

fn shell(home: &TestHome, script: &str) -> Value {
    json!({ "argv": ["/bin/sh", "-c", script], "cwd": home.project() })
}

/// A running session whose harness has stopped its holder; gives the holder too.
fn with_stopped_holder(home: &TestHome) -> (SessionRecord, u32) {
    let session = home.launch_with(shell(home, STOPS_WHEN_TOLD));
    home.wait_for_output(&session.id, "ready");
    let holder = home.holder_of(&session.id).expect("a holder");
    fs::write(home.project().join("go"), "").expect("room on disk");
    wait_until("the holder is stopped", || kernel::stat(holder).is_ok_and(|it| it.is_stopped()));
    (session, holder)
}

#[track_caller]
fn assert_gone(home: &TestHome, session: &SessionRecord, holder: u32) {
    assert!(!process::is_alive(session.pid.expect("it ran")), "the harness is alive");
    assert_eq!(home.harness_processes(&session.id), Vec::<u32>::new());
    wait_until("the holder is gone", || !process::is_alive(holder));
    assert_eq!(home.session(&session.id).status, "killed");
    check_invariants(home);
}

#[test]
fn a_session_whose_harness_stopped_the_holder_can_be_killed() {
    let home = TestHome::started();
    let (session, holder) = with_stopped_holder(&home);

    home.coven(&["kill", &session.id]).done();

    assert_gone(&home, &session, holder);
}

#[test]
fn a_holder_that_is_stopped_when_it_ends_its_session_does_not_save_it() {
    let home = TestHome::started();
    let session = home.launch_with(shell(&home, STOPS_WHEN_ENDED));
    home.wait_for_output(&session.id, "ready");
    let holder = home.holder_of(&session.id).expect("a holder");

    home.coven(&["kill", &session.id]).done();

    assert_gone(&home, &session, holder);
}

#[test]
fn a_session_with_a_stopped_holder_can_be_killed_after_a_daemon_restart() {
    let home = TestHome::started();
    let (session, holder) = with_stopped_holder(&home);
    home.kill_daemon();
    home.start();

    home.coven(&["kill", &session.id]).done();

    assert_gone(&home, &session, holder);
}

#[test]
fn a_kill_that_was_cut_off_is_carried_out_although_the_holder_is_stopped() {
    let mut home = TestHome::new();
    home.start_with_fault("after_kill");
    let (session, holder) = with_stopped_holder(&home);
    let _ = home.try_request(hyper::Method::POST, &path(&session.id, "/kill"), Some(b"{}".to_vec()));
    home.restart_after_death();

    home.wait_for_end(&session.id);

    assert_gone(&home, &session, holder);
}

/// A home whose next launch gets a holder that is stopped, and that holder.
fn with_stopped_spare(home: &TestHome) -> u32 {
    // A launch has the next holder made ready, whatever becomes of the launch itself.
    home.post("/api/v1/sessions", &json!({ "harness": "claude", "prompt": "exit 0" }));
    let daemon = home.health().pid;
    let is_spare = |it: &kernel::Stat| {
        it.parent == daemon
            && !it.is_coven
            && fs::read(format!("/proc/{}/cmdline", it.pid))
                .is_ok_and(|text| text.split(|byte| *byte == 0).nth(1) == Some(b"hold"))
    };
    let spare = eventually("a holder is kept ready", || kernel::all().into_iter().find(is_spare));
    process::signal(spare.pid, Signal::STOP);
    spare.pid
}

#[test]
fn a_launch_that_takes_too_long_fails_and_is_ended() {
    let home = TestHome::started_with(json!({ "sessions": { "launchTimeoutSeconds": 0.5 } }));
    let holder = with_stopped_spare(&home);

    let message = home.coven(&["run", "claude", "hang", "--background"]).refused(1);

    assert!(message.contains("launchTimeoutSeconds"), "{message}");
    let failed = home.sessions().remove(0);
    assert_eq!((failed.status.as_str(), &failed.metadata["reason"]), ("failed", &json!("launch_failed")));
    wait_until("the holder is gone", || !process::is_alive(holder));
    check_invariants(&home);
}

#[test]
fn a_launch_that_does_not_get_on_can_be_killed() {
    let home = TestHome::started();
    let holder = with_stopped_spare(&home);
    let mut feed = EventFeed::open(&home);

    thread::scope(|scope| {
        let launched = scope.spawn(|| home.coven(&["run", "claude", "hang", "--background"]));
        let id = feed.next_of("session.created").subject;
        let said = home.coven(&["kill", &id]).done();
        assert!(said.starts_with("failed: ") && said.contains("killed before it ran"), "{said}");
        launched.join().expect("it does not panic").refused(1);
    });

    wait_until("the holder is gone", || !process::is_alive(holder));
    check_invariants(&home);
}

/// Every process that runs `sleep` for this long, which no other test uses.
fn sleepers(seconds: &str) -> Vec<u32> {
    let is_it = |it: &kernel::Stat| {
        fs::read(format!("/proc/{}/cmdline", it.pid))
            .is_ok_and(|text| text.split(|byte| *byte == 0).nth(1) == Some(seconds.as_bytes()))
    };
    kernel::all().into_iter().filter(is_it).map(|it| it.pid).filter(|pid| process::is_alive(*pid)).collect()
}

#[test]
fn a_harness_that_stops_its_holder_at_once_can_be_ended() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 1.0, "launchTimeoutSeconds": 1.0 } }));
    let seconds = format!("41{:07}", std::process::id());

    for _ in 0..4 {
        let script = format!("trap '' HUP TERM; kill -STOP $PPID; exec env -i sleep {seconds}");
        let answer = home.post("/api/v1/sessions", &shell(&home, &script));
        let session = home.sessions().remove(0);
        match (answer.status, session.status.as_str()) {
            // The holder had said that the harness runs before it was stopped.
            (201, "running") => drop(home.coven(&["kill", &session.id]).done()),
            (_, "failed") => assert_eq!(session.metadata["reason"], "launch_failed", "{session:?}"),
            (status, other) => panic!("{status}: {other}"),
        }
        assert_eq!(sleepers(&seconds), Vec::<u32>::new());
    }
    check_invariants(&home);
}

#[test]
fn a_harness_that_kills_its_holder_at_once_is_ended_too() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 0.2 } }));
    let seconds = format!("42{:07}", std::process::id());

    for _ in 0..12 {
        let script = format!("trap '' HUP TERM; kill -9 $PPID; exec env -i sleep {seconds}");
        home.post("/api/v1/sessions", &shell(&home, &script));
        let id = home.sessions().remove(0).id;
        let session = eventually("it is over", || Some(home.session(&id)).filter(|it| it.status != "running"));
        assert!(["failed", "orphaned"].contains(&session.status.as_str()), "{session:?}");
        wait_until("nothing of it is alive", || sleepers(&seconds).is_empty());
    }
    check_invariants(&home);
}
