//! Agents that fail to open a session: a bounded wait, a clear error, and no remaining process.

use std::fs;

use coven_testing::agents::agent_with_traits;
use coven_testing::{TestHome, wait_until};
use serde_json::json;

use super::Fixture;

/// Opens a session that must fail and returns its error message.
#[track_caller]
fn open_with_failure(fixture: &Fixture, harness: &str) -> String {
    let id = fixture.open_as(harness);
    // A prompt sent during the handshake is stored and never answered.
    let _ = fixture.home.try_request(
        hyper::Method::POST,
        &coven_testing::agents::agent_path(&id, "/prompt"),
        Some(json!({ "text": "say hello" }).to_string().into_bytes()),
    );
    fixture.home.wait_for_agent_status(&id, "error");
    fixture.home.wait_for_end(&id);
    wait_until("the agent process has exited", || fixture.home.harness_processes(&id).is_empty());
    assert_eq!(fixture.home.agent_text(&id), "");
    fixture.error_of(&id)
}

#[test]
fn an_agent_that_never_answers_initialize_times_out() {
    let fixture = Fixture::with(&["silent", "silent_new"], json!({ "handshakeSeconds": 4.0 }));

    for harness in ["silent", "silent_new"] {
        let message = open_with_failure(&fixture, harness);
        assert!(message.contains("did not open a session within 4 seconds"), "{harness}: {message}");
    }

    fixture.assert_others_unaffected();
}

#[test]
fn a_silent_agent_that_ignores_sigterm_is_killed() {
    let home = TestHome::started_with_agent(json!({
        "agents": { "handshakeSeconds": 0.5 },
        "harnesses": { "stubborn": agent_with_traits("silent,ignore_sigterm,ignore_eof") },
    }));
    let repo = home.make_repo("app");

    let id = home.open_as(&repo, "stubborn").id;

    home.wait_for_agent_status(&id, "error");
    wait_until("the agent process has exited", || home.harness_processes(&id).is_empty());
    coven_testing::check_invariants(&home);
}

#[test]
fn an_agent_that_only_writes_to_stderr_times_out() {
    let fixture = Fixture::with(&["stderr_only"], json!({ "handshakeSeconds": 4.0 }));

    open_with_failure(&fixture, "stderr_only");

    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_that_exits_immediately_is_an_error_with_its_exit_code() {
    let fixture = Fixture::new(&["exits_at_once"]);

    let id = fixture.open_as("exits_at_once");
    fixture.home.wait_for_end(&id);

    assert_eq!(fixture.home.agent_session(&id).status, "error");
    assert_eq!(fixture.home.session(&id).exit_code, Some(3));
    let message = fixture.error_of(&id);
    assert!(message.contains('3'), "{message}");
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_with_another_protocol_version_is_refused_with_the_version() {
    let fixture = Fixture::new(&["wrong_version"]);

    let message = open_with_failure(&fixture, "wrong_version");

    assert!(message.contains("99"), "{message}");
    fixture.assert_others_unaffected();
}

#[test]
fn output_before_the_first_json_message_is_ignored() {
    let fixture = Fixture::new(&["garbage_first"]);
    let id = fixture.open_as("garbage_first");

    fixture.home.turn(&id, "say hello");

    assert_eq!(fixture.home.agent_text(&id), "hello");
    fixture.assert_others_unaffected();
}

#[test]
fn authentication_uses_the_first_method_or_the_configured_one() {
    let mut configured = agent_with_traits("auth");
    configured["acpAuth"] = json!("browser");
    let home = TestHome::started_with_agent(
        json!({ "harnesses": { "auth": agent_with_traits("auth"), "other": configured } }),
    );
    let repo = home.make_repo("app");

    for (harness, method) in [("auth", "token"), ("other", "browser")] {
        let id = home.open_as(&repo, harness).id;
        home.turn(&id, "auth");
        assert_eq!(home.agent_text(&id), format!("auth={method}"));
        let received = home.received_methods(&id);
        let opening = ["initialize", "session/new", "authenticate", "session/new"];
        assert_eq!(received[..4], opening.map(str::to_owned), "{received:?}");
    }
    coven_testing::check_invariants(&home);
}

#[test]
fn failed_authentication_is_reported_as_the_error() {
    let fixture = Fixture::new(&["auth_never"]);

    let message = open_with_failure(&fixture, "auth_never");

    assert!(message.to_lowercase().contains("authenticat"), "{message}");
    fixture.assert_others_unaffected();
}

#[test]
fn a_program_that_is_not_installed_is_refused_before_any_record_exists() {
    let home =
        TestHome::started_with_agent(json!({ "harnesses": { "gone": { "program": "no-such-agent", "acpArgs": [] } } }));
    let repo = home.make_repo("app");

    let answer = home.post("/api/sessions", &json!({ "repoId": repo.id, "harness": "gone" }));

    answer.expect_error(400, "harness_not_installed");
    assert_eq!(home.agent_sessions("").total, 0);
}

#[test]
fn a_session_can_be_cancelled_during_the_handshake() {
    let mut home = TestHome::with_agent(json!({}));
    let gate = home.project().join("gate");
    home.env.push(("FAKE_ACP_GATE".to_owned(), gate.display().to_string()));
    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "say never");

    assert_eq!(home.cancel_session(&id).status, 200);
    home.wait_for_end(&id);
    fs::write(&gate, "").expect("disk has space");

    assert_eq!(home.agent_session(&id).status, "cancelled");
    assert_eq!(home.received_prompts(&id), Vec::<String>::new());
    coven_testing::check_invariants(&home);
}
