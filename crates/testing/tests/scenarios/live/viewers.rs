//! Many viewers of one session. Some never acknowledge or never read.

use std::{fs, thread};

use coven_testing::pattern::difference;
use coven_testing::{TestHome, wait_until};
use serde_json::json;

use super::client::Live;

/// The most memory that the daemon may use for a stalled viewer: its frame, its tasks and its buffers.
const BYTES_PER_VIEWER: u64 = 1 << 20;

pub fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

#[test]
fn viewers_that_never_acknowledge_use_little_memory_and_delay_no_other_viewer() {
    const EACH: u32 = 10;
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id.to_string();
    let daemon = home.health().pid;
    // The first viewer allocates shared buffers and threads, which are not measured.
    let mut first = Live::connect(&home);
    first.subscribe(0, &id, json!({ "from": 0, "on_lag": "wait" }));
    first.output_until(0, "000000005000 ");
    let before = memory(daemon);
    // Half of these stop after their window, half never read what fills their socket.
    let mut stuck = Vec::new();
    for number in 0..EACH {
        let mut live = Live::connect(&home);
        let window = if number % 2 == 0 { 100_000 } else { u32::MAX };
        live.subscribe(1, &id, json!({ "from": 0, "window": window, "on_lag": "wait" }));
        stuck.push(live);
    }
    let (outputs, after) = thread::scope(|scope| {
        let viewers: Vec<_> = (0..EACH)
            .map(|number| {
                let (home, id) = (&home, &id);
                scope.spawn(move || {
                    let mut live = Live::connect(home);
                    live.subscribe(number, id, json!({ "from": 0, "on_lag": "wait" }));
                    live.all_output(number, 0).0
                })
            })
            .collect();
        let mut typist = Live::connect(&home);
        typist.subscribe(1, &id, json!({ "from": 0, "on_lag": "wait" }));
        typist.output_until(1, "000000060000 ");
        let after = memory(daemon);
        typist.send(json!({ "type": "input", "session_id": id, "data": "stop\r" }));
        let outputs: Vec<Vec<u8>> = viewers.into_iter().map(|viewer| viewer.join().expect("a viewer")).collect();
        (outputs, after)
    });
    let log = home.log(&id);
    for output in outputs {
        assert_eq!(difference(&output, &log), None);
    }
    let bound = BYTES_PER_VIEWER * u64::from(2 * EACH + 1);
    assert!(after < before + bound, "{} KiB more for {} viewers", (after - before) >> 10, 2 * EACH + 1);
    drop(stuck);
    wait_until("the session has ended", || home.session(&id).exit_code == Some(0));
}

#[test]
fn a_view_that_is_opened_before_the_session_runs_follows_it() {
    let home = TestHome::started();
    for round in 0..12 {
        let request = json!({ "harness": "claude", "prompt": "say shown ;; echo", "detach": true });
        let id = home.launch_with(request).id.to_string();
        let mut live = Live::connect(&home);
        let mode = if round % 2 == 0 { "bytes" } else { "rows" };
        live.subscribe(1, &id, json!({ "mode": mode }));
        live.message("screen");
        assert_eq!(home.post(&format!("/api/v1/sessions/{id}/start"), &json!({})).status, 200);
        // The session keeps running, so its end cannot wake the view.
        if mode == "bytes" {
            live.output_until(1, "ready");
        } else {
            while !live.message("rows")["changed"].to_string().contains("ready") {}
        }
        assert_eq!(home.post(&format!("/api/v1/sessions/{id}/kill"), &json!({})).status, 202);
    }
}
