//! AGENT-04 to AGENT-07: active, completed, cancelled, error.

use coven_domain::message::Activity;
use coven_testing::agents::agent_path;
use coven_testing::{TestHome, check_invariants, wait_until};
use serde_json::json;

/// Asserts that a prompt is refused and adds no message.
#[track_caller]
fn assert_prompt_refused(home: &TestHome, id: &str) {
    let before = home.messages(id);
    let answer = home.post(&agent_path(id, "/prompt"), &json!({ "text": "say more" }));
    answer.expect_error(409, "session_not_live");
    assert_eq!(home.messages(id), before);
}

#[test]
fn agent_04_a_session_with_a_running_agent_is_active_and_accepts_prompts() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");

    let session = home.open(&repo);

    assert_eq!(session.status, "active");
    let first = home.wait_for_rest(&session.id);
    assert_eq!(first.agent.and_then(|it| it.name).as_deref(), Some("fake-agent"));
    assert_eq!(home.harness_processes(&session.id).len(), 1);
    let before = home.agent_session(&session.id);
    home.turn(&session.id, "say hello");
    let after = home.agent_session(&session.id);
    assert_eq!(after.status, "active");
    assert!(after.updated_at > before.updated_at, "{before:?} {after:?}");
    assert_eq!((after.created_at, after.repo_id), (session.created_at, Some(repo.id)));
    // The same session in `/api/v1`.
    let same = home.session(&session.id);
    assert_eq!((same.channel.as_str(), same.status.as_str()), ("acp", "running"));
    check_invariants(&home);
}

#[test]
fn agent_05_a_finished_session_is_completed() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");
    let before = home.agent_session(&id);

    assert_eq!(home.act(&id, "finish").status, 200);
    home.wait_for_end(&id);

    let after = home.agent_session(&id);
    assert_eq!((after.status.as_str(), &after.metadata["reason"]), ("completed", &json!("finished")));
    assert!(after.updated_at > before.updated_at);
    assert_prompt_refused(&home, &id);
    assert_eq!(home.agent_session(&id).updated_at, after.updated_at, "the final time stays");
    home.restart();
    assert_eq!(home.agent_session(&id), after);
    check_invariants(&home);
}

#[test]
fn agent_06_a_cancelled_session_has_a_reason_and_no_process() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "say working ;; hang");
    home.wait_for_text(&id, "working");

    let answer = home.cancel_session(&id);

    assert_eq!(answer.status, 200, "{answer:?}");
    home.wait_for_end(&id);
    assert_eq!(home.agent_session(&id).status, "cancelled");
    let messages = home.messages(&id);
    let cancelled = messages.iter().find(|it| it.kind() == "cancelled").expect("message");
    assert_eq!(cancelled.role, "system");
    assert!(cancelled.content["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{cancelled:?}");
    assert!(home.harness_processes(&id).is_empty());
    assert_eq!(home.agent_state(&id).activity, Activity::Ended);
    assert_prompt_refused(&home, &id);
    check_invariants(&home);
}

#[test]
fn agent_07_a_crash_is_a_final_error_with_details() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;

    home.prompt(&id, "say so far so good ;; crash 3");
    home.wait_for_end(&id);

    let session = home.agent_session(&id);
    assert_eq!((session.status.as_str(), home.session(&id).exit_code), ("error", Some(3)));
    let messages = home.messages(&id);
    let details = messages.iter().find(|it| it.kind() == "error").expect("message");
    assert_eq!(details.role, "system");
    let message = details.content["message"].as_str().expect("text");
    assert!(message.contains('3'), "the exit code: {message}");
    assert!(
        messages.iter().any(|it| it.role == "agent" && it.text() == "so far so good" && it.content["partial"] == false)
    );
    assert_prompt_refused(&home, &id);
    home.cancel_session(&id).expect_error(409, "session_not_live");
    home.restart();
    assert_eq!(home.agent_session(&id), session, "a restart does not revive it");
    wait_until("all processes have exited", || home.harness_processes(&id).is_empty());
    check_invariants(&home);
}
