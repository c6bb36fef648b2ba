//! Ending sessions in difficult cases: clients that disconnect, agents that ignore signals, concurrent requests.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;

use coven_domain::entry::EntryKind;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually, wait_until};
use hyper::Method;
use serde_json::json;

/// Sends a request and disconnects as soon as `event` shows that it is being processed. Returns the event's subject.
fn disconnect_at(home: &TestHome, event: &str, head: &str, body: &str) -> String {
    let mut feed = EventFeed::open(home);
    let mut stream = UnixStream::connect(home.socket()).expect("daemon answers");
    let text = format!("{head} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).expect("peer reads");
    let subject = feed.next_of(event).subject;
    drop(stream);
    subject
}

#[test]
fn a_kill_during_a_finish_ends_the_session() {
    let home = TestHome::started();
    let id = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&id, "stubborn");

    thread::scope(|scope| {
        scope.spawn(|| home.act(&id, "finish"));
        wait_until("the finish request is recorded", || home.entries(&id).iter().any(|it| it.kind == EntryKind::Note));
        home.act(&id, "kill");
    });

    let ended = home.wait_for_end(&id);
    assert!(matches!(ended.status.as_str(), "killed" | "completed"), "{ended:?}");
    assert!(ended.exit_code.is_some());
    check_invariants(&home);
}

#[test]
fn a_launch_completes_if_its_client_disconnects() {
    let home = TestHome::started();

    for round in 0..6 {
        let body = json!({ "harness": "claude", "prompt": format!("say round {round} ;; hang") }).to_string();
        let id = disconnect_at(&home, "session.created", "POST /api/v1/sessions", &body);

        let session =
            eventually("the session is launched", || Some(home.session(&id)).filter(|it| it.status != "created"));
        assert_eq!(session.status, "running");
        home.wait_for_output(&id, &format!("round {round}"));
        assert_eq!(home.kill(&id).status, "killed");
    }
    check_invariants(&home);
}

#[test]
fn a_kill_or_sacrifice_completes_if_its_client_disconnects() {
    let home = TestHome::started();

    for _ in 0..4 {
        let id = home.launch("say hello ;; hang").id;
        home.wait_for_output(&id, "hello");

        disconnect_at(&home, "session.killed", &format!("POST {}", path(&id, "/kill")), "{}");
        wait_until("the session is killed", || home.session(&id).exit_code.is_some());
        assert_eq!(home.session(&id).status, "killed");
        disconnect_at(&home, "session.sacrificed", &format!("DELETE {}", path(&id, "")), "");
        wait_until("the session folder is removed", || !home.session_dir(&id).exists());
        home.get(&path(&id, "")).expect_error(404, "session_not_found");
    }
    check_invariants(&home);
}

#[test]
fn unread_input_does_not_prevent_a_kill() {
    let home = TestHome::started();
    // `flood` sets raw mode, so that the terminal queues the input.
    let id = home.launch("flood 64 ;; hang").id;
    home.wait_for_output(&id, "000000000000");
    let body = json!({ "data": "x".repeat(3 << 20) }).to_string().into_bytes();

    thread::scope(|scope| {
        // The request may block until the kill.
        scope.spawn(|| home.try_request(Method::POST, &path(&id, "/input"), Some(body)));
        wait_until("input is being sent", || home.entries(&id).iter().any(|it| it.kind == EntryKind::Input));
        let ended = home.kill(&id);
        assert_eq!(ended.status, "killed");
    });
    check_invariants(&home);
}

#[test]
fn unread_replies_to_terminal_queries_do_not_prevent_a_kill() {
    let home = TestHome::started();
    let script = r#"stty raw -echo; exec yes "$(printf '\033[c\033[6n\033[c')""#;
    let id = home.launch_with(json!({ "argv": ["/bin/sh", "-c", script] })).id;
    let dir = home.session_dir(&id);
    wait_until("many queries were sent", || coven_testing::journal::log_end(&dir) > 2_000_000);

    let ended = home.kill(&id);

    assert_eq!(ended.status, "killed");
    check_invariants(&home);
}

#[test]
fn wait_accepts_a_session_that_is_being_launched() {
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
fn a_kill_right_after_the_launch_ends_the_session() {
    let home = TestHome::started();

    for _ in 0..6 {
        let mut feed = EventFeed::open(&home);
        thread::scope(|scope| {
            scope.spawn(|| home.launch("hang"));
            let id = feed.next_of("session.running").subject;
            assert_eq!(home.act(&id, "kill").status, 202);
            let ended = home.wait_for_end(&id);
            assert_eq!(ended.status, "killed");
            wait_until("the session's processes have exited", || home.harness_processes(&id).is_empty());
        });
    }
    check_invariants(&home);
}

#[test]
fn a_kill_continues_after_the_leader_exited_and_the_daemon_died() {
    let home = TestHome::new();
    home.configure(json!({ "sessions": { "killGraceSeconds": 3.0 } }));
    home.start();
    let id = home.launch("fork_children ;; hang").id;
    home.wait_for_output(&id, "children are there");

    // The leader exits on SIGTERM, two of its children ignore it. The daemon dies in between.
    assert_eq!(home.act(&id, "kill").status, 202);
    wait_until("the leader has exited", || home.harness_processes(&id).len() < 4);
    home.kill_daemon();
    home.start();

    let ended = home.wait_for_end(&id);
    assert_eq!((ended.status.as_str(), ended.exit_code), ("killed", Some(143)));
    assert_eq!(home.entry_kinds(&id).last().map(String::as_str), Some("exit"));
    check_invariants(&home);
}

#[test]
fn the_screen_shows_output_and_size_changes_from_the_time_without_a_daemon() {
    let home = TestHome::started();
    let id = home.launch("size ;; echo").id;
    home.wait_for_output(&id, "ready\r\n");

    home.kill_daemon();
    let dir = home.session_dir(&id);
    let mut holder = coven_holder::client::HolderClient::connect(&dir).expect("holder answers");
    holder.request(&coven_holder::wire::Request::Resize { rows: 40, cols: 100 }).expect("request accepted");
    wait_until("the harness sees its new size", || {
        let (_, bytes) = coven_testing::journal::log_until(&dir, u64::MAX);
        String::from_utf8_lossy(&bytes).contains("size:40x100")
    });
    holder.request(&coven_holder::wire::Request::Input(b"quit\r".to_vec())).expect("request accepted");
    drop(holder);
    wait_until("the session has ended", || home.processes().is_empty());
    home.start();

    home.wait_for_end(&id);
    let screen: coven_api::screen::ScreenResponse = home.read(&path(&id, "/screen"));
    assert_eq!((screen.rows, screen.cols), (40, 100));
    assert!(screen.text.contains("size:40x100"), "{}", screen.text);
}
