//! Several daemons and several starters at the same time.

use std::process::Stdio;

use coven_api::SessionRecord;
use coven_testing::{TestHome, check_invariants, process, wait_until};

#[test]
fn twenty_commands_that_need_a_daemon_start_one() {
    let home = TestHome::new();
    let commands: Vec<_> = (0..20)
        .map(|_| {
            let mut command = home.command(&["sessions", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven runs")
        })
        .collect();

    for command in commands {
        let output = command.wait_with_output().expect("our child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(serde_json::from_slice::<Vec<SessionRecord>>(&output.stdout).expect("records").is_empty());
    }

    assert_eq!(home.daemons().len(), 1);
    check_invariants(&home);
}

#[test]
fn of_two_daemons_that_start_at_once_one_has_the_home() {
    let home = TestHome::new();
    let serve = || {
        let mut command = home.command(&["daemon", "serve", "--home", home.path().to_str().expect("text")]);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("coven runs")
    };

    let mut both = [serve(), serve()];

    wait_until("one of them gives up", || both.iter_mut().any(|it| it.try_wait().expect("our child").is_some()));
    wait_until("the other one answers", || home.try_request(hyper::Method::GET, "/api/v1/health", None).is_ok());
    let [first, second] = &mut both;
    let (loser, winner) = match first.try_wait().expect("our child") {
        Some(status) => (status, second),
        None => (second.try_wait().expect("our child").expect("one of them"), first),
    };
    assert_eq!(loser.code(), Some(5));
    assert_eq!(home.health().pid, winner.id());
    home.stop();
    winner.wait().expect("our child");
}

#[test]
fn a_socket_that_a_dead_daemon_left_is_no_obstacle() {
    let home = TestHome::started();
    home.kill_daemon();
    assert!(home.socket().exists());

    home.start();

    assert!(home.health().ok);
}

#[test]
fn a_daemon_that_is_stopped_and_started_by_commands_is_always_one() {
    let home = TestHome::started();
    let id = home.launch("echo").id;
    home.wait_for_output(&id, "ready");

    for _ in 0..3 {
        home.coven(&["daemon", "restart"]).done();
        assert_eq!(home.daemons().len(), 1);
    }
    home.coven(&["daemon", "stop"]).done();
    // The next command that needs it brings it back, and the session is still there.
    home.coven(&["input", &id, "hello", "--enter"]).done();

    home.wait_for_output(&id, "got:hello");
    check_invariants(&home);
}

#[test]
fn after_a_stop_the_next_command_finds_a_daemon_whatever_was_still_open() {
    let home = TestHome::started();
    let id = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&id, "stubborn");

    for _ in 0..3 {
        // Requests that wait for something keep a stopping daemon busy for a moment.
        let mut waiting = home.command(&["wait", &id]).stdout(Stdio::null()).spawn().expect("coven runs");
        let feed = coven_testing::EventFeed::open(&home);
        home.coven(&["daemon", "stop"]).done();
        let records: Vec<SessionRecord> = home.json(&["sessions", "--json"]);
        assert_eq!(records.len(), 1);
        drop(feed);
        waiting.kill().expect("our child");
        waiting.wait().expect("our child");
    }
    check_invariants(&home);
}

#[test]
fn a_daemon_whose_socket_was_removed_makes_a_new_one() {
    let home = TestHome::started();
    let daemon = home.health().pid;
    let id = home.launch("hang").id;

    for command in [&["sessions", "--plain"][..], &["daemon", "status"], &["daemon", "start"]] {
        std::fs::remove_file(home.socket()).expect("it was there");
        let said = home.coven(command).done();
        assert!(!said.contains("locked"), "{said}");
        assert_eq!(home.health().pid, daemon, "{command:?}");
    }

    std::fs::remove_file(home.socket()).expect("it was there");
    home.coven(&["daemon", "restart"]).done();
    assert_ne!(home.health().pid, daemon);
    std::fs::remove_file(home.socket()).expect("it was there");
    assert_eq!(home.coven(&["daemon", "stop"]).done(), "stopped\n");
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
    std::fs::remove_file(home.socket()).expect("it was there");

    let message = home.coven(&["daemon", "status"]).refused(5);

    assert!(message.contains(&format!("pid {daemon}")) && message.contains("daemon restart"), "{message}");
    assert_eq!(home.coven(&["daemon", "stop"]).done(), "stopped\n");
    assert_eq!(home.daemons(), Vec::<u32>::new());
}
