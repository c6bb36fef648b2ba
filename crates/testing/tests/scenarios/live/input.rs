//! Input, sizes and signals, which are not delayed by output.

use std::time::{Duration, Instant};

use coven_testing::journal::log_end;
use coven_testing::{DEADLINE, TestHome, wait_until};
use serde_json::json;

use super::client::{Frame, Live};

/// More bytes than the socket buffers between session and client can hold.
const ABOVE_SOCKET_BUFFERS: u64 = 4 << 20;

#[test]
fn an_interrupt_reaches_the_agent_of_a_client_that_does_not_read() {
    let home = TestHome::started();
    for message in [
        |id: &str| json!({ "type": "input", "session_id": id, "data": "\u{3}" }),
        |id: &str| json!({ "type": "signal", "session_id": id, "signal": "INT" }),
    ] {
        let id = home.launch("flood_until_told").id.to_string();
        let mut live = Live::connect(&home);
        live.subscribe(1, &id, json!({ "from": 0, "window": u32::MAX }));
        wait_until("the output exceeds the socket buffers", || log_end(&home.session_dir(&id)) > ABOVE_SOCKET_BUFFERS);
        live.send(message(&id));
        // The client stays connected without reading until the session has ended.
        assert_eq!(home.wait_for_end(&id).exit_code, Some(130), "ended by SIGINT");
    }
}

#[test]
fn a_signal_reaches_the_job_in_the_foreground() {
    let home = TestHome::started();
    // With job control, each job has its own process group.
    let script = "set -m; sh -c 'echo working; exec sleep 1000'; echo after $?; exit 4";
    let id = home.launch_with(json!({ "argv": ["sh", "-c", script] })).id.to_string();
    home.wait_for_output(&id, "working");
    let mut live = Live::connect(&home);
    live.send(json!({ "type": "signal", "session_id": id, "signal": "TERM", "request": 9 }));
    assert_eq!(live.message("accepted")["request"], 9);
    assert_eq!(home.wait_for_end(&id).exit_code, Some(4), "{}", home.log_text(&id));
    assert!(home.log_text(&id).contains("after 143"), "{}", home.log_text(&id));
}

