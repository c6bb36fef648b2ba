//! Ending sessions under difficulties: impatient clients, agents that do not listen, several wishes at once.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually, wait_until};
use hyper::Method;
use serde_json::json;

/// Sends a request and goes away as soon as `event` tells that it is worked on; gives the event's subject.
fn leave_at(home: &TestHome, event: &str, head: &str, body: &str) -> String {
    let mut feed = EventFeed::open(home);
    let mut stream = UnixStream::connect(home.socket()).expect("the daemon answers");
    let text = format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).expect("it reads");
    let subject = feed.next_of(event).subject;
    drop(stream);
    subject
}

#[test]
fn finish_and_then_kill_ends_the_session() {
    let home = TestHome::started();
    let id = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&id, "stubborn");

    thread::scope(|scope| {
        scope.spawn(|| home.act(&id, "finish"));
        wait_until("it was asked to finish", || home.entries(&id).iter().any(|it| it.kind == "note"));
        home.act(&id, "kill");
    });

    let ended = home.wait_for_end(&id);
    assert!(matches!(ended.status.as_str(), "killed" | "completed"), "{ended:?}");
    assert!(ended.exit_code.is_some());
    check_invariants(&home);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_launch_leaves_a_session_that_is_looked_after() {
    let home = TestHome::started();

    for round in 0..6 {
        let body = json!({ "harness": "claude", "prompt": format!("say round {round} ;; hang") }).to_string();
        let id = leave_at(&home, "session.created", "POST /api/v1/sessions", &body);

        let session = eventually("it is launched", || Some(home.session(&id)).filter(|it| it.status != "created"));
        assert_eq!(session.status, "running");
        home.wait_for_output(&id, &format!("round {round}"));
        assert_eq!(home.kill(&id).status, "killed");
    }
    check_invariants(&home);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_kill_or_a_sacrifice_does_not_stop_it() {
    let home = TestHome::started();

    for _ in 0..4 {
        let id = home.launch("say hello ;; hang").id;
        home.wait_for_output(&id, "hello");

        leave_at(&home, "session.killed", &format!("POST {}", path(&id, "/kill")), "{}");
        wait_until("it is killed", || home.session(&id).exit_code.is_some());
        assert_eq!(home.session(&id).status, "killed");
        leave_at(&home, "session.sacrificed", &format!("DELETE {}", path(&id, "")), "");
        wait_until("it is gone", || !home.session_dir(&id).exists());
        home.get(&path(&id, "")).refused(404, "session_not_found");
    }
    check_invariants(&home);
}

#[test]
fn input_that_nobody_reads_does_not_keep_a_session_from_being_killed() {
    let home = TestHome::started();
    // Raw, so that the terminal keeps what is typed.
    let id = home.launch("flood 64 ;; hang").id;
    home.wait_for_output(&id, "000000000000");
    let body = json!({ "data": "x".repeat(3 << 20) }).to_string().into_bytes();

    thread::scope(|scope| {
        // It may wait for ever; the kill ends that too.
        scope.spawn(|| home.try_request(Method::POST, &path(&id, "/input"), Some(body)));
        wait_until("input is on its way", || home.entries(&id).iter().any(|it| it.kind == "input"));
        let ended = home.kill(&id);
        assert_eq!(ended.status, "killed");
    });
    check_invariants(&home);
}

#[test]
fn questions_that_nobody_reads_the_answers_of_do_not_keep_a_session_from_being_killed() {
    let home = TestHome::started();
    let script = r#"stty raw -echo; exec yes "$(printf '\033[c\033[6n\033[c')""#;
    let id = home.launch_with(json!({ "argv": ["/bin/sh", "-c", script] })).id;
    let dir = home.session_dir(&id);
    wait_until("many questions were asked", || coven_testing::journal::log_end(&dir) > 2_000_000);

    let ended = home.kill(&id);

    assert_eq!(ended.status, "killed");
    check_invariants(&home);
}

#[test]
fn wait_waits_for_a_session_that_is_being_launched() {
    let home = TestHome::started();

    for _ in 0..6 {
        let mut feed = EventFeed::open(&home);
        thread::scope(|scope| {
            scope.spawn(|| home.launch("say hello ;; exit 3"));
            let id = feed.next_of("session.created").subject;
            let ended = home.wait_for_end(&id);
            assert_eq!((ended.status.as_str(), ended.exit_code), ("failed", Some(3)));
        });
    }
}

#[test]
fn a_kill_right_after_the_launch_ends_it() {
    let home = TestHome::started();

    for _ in 0..6 {
        let mut feed = EventFeed::open(&home);
        thread::scope(|scope| {
            scope.spawn(|| home.launch("hang"));
            let id = feed.next_of("session.running").subject;
            assert_eq!(home.act(&id, "kill").status, 202);
            let ended = home.wait_for_end(&id);
            assert_eq!(ended.status, "killed");
            wait_until("its processes are gone", || home.harness_processes(&id).is_empty());
        });
    }
    check_invariants(&home);
}

#[test]
fn a_session_whose_leader_is_gone_while_its_family_ends_is_taken_over() {
    let home = TestHome::new();
    home.configure(json!({ "sessions": { "killGraceSeconds": 3.0 } }));
    home.start();
    let id = home.launch("fork_children ;; hang").id;
    home.wait_for_output(&id, "children are there");

    // The leader heeds SIGTERM, two of its children do not: the daemon dies in between.
    assert_eq!(home.act(&id, "kill").status, 202);
    wait_until("the leader is gone", || home.harness_processes(&id).len() < 4);
    home.kill_daemon();
    home.start();

    let ended = home.wait_for_end(&id);
    assert_eq!((ended.status.as_str(), ended.exit_code), ("killed", Some(143)));
    assert_eq!(home.entry_kinds(&id).last().map(String::as_str), Some("exit"));
    check_invariants(&home);
}

#[test]
fn what_a_terminal_did_while_no_daemon_ran_is_on_the_screen() {
    let home = TestHome::started();
    let id = home.launch("size ;; echo").id;
    home.wait_for_output(&id, "ready");

    home.kill_daemon();
    let dir = home.session_dir(&id);
    let mut holder = coven_holder::client::HolderClient::connect(&dir).expect("the holder answers");
    holder.request(&coven_holder::wire::Request::Resize { rows: 40, cols: 100 }).expect("it takes it");
    wait_until("it saw its new size", || {
        let (_, bytes) = coven_testing::journal::log_until(&dir, u64::MAX);
        String::from_utf8_lossy(&bytes).contains("size:40x100")
    });
    holder.request(&coven_holder::wire::Request::Input(b"quit\r".to_vec())).expect("it takes it");
    drop(holder);
    wait_until("the session is over", || home.processes().is_empty());
    home.start();

    let screen: coven_api::session::ScreenResponse = home.read(&path(&id, "/screen"));
    assert_eq!((screen.rows, screen.cols), (40, 100));
    assert!(screen.text.contains("size:40x100"), "{}", screen.text);
}
