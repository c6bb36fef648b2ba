//! STORE-04 and STORE-09: a restarted daemon adopts the processes that it can identify as its own.

use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::{TestHome, check_invariants, process, wait_until};

#[test]
fn store_04_a_running_process_is_adopted_with_its_output() {
    let home = TestHome::started();
    let go = home.project().join("go");
    let script = format!("say before ;; until {} ;; flood 500000 ;; echo", go.display());
    let session = home.launch(&script);
    home.wait_for_output(&session.id, "before\r\n");

    home.kill_daemon();
    // Output without a daemon must be recorded.
    std::fs::write(&go, "").expect("disk has space");
    wait_until("the output without a daemon is written", || {
        coven_testing::journal::log_end(&home.session_dir(&session.id)) > 500_000
    });
    home.start();

    let found = home.session(&session.id);
    assert_eq!((found.status.as_str(), found.pid), ("running", session.pid));
    home.type_in(&session.id, "monitored\n");
    home.wait_for_output(&session.id, "got:monitored\n");
    let expected = [b"before\r\n".to_vec(), flood(500_000), b"ready\ngot:monitored\n".to_vec()].concat();
    assert_bytes("the log", &home.log(&session.id), &expected);
    check_invariants(&home);
}

#[test]
fn store_04_a_process_that_exited_without_a_daemon_has_its_exit_code_and_output() {
    let home = TestHome::started();
    let go = home.project().join("go");
    let session = home.launch(&format!("until {} ;; say last line ;; exit 6", go.display()));

    home.kill_daemon();
    std::fs::write(&go, "").expect("disk has space");
    wait_until("holder and harness have exited", || home.processes().is_empty());
    home.start();

    let found = home.wait_for_status(&session.id, "failed");
    assert_eq!(found.exit_code, Some(6));
    assert_eq!(home.log_text(&session.id), "last line\r\n");
    check_invariants(&home);
}

/// Changes a row while no daemon is running.
fn tamper(home: &TestHome, sql: &str, id: &str) {
    assert_eq!(home.database().execute(sql, [id]).expect("a statement"), 1);
}

#[test]
fn store_09_only_a_process_with_the_recorded_identity_is_adopted() {
    let cases = [
        ("another start time", "UPDATE sessions SET started_ticks = started_ticks + 1 WHERE id = ?1"),
        ("another boot", "UPDATE sessions SET boot_id = 'another' WHERE id = ?1"),
        (
            "another command line",
            "UPDATE sessions SET launch = replace(launch, '\"identity\":\"claude\"', '\"identity\":\"codex\"') WHERE id = ?1",
        ),
    ];
    for (what, sql) in cases {
        let home = TestHome::started();
        let session = home.launch("say hello ;; hang");
        home.wait_for_output(&session.id, "hello");

        home.kill_daemon();
        tamper(&home, sql, &session.id);
        home.start();

        home.wait_for_status(&session.id, "orphaned");
        // A process that is not identified is never signalled.
        assert!(process::is_alive(session.pid.expect("was running")), "{what}");
        home.act(&session.id, "kill").expect_error(409, "session_not_live");
        assert!(process::is_alive(session.pid.expect("was running")), "{what}");
    }
}

#[test]
fn store_09_a_pid_of_another_process_is_not_signalled() {
    let home = TestHome::started();
    let session = home.launch("say hello ;; hang");
    home.wait_for_output(&session.id, "hello");
    let mut bystander = std::process::Command::new("/bin/sleep").arg("1000").spawn().expect("a process");

    home.kill_daemon();
    process::kill_hard(home.holder_of(&session.id).expect("has a holder"));
    wait_until("holder and harness have exited", || home.processes().is_empty());
    let sql = format!("UPDATE sessions SET pid = {} WHERE id = ?1", bystander.id());
    tamper(&home, &sql, &session.id);
    home.start();

    home.wait_for_status(&session.id, "orphaned");
    assert!(process::is_alive(bystander.id()));
    bystander.kill().expect("child process");
    bystander.wait().expect("child process");
}