#[test]
fn input_that_is_not_read_delays_neither_signals_nor_other_sessions() {
    let home = TestHome::started();
    let deaf = home.launch("say up ;; hang").id.to_string();
    let other = home.launch("echo").id.to_string();
    home.wait_for_output(&deaf, "up");
    home.wait_for_output(&other, "ready");
    let mut live = Live::connect(&home);
    // More than the terminal and the holder accept. The daemon queues the rest up to a limit.
    let piece = "x".repeat(500_000);
    let mut was_refused = false;
    for _ in 0..40 {
        live.send(json!({ "type": "input", "session_id": deaf, "data": piece }));
    }
    live.send(json!({ "type": "input", "session_id": other, "data": "hello\r", "request": 1 }));
    loop {
        match live.next() {
            Frame::Text(message) if message["type"] == "error" => {
                assert_eq!(message["error"]["code"], "unavailable", "{message}");
                was_refused = true;
            }
            Frame::Text(message) if message["type"] == "accepted" => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(was_refused, "20 MB of input exceed the limit");
    home.wait_for_output(&other, "got:hello");
    live.send(json!({ "type": "signal", "session_id": deaf, "signal": "KILL" }));
    assert_eq!(home.wait_for_end(&deaf).exit_code, Some(137));
}

#[test]
fn many_sessions_share_one_connection() {
    const SESSIONS: u32 = 8;
    let home = TestHome::started();
    let ids: Vec<String> = (0..SESSIONS).map(|_| home.launch("echo").id.to_string()).collect();
    ids.iter().for_each(|id| drop(home.wait_for_output(id, "ready")));
    let mut live = Live::connect(&home);
    for (number, id) in ids.iter().enumerate() {
        let request = json!({
            "type": "subscribe", "id": number, "topic": "session", "session_id": id, "from": 0
        });
        live.send(request);
        live.send(json!({ "type": "input", "session_id": id, "data": format!("word{number}\rquit\r") }));
    }
    let mut outputs = vec![Vec::new(); ids.len()];
    let mut ended = 0;
    while ended < ids.len() {
        match live.next() {
            Frame::Output { id, offset, data } => {
                let output = &mut outputs[id as usize];
                assert_eq!(offset, output.len() as u64);
                output.extend(data);
            }
            Frame::Text(message) if message["type"] == "exit" => ended += 1,
            Frame::Text(message) => assert_eq!(message["type"], "subscribed", "{message}"),
            Frame::Closed(code) => panic!("closed with {code:?}"),
        }
    }
    for (number, (id, output)) in ids.iter().zip(&outputs).enumerate() {
        assert_eq!(*output, home.log(id));
        assert!(String::from_utf8_lossy(output).contains(&format!("got:word{number}")));
    }
}

#[test]
fn input_is_delivered_even_if_the_client_disconnects_immediately() {
    let home = TestHome::started();
    let id = home.launch("echo ;; exit 6").id.to_string();
    home.wait_for_output(&id, "ready\r\n");
    let mut live = Live::connect(&home);
    for word in ["one", "two", "quit"] {
        live.send(json!({ "type": "input", "session_id": id, "data": format!("{word}\r") }));
    }
    drop(live);
    assert_eq!(home.wait_for_end(&id).exit_code, Some(6));
    let log = home.log_text(&id);
    assert!(log.contains("got:one") && log.contains("got:two"), "{log}");
}

#[test]
fn a_client_with_a_terminal_answers_terminal_queries_itself() {
    let home = TestHome::started();
    let gate = home.folder().join("gate");
    // Sends a terminal query and prints the first byte of the reply.
    let script = format!(
        "stty raw -echo; echo up; while [ ! -e {} ]; do sleep 0.01; done; printf 'asked\\033[c'; head -c 1 | od -An -c; exit 5",
        gate.display()
    );
    let id = home.launch_with(json!({ "argv": ["sh", "-c", script] })).id.to_string();
    home.wait_for_output(&id, "up");
    let mut live = Live::connect(&home);
    live.subscribe(1, &id, json!({ "from": 0 }));
    live.send(json!({ "type": "resize", "session_id": id, "rows": 30, "cols": 90, "request": 1 }));
    while !matches!(live.next(), Frame::Text(message) if message["type"] == "accepted") {}
    std::fs::write(&gate, "").expect("disk has space");
    live.output_until(1, "asked");
    live.send(json!({ "type": "input", "session_id": id, "data": "T" }));
    assert_eq!(home.wait_for_end(&id).exit_code, Some(5));
    let log = home.log_text(&id);
    assert!(log.split("asked").nth(1).is_some_and(|rest| rest.contains('T')), "{log:?}");
}

/// Returns the time from an interrupt to the end of its agent, measured by the client.
fn interrupt(home: &TestHome, live: &mut Live, script: &str, ready: &str) -> Duration {
    let id = home.launch(script).id.to_string();
    home.wait_for_output(&id, ready);
    live.subscribe(1, &id, json!({ "from": 0, "window": u32::MAX }));
    if script.starts_with("flood") {
        live.output_until(1, "000000020000 ");
    }
    let sent = Instant::now();
    live.send(json!({ "type": "input", "session_id": id, "data": "\u{3}" }));
    loop {
        if matches!(live.next(), Frame::Text(message) if message["type"] == "exit") {
            return sent.elapsed();
        }
    }
}

#[test]
fn an_interrupt_in_a_flood_ends_the_agent_soon() {
    let home = TestHome::started();
    let mut live = Live::connect(&home);
    let idle = interrupt(&home, &mut live, "echo", "ready");
    let flooding = interrupt(&home, &mut live, "flood_until_told", "0");
    // A benchmark measures the ratio. This limit only excludes waiting for a whole flood.
    assert!(flooding < DEADLINE / 3, "{flooding:?} instead of {idle:?}");
}
