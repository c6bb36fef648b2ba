//! LIFE-30 and LIFE-31: orphans, and data that survives a restart.

use coven_testing::pattern::{INVALID_UTF8, assert_bytes, flood};
use coven_testing::sessions::path;
use coven_testing::{TestHome, check_invariants, process, wait_until};
use serde_json::json;

#[test]
fn life_30_sessions_of_an_earlier_daemon_without_a_process_become_orphaned() {
    let home = TestHome::started();
    let orphan = home.launch("say hello ;; hang").id;
    let living = home.launch("echo").id;
    home.wait_for_output(&orphan, "hello\r\n");
    home.wait_for_output(&living, "ready\r\n");

    home.kill_daemon();
    process::kill_hard(home.holder_of(&orphan).expect("has a holder"));
    wait_until("the orphan's harness has exited", || home.harness_processes(&orphan).is_empty());
    home.start();

    home.wait_for_status(&orphan, "orphaned");
    home.post(&path(&orphan, "/input"), &json!({ "data": "x" })).expect_error(409, "session_not_live");
    home.act(&orphan, "kill").expect_error(409, "session_not_live");
    assert_eq!(home.log_text(&orphan), "hello\r\n");
    // The other session continues.
    home.type_in(&living, "still there\r");
    home.wait_for_output(&living, "got:still there");
    check_invariants(&home);
}

#[test]
fn life_31_entries_survive_a_restart_and_the_replay_is_identical() {
    let home = TestHome::started();
    let ended = home.run_to_end("say text ;; invalid_utf8 ;; flood 3000000").id;
    let living = home.launch("say before ;; echo").id;
    home.wait_for_output(&living, "ready\r\n");
    let expected = [b"text\r\n", INVALID_UTF8, &flood(3_000_000)].concat();
    let (ended_before, living_before) = (home.entries(&ended), home.entries(&living));
    let record_before = home.session(&ended);

    for round in 0..2 {
        match round {
            0 => home.restart(),
            _ => {
                home.kill_daemon();
                home.start();
            }
        }

        assert_bytes("the replay", &home.command(&["replay", &ended]).output().expect("coven runs").stdout, &expected);
        assert_eq!(home.entries(&ended), ended_before);
        assert_eq!(home.session(&ended), record_before);
        // A running session only adds entries.
        assert_eq!(home.entries(&living)[..living_before.len()], living_before);
    }
    check_invariants(&home);
}
