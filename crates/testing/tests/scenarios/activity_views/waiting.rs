//! `coven wait --for`, `coven attach --needs-me`, and what clears `unseen`.

use std::process::Stdio;

use coven_api::activity::ActivityResponse;
use coven_domain::activity::Activity;
use coven_testing::{TestHome, TestTerminal, eventually, wait_until};
use serde_json::json;

use super::{activity, converse, wait_for};

#[test]
fn wait_returns_when_the_agent_does_what_was_asked_for() {
    let home = TestHome::started_with_agent(json!({}));
    let gate = home.folder().join("gate");
    let id = converse(&home, "waits", &format!("until {} ;; permit touch x", gate.display()));
    wait_for(&home, &id, Activity::Working);
    let mut waiting = home.command(&["wait", &id, "--for", "permission,question", "--for", "idle"]);
    let waiting = waiting.stdout(Stdio::piped()).spawn().expect("coven runs");

    std::fs::write(&gate, "").expect("disk has space");

    let output = waiting.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(said.contains("wants to run: touch x") && said.contains("waits"), "{said}");
    home.coven(&["wait", &id, "--for", "permission"]).expect_success();
    let late = home.coven(&["wait", &id, "--for", "idle", "--timeout", "0.05"]).expect_failure(124);
    assert!(late.contains("coven why"), "{late}");
    home.coven(&["wait", &id, "--timeout", "0.05"]).expect_failure(124);
    assert_eq!(home.coven(&["wait", &id, "--for", "asleep"]).code, 2);

    home.kill(&id);
    assert_eq!(home.coven(&["wait", &id, "--for", "idle"]).code, 1, "it can be idle no more");
    home.coven(&["wait", &id, "--for", "idle,ended"]).expect_success();
    assert_eq!(home.coven(&["wait", &id]).code, 1, "killed is not completed");
}

#[test]
fn attach_needs_me_opens_the_session_that_has_waited_longest() {
    let home = TestHome::started_with_agent(json!({}));
    let idle = converse(&home, "idle one", "hello");
    wait_for(&home, &idle, Activity::Idle);
    let none = home.coven(&["attach", "--needs-me"]).expect_failure(3);
    assert!(none.contains("no session waits for you"), "{none}");
    let newer = converse(&home, "newer one", "until go ;; permit touch second");
    let older = converse(&home, "older one", "permit touch first");
    wait_for(&home, &older, Activity::Permission);
    std::fs::write(home.project().join("go"), "").expect("disk has space");
    wait_for(&home, &newer, Activity::Permission);

    let terminal = TestTerminal::with_size(&home, &["attach", "--needs-me"], 24, 120);

    terminal.wait_for_text("wants to run: touch first");
    terminal.hang_up();
}

#[test]
fn a_terminal_that_shows_the_session_clears_unseen_and_a_program_does_not() {
    let home = TestHome::started_with_agent(json!({}));
    let id = converse(&home, "seen", "hello");
    wait_for(&home, &id, Activity::Idle);
    let is_unseen = || activity(&home, &id).unseen;
    assert!(is_unseen());
    home.coven(&["show", &id]).expect_success();
    home.coven(&["sessions"]).expect_success();
    assert!(is_unseen(), "a list does not show the session");

    let terminal = TestTerminal::with_size(&home, &["attach", &id], 24, 120);
    wait_until("the session is seen", || !is_unseen());
    home.prompt(&id, "permit touch x");
    let shown: ActivityResponse = eventually("the agent asks", || {
        Some(activity(&home, &id)).filter(|it| it.activity == Some(Activity::Permission))
    });
    assert!(!shown.unseen, "the terminal shows it already");
    terminal.wait_for_text("touch x");
    terminal.hang_up();
}
