//! A daemon that was started inside a session manages other sessions, so it must outlive that session.

use coven_testing::{TestHome, check_invariants, program, wait_until};
use serde_json::json;

#[test]
fn killing_a_session_does_not_kill_a_daemon_that_was_started_in_it() {
    let home = TestHome::started();
    let (go, done) = (home.project().join("go"), home.project().join("done"));
    // The loop has a limit in case the test fails early.
    let script = format!(
        "n=0; until [ -e {} ] || [ $n = 600 ]; do sleep 0.05; n=$((n+1)); done; {} sessions --plain; touch {}; exec cat",
        go.display(),
        program::coven().display(),
        done.display()
    );
    let outer = home.launch_with(json!({"argv": ["/bin/sh", "-c", script], "cwd": home.project()}));
    home.kill_daemon();

    std::fs::write(&go, "").expect("disk has space");
    wait_until("the session has started a daemon", || done.exists());
    let daemons = home.daemons();
    let other = home.launch("hang");
    home.kill(&outer.id);

    assert_eq!(home.wait_for_end(&outer.id).status, "killed");
    assert_eq!(home.daemons(), daemons);
    assert_eq!(home.session(&other.id).status, "running");
    check_invariants(&home);
}
