//! Harnesses that stop or kill their own holder: the session can still be ended, and no process remains.

use std::fs;
use std::thread;

use coven_holder::process as kernel;
use coven_testing::records::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually, process, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Ignores SIGTERM and SIGHUP, and stops its holder once the file `go` exists.
const STOPS_HOLDER_ON_FILE: &str =
    "trap '' TERM HUP; echo ready; until [ -e go ]; do sleep 0.02; done; kill -STOP $PPID; exec sleep 1000";
/// Stops its holder on SIGTERM.
const STOPS_HOLDER_ON_SIGTERM: &str = "trap 'kill -STOP $PPID' TERM HUP; echo ready; while :; do sleep 0.05; done";

fn shell(home: &TestHome, script: &str) -> Value {
    json!({ "argv": ["/bin/sh", "-c", script], "cwd": home.project() })
}

/// Starts a session whose harness stops its holder. Returns the session and the pid of the holder.
fn with_stopped_holder(home: &TestHome) -> (SessionRecord, u32) {
    let session = home.launch_with(shell(home, STOPS_HOLDER_ON_FILE));
    home.wait_for_output(&session.id, "ready");
    let holder = home.holder_of(&session.id).expect("has a holder");
    fs::write(home.project().join("go"), "").expect("disk has space");
    wait_until("the holder is stopped", || kernel::stat(holder).is_ok_and(|it| it.is_stopped()));
    (session, holder)
}

#[track_caller]
fn assert_gone(home: &TestHome, session: &SessionRecord, holder: u32) {
    assert!(!process::is_alive(session.pid.expect("was running")), "the harness is alive");
    assert_eq!(home.harness_processes(&session.id), Vec::<u32>::new());
    wait_until("the holder has exited", || !process::is_alive(holder));
    assert_eq!(home.session(&session.id).status, "killed");
    check_invariants(home);
}

#[test]
fn a_session_whose_harness_stopped_the_holder_can_be_killed() {
    let home = TestHome::started();
    let (session, holder) = with_stopped_holder(&home);

    home.coven(&["kill", &session.id]).expect_success();

    assert_gone(&home, &session, holder);
}

#[test]
fn a_harness_cannot_survive_a_kill_by_stopping_its_holder() {
    let home = TestHome::started();
    let session = home.launch_with(shell(&home, STOPS_HOLDER_ON_SIGTERM));
    home.wait_for_output(&session.id, "ready");
    let holder = home.holder_of(&session.id).expect("has a holder");

    home.coven(&["kill", &session.id]).expect_success();

    assert_gone(&home, &session, holder);
}

#[test]
fn a_session_with_a_stopped_holder_can_be_killed_after_a_daemon_restart() {
    let home = TestHome::started();
    let (session, holder) = with_stopped_holder(&home);
    home.kill_daemon();
    home.start();

    home.coven(&["kill", &session.id]).expect_success();

    assert_gone(&home, &session, holder);
}

#[test]
fn an_interrupted_kill_is_completed_although_the_holder_is_stopped() {
    let mut home = TestHome::new();
    home.start_with_fault("after_kill");
    let (session, holder) = with_stopped_holder(&home);
    let _ = home.try_request(hyper::Method::POST, &path(&session.id, "/kill"), Some(b"{}".to_vec()));
    home.restart_after_death();

    home.wait_for_end(&session.id);

    assert_gone(&home, &session, holder);
}

/// Stops the standby holder, which the next launch uses, and returns its pid.
fn stop_standby_holder(home: &TestHome) -> u32 {
    // A launch starts the next standby holder, even if the launch itself fails.
    home.post("/api/v1/sessions", &json!({ "harness": "claude", "prompt": "exit 0" }));
    let daemon = home.health().pid;
    let is_standby = |it: &kernel::Stat| {
        it.parent == daemon
            && !it.is_coven
            && fs::read(format!("/proc/{}/cmdline", it.pid))
                .is_ok_and(|text| text.split(|byte| *byte == 0).nth(1) == Some(b"hold"))
    };
    let standby = eventually("a standby holder is ready", || kernel::all().into_iter().find(is_standby));
    process::signal(standby.pid, Signal::STOP);
    standby.pid
}

#[test]
fn a_launch_that_times_out_fails_and_is_cleaned_up() {
    let home = TestHome::started_with(json!({ "sessions": { "launchTimeoutSeconds": 0.5 } }));
    let holder = stop_standby_holder(&home);

    let message = home.coven(&["run", "claude", "hang", "--background"]).expect_failure(1);

    assert!(message.contains("launchTimeoutSeconds"), "{message}");
    let failed = home.sessions().remove(0);
    assert_eq!((failed.status.as_str(), &failed.metadata["reason"]), ("failed", &json!("launch_failed")));
    wait_until("the holder has exited", || !process::is_alive(holder));
    check_invariants(&home);
}

#[test]
fn a_stuck_launch_can_be_killed() {
    let home = TestHome::started();
    let holder = stop_standby_holder(&home);
    let mut feed = EventFeed::open(&home);

    thread::scope(|scope| {
        let launched = scope.spawn(|| home.coven(&["run", "claude", "hang", "--background"]));
        let id = feed.next_of("session.created").subject;
        let output = home.coven(&["kill", &id]).expect_success();
        assert!(output.starts_with("failed: ") && output.contains("killed before the harness was running"), "{output}");
        launched.join().expect("no panic").expect_failure(1);
    });

    wait_until("the holder has exited", || !process::is_alive(holder));
    check_invariants(&home);
}

/// Returns all processes that run `sleep` with this duration, which no other test uses.
fn sleepers(seconds: &str) -> Vec<u32> {
    let is_sleeper = |it: &kernel::Stat| {
        fs::read(format!("/proc/{}/cmdline", it.pid))
            .is_ok_and(|text| text.split(|byte| *byte == 0).nth(1) == Some(seconds.as_bytes()))
    };
    kernel::all().into_iter().filter(is_sleeper).map(|it| it.pid).filter(|pid| process::is_alive(*pid)).collect()
}

#[test]
fn a_harness_that_stops_its_holder_immediately_can_be_killed() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 1.0, "launchTimeoutSeconds": 1.0 } }));
    let seconds = format!("41{:07}", std::process::id());

    for _ in 0..4 {
        let script = format!("trap '' HUP TERM; kill -STOP $PPID; exec env -i sleep {seconds}");
        let answer = home.post("/api/v1/sessions", &shell(&home, &script));
        let session = home.sessions().remove(0);
        match (answer.status, session.status.as_str()) {
            // The holder reported the launch before it was stopped.
            (201, "running") => drop(home.coven(&["kill", &session.id]).expect_success()),
            (_, "failed") => assert_eq!(session.metadata["reason"], "launch_failed", "{session:?}"),
            (status, other) => panic!("{status}: {other}"),
        }
        assert_eq!(sleepers(&seconds), Vec::<u32>::new());
    }
    check_invariants(&home);
}

#[test]
fn a_harness_that_kills_its_holder_immediately_is_killed() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 0.2 } }));
    let seconds = format!("42{:07}", std::process::id());

    for _ in 0..12 {
        let script = format!("trap '' HUP TERM; kill -9 $PPID; exec env -i sleep {seconds}");
        home.post("/api/v1/sessions", &shell(&home, &script));
        let id = home.sessions().remove(0).id;
        let session =
            eventually("the session has ended", || Some(home.session(&id)).filter(|it| it.status != "running"));
        assert!(["failed", "orphaned"].contains(&session.status.as_str()), "{session:?}");
        wait_until("no process is left", || sleepers(&seconds).is_empty());
    }
    check_invariants(&home);
}
