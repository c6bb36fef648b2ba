//! Concurrent daemon starts, and daemons that do not answer.

use std::process::Stdio;

use coven_api::List;
use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, check_invariants, process, wait_until};

#[test]
fn twenty_concurrent_commands_start_one_daemon() {
    let home = TestHome::new();
    let commands: Vec<_> = (0..20)
        .map(|_| {
            let mut command = home.command(&["sessions", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven starts")
        })
        .collect();

    for command in commands {
        let output = command.wait_with_output().expect("child process");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(serde_json::from_slice::<List<SessionRecord>>(&output.stdout).expect("page").items.is_empty());
    }

    // A daemon that another one was faster than may still be exiting.
    wait_until("one daemon is running", || home.daemons().len() == 1);
    check_invariants(&home);
}

#[test]
fn only_one_of_two_concurrent_daemons_gets_the_home() {
    let home = TestHome::new();
    let serve = || {
        let mut command = home.command(&["daemon", "serve", "--home", home.path().to_str().expect("valid UTF-8")]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("coven starts")
    };

    let mut both = [serve(), serve()];

    wait_until("one daemon exits", || both.iter_mut().any(|it| it.try_wait().expect("child process").is_some()));
    wait_until("the other daemon answers", || home.try_request(hyper::Method::GET, "/api/v1/health", None).is_ok());
    let [first, second] = &mut both;
    let (loser, winner) = match first.try_wait().expect("child process") {
        Some(status) => (status, second),
        None => (second.try_wait().expect("child process").expect("one daemon exited"), first),
    };
    assert_eq!(loser.code(), Some(5));
    assert_eq!(home.health().pid, winner.id());
    home.stop();
    winner.wait().expect("child process");
}

#[test]
fn a_daemon_starts_despite_the_socket_of_a_dead_daemon() {
    let home = TestHome::started();
    home.kill_daemon();
    assert!(home.socket().exists());

    home.start();

    assert!(home.health().ok);
}

#[test]
fn restarts_never_leave_two_daemons() {
    let home = TestHome::started();
    let id = home.launch("echo").id;
    home.wait_for_output(&id, "ready\r\n");

    for _ in 0..3 {
        home.coven(&["daemon", "restart"]).expect_success();
        wait_until("one daemon is running", || home.daemons().len() == 1);
    }
    home.coven(&["daemon", "stop"]).expect_success();
    // The next command starts the daemon again, and the session is still running.
    home.coven(&["input", &id, "hello", "--enter"]).expect_success();

    home.wait_for_output(&id, "got:hello");
    check_invariants(&home);
}

#[test]
fn the_next_command_after_a_stop_finds_a_daemon_despite_open_requests() {
    let home = TestHome::started();
    let id = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&id, "stubborn");

    for _ in 0..3 {
        // Open requests delay the stop of a daemon.
        let mut waiting = home.command(&["wait", &id]).stdout(Stdio::null()).spawn().expect("coven starts");
        let feed = coven_testing::EventFeed::open(&home);
        home.coven(&["daemon", "stop"]).expect_success();
        let records: Vec<SessionRecord> = home.items(&["sessions", "--json"]);
        assert_eq!(records.len(), 1);
        drop(feed);
        waiting.kill().expect("child process");
        waiting.wait().expect("child process");
    }
    check_invariants(&home);
}

#[test]
fn a_daemon_whose_socket_was_removed_creates_a_new_one() {
    let home = TestHome::started();
    let daemon = home.health().pid;
    let id = home.launch("hang").id;

    for command in [&["sessions", "--plain"][..], &["daemon", "status"], &["daemon", "start"]] {
        std::fs::remove_file(home.socket()).expect("existed");
        let output = home.coven(command).expect_success();
        assert!(!output.contains("locked"), "{output}");
        assert_eq!(home.health().pid, daemon, "{command:?}");
    }

    std::fs::remove_file(home.socket()).expect("existed");
    home.coven(&["daemon", "restart"]).expect_success();
    assert_ne!(home.health().pid, daemon);
    std::fs::remove_file(home.socket()).expect("existed");
    assert_eq!(home.coven(&["daemon", "stop"]).expect_success(), "stopped\n");
    assert_eq!(home.daemons(), Vec::<u32>::new());
    home.start();
    assert_eq!(home.session(&id).status, "running");
    check_invariants(&home);
}

#[test]
fn a_daemon_that_does_not_answer_is_found_by_its_lock() {
    let home = TestHome::started();
    let daemon = home.health().pid;
    process::signal(daemon, rustix::process::Signal::STOP);
    std::fs::remove_file(home.socket()).expect("existed");

    let message = home.coven(&["daemon", "status"]).expect_failure(5);

    assert!(message.contains(&format!("pid {daemon}")) && message.contains("daemon restart"), "{message}");
    assert_eq!(home.coven(&["daemon", "stop"]).expect_success(), "stopped\n");
    assert_eq!(home.daemons(), Vec::<u32>::new());
}
