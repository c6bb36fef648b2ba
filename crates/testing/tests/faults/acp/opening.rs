//! Agents that do not get as far as a session: a bounded wait, a clear error, no process left.

use std::fs;

use coven_testing::agents::behaving;
use coven_testing::{TestHome, wait_until};
use serde_json::json;

use super::Scene;

/// Opens a session that must fail; gives what was said about it.
#[track_caller]
fn failed_opening(scene: &Scene, harness: &str) -> String {
    let id = scene.open_as(harness);
    // A prompt that came in the meantime is kept and never answered.
    let _ = scene.home.try_request(
        hyper::Method::POST,
        &coven_testing::agents::agent_path(&id, "/prompt"),
        Some(json!({ "text": "say hello" }).to_string().into_bytes()),
    );
    scene.home.wait_for_agent_status(&id, "error");
    scene.home.wait_for_end(&id);
    wait_until("its process is ended", || scene.home.harness_processes(&id).is_empty());
    assert_eq!(scene.home.agent_text(&id), "");
    scene.error_of(&id)
}

#[test]
fn an_agent_that_never_answers_initialize_fails_in_time() {
    let scene = Scene::with(&["silent", "silent_new"], json!({ "handshakeSeconds": 1.0 }));

    for harness in ["silent", "silent_new"] {
        let message = failed_opening(&scene, harness);
        assert!(message.contains("answer"), "{harness}: {message}");
    }

    scene.is_sound();
}

#[test]
fn a_silent_agent_that_ignores_sigterm_is_ended_too() {
    let home = TestHome::started_with_agent(json!({
        "agents": { "handshakeSeconds": 0.5 },
        "harnesses": { "stubborn": behaving("silent,ignore_sigterm,ignore_eof") },
    }));
    let repo = home.make_repo("app");

    let id = home.open_as(&repo, "stubborn").id;

    home.wait_for_agent_status(&id, "error");
    wait_until("its process is ended", || home.harness_processes(&id).is_empty());
    coven_testing::check_invariants(&home);
}

#[test]
fn an_agent_that_only_writes_to_stderr_fails_in_time() {
    let scene = Scene::with(&["stderr_only"], json!({ "handshakeSeconds": 1.0 }));

    failed_opening(&scene, "stderr_only");

    scene.is_sound();
}

#[test]
fn an_agent_that_exits_at_once_is_an_error_with_its_exit_code() {
    let scene = Scene::new(&["exits_at_once"]);

    let id = scene.open_as("exits_at_once");
    scene.home.wait_for_end(&id);

    assert_eq!(scene.home.agent_session(&id).status, "error");
    assert_eq!(scene.home.session(&id).exit_code, Some(3));
    let message = scene.error_of(&id);
    assert!(message.contains('3'), "{message}");
    scene.is_sound();
}

#[test]
fn an_agent_of_another_version_is_refused_with_the_version() {
    let scene = Scene::new(&["wrong_version"]);

    let message = failed_opening(&scene, "wrong_version");

    assert!(message.contains("99"), "{message}");
    scene.is_sound();
}

#[test]
fn what_an_agent_prints_before_it_speaks_json_is_passed_over() {
    let scene = Scene::new(&["garbage_first"]);
    let id = scene.open_as("garbage_first");

    scene.home.turn(&id, "say hello");

    assert_eq!(scene.home.agent_text(&id), "hello");
    scene.is_sound();
}

#[test]
fn an_agent_that_asks_for_authentication_gets_its_first_method_or_the_configured_one() {
    let mut configured = behaving("auth");
    configured["acpAuth"] = json!("browser");
    let home = TestHome::started_with_agent(json!({ "harnesses": { "auth": behaving("auth"), "other": configured } }));
    let repo = home.make_repo("app");

    for (harness, method) in [("auth", "token"), ("other", "browser")] {
        let id = home.open_as(&repo, harness).id;
        home.turn(&id, "auth");
        assert_eq!(home.agent_text(&id), format!("auth={method}"));
        let asked = home.received_methods(&id);
        let opening = ["initialize", "session/new", "authenticate", "session/new"];
        assert_eq!(asked[..4], opening.map(str::to_owned), "{asked:?}");
    }
    coven_testing::check_invariants(&home);
}

#[test]
fn an_agent_whose_authentication_fails_is_an_error_that_says_so() {
    let scene = Scene::new(&["auth_never"]);

    let message = failed_opening(&scene, "auth_never");

    assert!(message.to_lowercase().contains("authenticat"), "{message}");
    scene.is_sound();
}

#[test]
fn a_program_that_is_not_installed_is_refused_before_any_record_exists() {
    let home =
        TestHome::started_with_agent(json!({ "harnesses": { "gone": { "program": "no-such-agent", "acpArgs": [] } } }));
    let repo = home.make_repo("app");

    let answer = home.post("/api/sessions", &json!({ "repoId": repo.id, "harness": "gone" }));

    answer.refused(400, "harness_not_installed");
    assert_eq!(home.agent_sessions("").total, 0);
}

#[test]
fn a_session_cancelled_while_it_opens_is_cancelled() {
    let mut home = TestHome::with_agent(json!({}));
    let gate = home.project().join("gate");
    home.env.push(("FAKE_ACP_GATE".to_owned(), gate.display().to_string()));
    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "say never");

    assert_eq!(home.cancel_session(&id).status, 200);
    home.wait_for_end(&id);
    fs::write(&gate, "").expect("room on disk");

    assert_eq!(home.agent_session(&id).status, "cancelled");
    assert_eq!(home.received_prompts(&id), Vec::<String>::new());
    coven_testing::check_invariants(&home);
}
