//! The daemon dies at named points of a launch, a kill and an exit. The next daemon finishes the operation.

use std::fs;
use std::thread;

use coven_domain::entry::EntryKind;
use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::records::SessionRecord;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually, process, wait_until};
use hyper::Method;
use serde_json::{Value, json};

/// Sends a request and ignores the response: the daemon may die before it answers.
fn try_post(home: &TestHome, path: &str, body: &Value) {
    let _ = home.try_request(Method::POST, path, Some(body.to_string().into_bytes()));
}

/// Returns whether a session is not recovered yet: a start does not wait for a recovery that takes long.
fn is_launching(session: &SessionRecord) -> bool {
    session.status == "created" && !session.actions.iter().any(|action| action == "start")
}

/// Launches a session, lets the daemon die at `point`, and returns the session as the next daemon finds it.
fn launch_with_death_at(point: &str, script: &str) -> (TestHome, SessionRecord) {
    let mut home = TestHome::new();
    home.start_with_fault(point);
    try_post(&home, "/api/v1/sessions", &json!({ "harness": "claude", "prompt": script }));
    // Some scripts wait for this file.
    fs::write(home.project().join("go"), "").expect("disk has space");
    home.restart_after_death();
    let session = eventually("the session is recovered", || home.sessions().pop().filter(|it| !is_launching(it)));
    (home, session)
}

#[test]
fn a_daemon_that_dies_after_creating_the_record_leaves_a_failed_launch() {
    let (home, session) = launch_with_death_at("after_create", "hang");

    assert_eq!((session.status.as_str(), &session.metadata["reason"]), ("failed", &json!("launch_failed")));
    assert!(home.harness_processes(&session.id).is_empty());
    check_invariants(&home);
}

#[test]
fn after_a_death_following_the_spawn_the_next_daemon_adopts_the_session() {
    for point in ["after_spawn", "after_running"] {
        let (home, session) = launch_with_death_at(point, "echo");

        assert_eq!(session.status, "running", "{point}");
        home.wait_for_output(&session.id, "ready");
        home.type_in(&session.id, "hello\r");
        home.wait_for_output(&session.id, "got:hello");
        check_invariants(&home);
    }
}

#[test]
fn a_session_that_ended_without_a_daemon_is_recorded_later() {
    for point in ["after_spawn", "after_running", "before_end"] {
        let (home, session) = launch_with_death_at(point, "say hello ;; until go ;; exit 4");

        let ended = home.wait_for_end(&session.id);
        assert_eq!((ended.status.as_str(), ended.exit_code), ("failed", Some(4)), "{point}");
        assert_eq!(home.log_text(&session.id), "hello\r\n");
        check_invariants(&home);
    }
}

#[test]
fn a_launch_interrupted_at_any_moment_is_adopted_or_failed() {
    let home = TestHome::started();

    for round in 0..8 {
        let script = format!("say round {round} ;; hang");
        let pid = home.health().pid;
        let mut feed = EventFeed::open(&home);
        thread::scope(|scope| {
            scope.spawn(|| {
                try_post(&home, "/api/v1/sessions", &json!({ "harness": "claude", "prompt": script }));
            });
            feed.next_of("session.created");
            process::kill_hard(pid);
        });
        home.restart_after_death();

        let session = eventually("the session is recovered", || {
            home.sessions().into_iter().next().filter(|it| !is_launching(it))
        });
        match session.status.as_str() {
            "running" => drop(home.wait_for_output(&session.id, &format!("round {round}"))),
            "failed" => assert_eq!(session.metadata["reason"], "launch_failed", "{session:?}"),
            other => panic!("round {round}: {other}"),
        }
        check_invariants(&home);
    }
}

/// Starts a session, posts `verb` to it, and lets the daemon die at `point`. Returns the ended session.
fn end_with_death_at(point: &str, verb: &str) -> (TestHome, SessionRecord) {
    let mut home = TestHome::new();
    home.start_with_fault(point);
    let id = home.launch("say hello ;; hang").id;
    home.wait_for_output(&id, "hello");
    try_post(&home, &format!("/api/v1/sessions/{id}/{verb}"), &json!({}));
    home.restart_after_death();
    let ended = home.wait_for_end(&id);
    (home, ended)
}

#[test]
fn a_recorded_kill_is_completed_by_the_next_daemon() {
    for point in ["after_kill", "before_end"] {
        let (home, ended) = end_with_death_at(point, "kill");

        assert_eq!((ended.status.as_str(), ended.exit_code), ("killed", Some(143)), "{point}");
        wait_until("the session's processes have exited", || home.harness_processes(&ended.id).is_empty());
        assert!(home.entries(&ended.id).iter().any(|it| it.kind == EntryKind::Kill), "{point}");
        check_invariants(&home);
    }
}

#[test]
fn a_recorded_finish_is_completed_by_the_next_daemon() {
    for point in ["after_finish", "before_end"] {
        let (home, ended) = end_with_death_at(point, "finish");

        assert_eq!((ended.status.as_str(), &ended.metadata["reason"]), ("completed", &json!("finished")), "{point}");
        check_invariants(&home);
    }
}

#[test]
fn a_recorded_sacrifice_is_completed_and_leaves_no_files() {
    let mut home = TestHome::new();
    home.start_with_fault("after_sacrifice");
    let id = home.run_to_end("flood 3000000").id;

    let _ = home.try_request(Method::DELETE, &format!("/api/v1/sessions/{id}"), None);
    home.restart_after_death();

    home.get(&format!("/api/v1/sessions/{id}")).expect_error(404, "session_not_found");
    wait_until("the session folder is removed", || !home.session_dir(&id).exists());
    check_invariants(&home);
}

#[test]
fn interrupted_compression_leaves_one_log() {
    let mut home = TestHome::new();
    home.start_with_fault("after_packing");
    let id = home.launch("flood 3000000").id;

    home.restart_after_death();

    assert_eq!(home.wait_for_end(&id).status, "completed");
    assert_bytes("the log", &home.log(&id), &flood(3_000_000));
    check_invariants(&home);
}
