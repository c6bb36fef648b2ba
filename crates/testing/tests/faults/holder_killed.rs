//! `kill -9` of a holder: the session is orphaned, and its remaining processes are killed.

use coven_testing::{TestHome, check_invariants, process, wait_until};

#[test]
fn a_session_whose_holder_is_killed_is_orphaned_and_its_processes_are_killed() {
    let home = TestHome::started();
    // The harness survives the SIGHUP of the closed terminal.
    let session = home.launch("ignore_sigterm ;; fork_children ;; hang");
    home.wait_for_output(&session.id, "children are there");

    process::kill_hard(home.holder_of(&session.id).expect("has a holder"));

    let found = home.wait_for_status(&session.id, "orphaned");
    assert_eq!(found.exit_code, None);
    assert!(home.log_text(&session.id).contains("children are there"));
    wait_until("the harness and its children have exited", || home.harness_processes(&session.id).is_empty());
    check_invariants(&home);
}

#[test]
fn a_daemon_that_starts_later_kills_the_remaining_processes() {
    let home = TestHome::started();
    let session = home.launch("ignore_sigterm ;; say here ;; hang");
    home.wait_for_output(&session.id, "here");

    home.kill_daemon();
    process::kill_hard(home.holder_of(&session.id).expect("has a holder"));
    wait_until("the holder has exited", || home.holder_of(&session.id).is_none());
    assert!(process::is_alive(session.pid.expect("was running")));
    home.start();

    home.wait_for_status(&session.id, "orphaned");
    wait_until("the harness has exited", || home.harness_processes(&session.id).is_empty());
    check_invariants(&home);
}

#[test]
fn a_holder_killed_in_a_flood_leaves_a_readable_log() {
    let home = TestHome::started();
    let session = home.launch("flood_until_told");
    let dir = home.session_dir(&session.id);
    wait_until("the flood has started", || coven_testing::journal::log_end(&dir) > 1_000_000);

    process::kill_hard(home.holder_of(&session.id).expect("has a holder"));

    home.wait_for_status(&session.id, "orphaned");
    let log = home.log(&session.id);
    coven_testing::pattern::assert_bytes("the log", &log, &coven_testing::pattern::flood(log.len()));
    check_invariants(&home);
}

#[test]
fn a_stopped_holder_does_not_prevent_a_daemon_start() {
    let home = TestHome::started();
    let stuck = home.launch("echo").id;
    let fine = home.launch("echo").id;
    home.wait_for_output(&stuck, "ready");
    home.wait_for_output(&fine, "ready");
    let holder = home.holder_of(&stuck).expect("has a holder");

    process::signal(holder, rustix::process::Signal::STOP);
    home.kill_daemon();
    let ran = home.coven(&["daemon", "start"]);
    process::signal(holder, rustix::process::Signal::CONT);

    ran.expect_success();
    home.type_in(&fine, "hello\r");
    home.wait_for_output(&fine, "got:hello");
    // A slow holder does not count as dead: its session continues.
    wait_until("the daemon adopts the slow session", || home.health().sessions_live == 2);
    home.type_in(&stuck, "still here\r");
    home.wait_for_output(&stuck, "got:still here");
    check_invariants(&home);
}
