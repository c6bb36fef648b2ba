//! AGENT-26 to AGENT-28: idle sessions end.

use std::fs;

use coven_testing::agents::{agent, counted};
use coven_testing::{EventFeed, TestHome, check_invariants, process, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Starts a home with this idle timeout in minutes.
fn home_with_timeout(minutes: &str) -> TestHome {
    let mut home = TestHome::with_agent(json!({}));
    home.env.push(("AGENT_SESSION_IDLE_TIMEOUT".to_owned(), minutes.to_owned()));
    home.start();
    home
}

#[test]
fn agent_26_a_session_without_activity_is_cancelled_at_its_agent_and_completed() {
    let home = home_with_timeout("0.04");
    let repo = home.make_repo("app");
    // A session with a pending permission request is not idle.
    let waiting = home.open(&repo).id;
    home.prompt(&waiting, "permit touch x");
    home.wait_for_request(&waiting);
    let id = home.open(&repo).id;
    home.prompt(&id, "say working ;; hang");
    home.wait_for_text(&id, "working");

    let ended = home.wait_for_agent_status(&id, "completed");

    assert_eq!(ended.metadata["reason"], "idle_timeout");
    home.wait_for_end(&id);
    wait_until("the processes have exited", || home.harness_processes(&id).is_empty());
    assert!(home.received_methods(&id).contains(&"session/cancel".to_owned()), "{:?}", home.received_methods(&id));
    assert_eq!(home.agent_session(&waiting).status, "active");
    // After the answer the turn ends, and the session becomes idle too.
    let request = home.wait_for_request(&waiting);
    assert_eq!(home.answer_request(&request.id, &json!({ "decision": "allow" })).status, 200);
    home.wait_for_text(&waiting, "chose:o1-allow_once");
    assert_eq!(home.wait_for_agent_status(&waiting, "completed").metadata["reason"], "idle_timeout");
    check_invariants(&home);
}

#[test]
fn agent_26_a_session_without_a_turn_ends_too_even_after_a_restart() {
    let home = home_with_timeout("0.03");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");

    home.kill_daemon();
    home.start();

    let ended = home.wait_for_agent_status(&id, "completed");
    assert_eq!(ended.metadata["reason"], "idle_timeout");
    check_invariants(&home);
}

/// Returns whether the holder can still write to the agent's stdin.
fn has_input(agent: u32, holder: u32) -> bool {
    let Ok(input) = fs::read_link(format!("/proc/{agent}/fd/0")) else { return false };
    let files = fs::read_dir(format!("/proc/{holder}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == input)
}

#[test]
fn an_idle_agent_reads_the_cancel_before_it_is_signalled() {
    let home = home_with_timeout("0.05");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");
    let mut feed = EventFeed::open(&home);

    // A stopped agent cannot read the cancellation.
    let agent = home.session(&id).pid.expect("is running");
    let holder = home.holder_of(&id).expect("is running");
    process::signal(agent, Signal::STOP);
    feed.next_of("session.idled_out");
    // The daemon closes the input after it has sent the cancellation. A signal would continue and end the agent instead.
    wait_until("the agent's input is closed", || !has_input(agent, holder) || !process::is_alive(agent));
    process::signal(agent, Signal::CONT);

    let ended = home.wait_for_end(&id);
    assert!(home.received_methods(&id).contains(&"session/cancel".to_owned()), "{:?}", home.received_methods(&id));
    assert_eq!((ended.status.as_str(), &ended.metadata["reason"]), ("completed", &json!("idle_timeout")));
    check_invariants(&home);
}

#[test]
fn agent_27_prompts_and_updates_keep_a_session_active() {
    let home = home_with_timeout("0.05");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let before = home.agent_session(&id).updated_at;

    // More than twice the timeout, with an update every 100 ms.
    let messages = home.turn(&id, "pace 65 10");

    let after = home.agent_session(&id);
    assert_eq!(messages.last().expect("message").role_and_content(), agent(&counted(65)));
    assert_eq!(after.status, "active");
    assert!(after.updated_at > before, "{before} {after:?}");
    home.turn(&id, "say again");
    let later = home.agent_session(&id);
    assert_eq!(later.status, "active");
    assert!(later.updated_at > after.updated_at);
    home.wait_for_agent_status(&id, "completed");
    check_invariants(&home);
}

#[test]
fn agent_28_the_timeout_is_read_at_start_with_thirty_minutes_by_default() {
    let home = TestHome::new();
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["agents"]["idleTimeoutMinutes"], 30.0);

    let mut home = TestHome::with_agent(json!({}));
    for bad in ["half an hour", "-1", "NaN", "inf"] {
        home.env = vec![("AGENT_SESSION_IDLE_TIMEOUT".to_owned(), bad.to_owned())];
        let message = home.coven(&["daemon", "start"]).expect_failure(2);
        assert!(message.contains("AGENT_SESSION_IDLE_TIMEOUT"), "{bad}: {message}");
    }
}

#[test]
fn agent_28_the_timeout_applies_to_every_session() {
    let traits = json!({ "harnesses": { "stringy": coven_testing::agents::agent_with_traits("string_ids") } });
    let mut home = TestHome::with_agent(traits);
    home.env.push(("AGENT_SESSION_IDLE_TIMEOUT".to_owned(), "0.01".to_owned()));
    home.start();
    let repo = home.make_repo("app");

    let ids = [home.open(&repo).id, home.open_as(&repo, "stringy").id, home.open(&repo).id];

    for id in &ids {
        assert_eq!(home.wait_for_agent_status(id, "completed").metadata["reason"], "idle_timeout");
    }
    check_invariants(&home);
}

#[test]
fn agent_28_the_environment_overrides_the_config_and_0_means_never() {
    let mut home = TestHome::with_agent(json!({ "agents": { "idleTimeoutMinutes": 0.01 } }));
    home.env.push(("AGENT_SESSION_IDLE_TIMEOUT".to_owned(), "0".to_owned()));
    home.start();
    let repo = home.make_repo("app");
    let (quiet, busy) = (home.open(&repo).id, home.open(&repo).id);

    // Twice the timeout of the config.
    home.turn(&busy, "pace 13 10");

    assert_eq!(home.agent_session(&quiet).status, "active");
    home.stop();
    home.env.pop();
    home.start();
    home.wait_for_agent_status(&quiet, "completed");
}
