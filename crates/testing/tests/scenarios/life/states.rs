//! LIFE-01 to LIFE-07: the states of a session.

use coven_testing::{EventFeed, TestHome, check_invariants, process, wait_until};
use serde_json::json;

#[test]
fn life_01_the_record_exists_before_the_execution_starts() {
    let home = TestHome::started();
    let mut feed = EventFeed::open(&home);

    let session = home.launch("hang");

    let created = feed.next_of("session.created");
    assert_eq!(created.subject, session.id);
    let record = &created.payload["session"];
    assert_eq!((&record["status"], &record["pid"]), (&json!("created"), &json!(null)));
    let running = feed.next_of("session.running");
    assert_eq!(running.subject, session.id);
    assert!(created.number < running.number);
}

#[test]
fn life_02_a_running_session_is_a_process_under_its_holder() {
    let home = TestHome::started();

    let session = home.launch("say hello ;; hang");

    assert_eq!(session.status, "running");
    let pid = session.pid.expect("a running session has a process");
    assert!(process::is_alive(pid));
    let holder = home.holder_of(&session.id).expect("has a holder");
    assert_eq!(coven_holder::process::stat(pid).expect("is running").parent, holder);
    home.wait_for_output(&session.id, "hello");
    check_invariants(&home);
}

#[test]
fn life_03_a_session_whose_harness_exits_with_zero_is_completed_with_that_code() {
    let home = TestHome::started();

    let session = home.run_to_end("say done ;; exit 0");

    assert_eq!((session.status.as_str(), session.exit_code), ("completed", Some(0)));
    assert_eq!(home.session(&session.id), session);
    check_invariants(&home);
}

#[test]
fn life_04_a_launch_that_fails_is_stored_with_its_reason() {
    let home = TestHome::started();
    home.write_agent("broken", "#!/no/such/interpreter\n");

    let answer = home.post("/api/v1/sessions", &json!({ "argv": [home.agents().join("broken")] }));

    let message = answer.expect_error(500, "launch_failed");
    let id = answer.json::<serde_json::Value>()["error"]["details"]["id"].as_str().expect("an id").to_owned();
    assert!(message.contains(&id), "{message}");
    let session = home.session(&id);
    assert_eq!((session.status.as_str(), session.pid, session.exit_code), ("failed", None, None));
    assert_eq!(session.metadata["reason"], "launch_failed");
    assert!(session.metadata["error"].as_str().expect("a reason").contains("broken"), "{session:?}");
    check_invariants(&home);
}

#[test]
fn life_04_a_session_whose_harness_exits_with_another_code_failed_with_that_code() {
    let home = TestHome::started();

    let session = home.run_to_end("say no ;; exit 3");

    assert_eq!((session.status.as_str(), session.exit_code), ("failed", Some(3)));
}

#[test]
fn life_05_an_accepted_kill_is_recorded_and_the_session_is_killed() {
    let home = TestHome::started();
    let session = home.launch("say hello ;; hang");
    home.wait_for_output(&session.id, "hello\r\n");

    assert_eq!(home.act(&session.id, "kill").status, 202);

    assert_eq!(home.session(&session.id).status, "killed");
    let ended = home.wait_for_end(&session.id);
    assert_eq!((ended.status.as_str(), ended.exit_code), ("killed", Some(143)));
    assert_eq!(home.entry_kinds(&session.id), ["start", "output", "kill", "exit"]);
    wait_until("the process has exited", || home.harness_processes(&session.id).is_empty());
    check_invariants(&home);
}

#[test]
fn life_06_a_session_of_an_earlier_daemon_without_a_process_is_orphaned() {
    let home = TestHome::started();
    let session = home.launch("say hello ;; hang");
    home.wait_for_output(&session.id, "hello");
    let holder = home.holder_of(&session.id).expect("has a holder");

    home.kill_daemon();
    process::kill_hard(holder);
    wait_until("holder and harness have exited", || home.processes().is_empty());
    home.start();

    let session = home.wait_for_status(&session.id, "orphaned");
    assert_eq!(session.exit_code, None);
    assert_eq!(session.metadata["reason"], "orphaned");
    check_invariants(&home);
}

#[test]
fn life_07_archiving_sets_archived_at_and_keeps_the_status() {
    let home = TestHome::started();
    let session = home.run_to_end("exit 3");

    let archived: coven_testing::records::SessionRecord = home.act(&session.id, "archive").json();

    assert_eq!((archived.status.as_str(), archived.exit_code), ("failed", Some(3)));
    let at = archived.archived_at.expect("a date");
    assert!(at.ends_with('Z') && at >= session.updated_at, "{at}");
    check_invariants(&home);
}
