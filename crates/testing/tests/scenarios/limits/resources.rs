//! Limits of memory and load.

use coven_testing::{TestHome, check_invariants};
use serde_json::json;

use super::queued;

#[test]
fn a_launch_waits_until_the_sessions_use_less_memory() {
    // Any process uses more than one byte.
    let home = TestHome::started_with(json!({
        "sessions": { "killGraceSeconds": 2.0 },
        "limits": { "memoryBytes": 1 },
    }));
    let first = home.launch("hang");
    assert_eq!(first.status, "running", "without sessions there is no memory to count");
    let second = home.launch("say second ;; hang");
    assert_eq!(queued(&second), (1, "the sessions use at least 1 bytes of memory".to_owned()));
    // Memory is a limit for commands too.
    let third = home.launch_with(json!({ "argv": ["sh", "-c", "echo third; sleep 1000"] }));
    assert_eq!(queued(&third).0, 2);

    home.kill(&first.id);

    home.wait_for_output(&second.id, "second");
    assert_eq!(home.session(&third.id).status, "created", "the second session uses memory");
    home.kill(&second.id);
    home.wait_for_output(&third.id, "third");
    check_invariants(&home);
}

#[test]
fn limits_with_room_delay_nothing() {
    let home = TestHome::started_with(json!({
        "limits": { "liveAgents": 10, "memoryBytes": 1_u64 << 50, "load": 1e6 },
    }));
    for _ in 0..3 {
        assert_eq!(home.launch("hang").status, "running");
    }
    check_invariants(&home);
}

#[test]
fn an_invalid_limit_is_refused_with_its_key() {
    let home = TestHome::new();
    for (limits, key) in [
        (json!({ "liveAgents": 0 }), "limits.liveAgents"),
        (json!({ "memoryBytes": 0 }), "limits.memoryBytes"),
        (json!({ "load": 0 }), "limits.load"),
        (json!({ "agents": 3 }), "agents"),
    ] {
        home.configure(json!({ "limits": limits }));
        let message = home.coven(&["daemon", "start"]).expect_failure(2);
        assert!(message.contains(key), "{key}: {message}");
    }
}
