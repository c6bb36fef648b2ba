//! `kill -9` of the daemon at random moments: not one byte is lost or repeated.

use coven_domain::entry::EntryKind;
use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::{TestHome, check_invariants, journal, process, wait_until};

/// A small random generator with a fixed seed, so that failures can be reproduced.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Waits until the session has written `more` additional bytes.
pub fn after_bytes(home: &TestHome, id: &str, more: u64) {
    let dir = home.session_dir(id);
    let from = journal::log_end(&dir);
    wait_until("the flood continues", || journal::log_end(&dir) >= from + more);
}

/// Returns the expected output of `flood_until_told`, whose last line contains its length.
pub fn expected_flood(log: &[u8]) -> Vec<u8> {
    let last = log.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().expect("last line");
    let text = std::str::from_utf8(last).expect("valid UTF-8");
    let count: usize = text.strip_prefix("flooded ").expect("last line of the agent").parse().expect("number");
    [flood(count), format!("flooded {count}\n").into_bytes()].concat()
}

#[test]
fn twenty_kills_of_the_daemon_in_a_flood_lose_nothing() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id;
    let mut random = Random(20);

    for round in 0..20 {
        after_bytes(&home, &id, random.below(150_000));
        match round % 4 {
            // Kill a daemon as soon as it exists, during its start and recovery.
            3 => {
                let mut starter = home.command(&["daemon", "restart"]).spawn().expect("coven starts");
                wait_until("a daemon starts", || {
                    let daemons = home.daemons();
                    daemons.iter().for_each(|pid| process::kill_hard(*pid));
                    !daemons.is_empty()
                });
                starter.wait().expect("child process");
                home.end_daemons();
            }
            _ => home.kill_daemon(),
        }
        home.start();
        assert_eq!(home.session(&id).status, "running", "round {round}");
    }
    home.type_in(&id, "stop\n");
    let session = home.wait_for_end(&id);

    assert_eq!((session.status.as_str(), session.exit_code), ("completed", Some(0)));
    let log = home.log(&id);
    assert_bytes("the log", &log, &expected_flood(&log));
    check_invariants(&home);
}

#[test]
fn ten_restarts_in_a_flood_lose_nothing() {
    let home = TestHome::started();
    let id = home.launch("flood_until_told").id;
    let mut random = Random(10);

    for _ in 0..10 {
        after_bytes(&home, &id, random.below(150_000));
        home.restart();
    }
    home.type_in(&id, "stop\n");
    home.wait_for_end(&id);

    let log = home.log(&id);
    assert_bytes("the log", &log, &expected_flood(&log));
    check_invariants(&home);
}

#[test]
fn a_flood_that_ends_without_a_daemon_is_complete() {
    let home = TestHome::started();
    let id = home.launch("flood 20000000 ;; exit 2").id;

    home.kill_daemon();
    wait_until("the session has ended", || home.processes().is_empty());
    home.start();

    let session = home.wait_for_status(&id, "failed");
    assert_eq!(session.exit_code, Some(2));
    assert_bytes("the log", &home.log(&id), &flood(20_000_000));
    check_invariants(&home);
}

#[test]
fn input_accepted_before_the_kill_is_recorded_once() {
    let home = TestHome::started();
    let id = home.launch("echo").id;
    home.wait_for_output(&id, "ready\r\n");

    for round in 0..5 {
        home.type_in(&id, &format!("line {round}\r"));
        home.kill_daemon();
        home.start();
    }

    home.wait_for_output(&id, "got:line 4");
    let typed: Vec<_> =
        home.entries(&id).into_iter().filter(|it| it.kind == EntryKind::Input).map(|it| it.data).collect();
    assert_eq!(typed, (0..5).map(|round| Some(format!("line {round}\r"))).collect::<Vec<_>>());
    check_invariants(&home);
}
