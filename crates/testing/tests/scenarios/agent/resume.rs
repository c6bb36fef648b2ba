//! Resuming a session in a new one: the agent loads the message history.

use coven_testing::agents::agent_with_traits;
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

/// Runs a session with one turn, ends it, and returns its id.
fn ended_session(home: &TestHome, harness: &str) -> String {
    let repo = home.make_repo("app");
    let id = home.open_as(&repo, harness).id;
    home.turn(&id, "say hello");
    home.cancel_session(&id);
    home.wait_for_end(&id);
    id
}

fn resume(harness: &str, id: &str) -> Value {
    json!({ "harness": harness, "channel": "acp", "resume": id })
}

#[test]
fn a_resumed_session_has_the_old_messages_marked_as_replayed_and_continues() {
    let home = TestHome::started_with_agent(json!({}));
    let first = ended_session(&home, "gemini");

    let second = home.launch_with(resume("gemini", &first[..8]));
    home.wait_for_rest(&second.id);
    home.turn(&second.id, "say again");

    assert_eq!(second.metadata["resumed_from"], json!(first));
    assert_eq!(second.repo_id, home.session(&first).repo_id);
    assert_eq!(home.agent_state(&second.id).agent_session_id, home.agent_state(&first).agent_session_id);
    let messages: Vec<(String, String, bool)> = home
        .messages(&second.id)
        .iter()
        .map(|it| (it.role.clone(), it.text().to_owned(), it.content["replayed"] == true))
        .collect();
    let line = |role: &str, text: &str, replayed| (role.to_owned(), text.to_owned(), replayed);
    assert_eq!(
        messages,
        [
            line("user", "say hello", true),
            line("agent", "hello", true),
            line("user", "say again", false),
            line("agent", "again", false)
        ]
    );
    check_invariants(&home);
}

#[test]
fn an_agent_that_can_only_resume_is_resumed_and_one_that_cannot_is_refused() {
    let home = TestHome::started_with_agent(
        json!({ "harnesses": { "resumes": agent_with_traits("resume_only"), "forgets": agent_with_traits("no_load") } }),
    );

    let first = ended_session(&home, "resumes");
    let second = home.launch_with(resume("resumes", &first)).id;
    home.wait_for_rest(&second);
    assert!(home.received_methods(&second).contains(&"session/resume".to_owned()));
    home.turn(&second, "say again");
    assert_eq!(home.agent_text(&second), "again");

    let first = ended_session(&home, "forgets");
    home.post("/api/v1/sessions", &resume("forgets", &first)).expect_error(409, "session_conflict");
    check_invariants(&home);
}

#[test]
fn only_an_existing_acp_session_can_be_resumed() {
    let home = TestHome::started_with_agent(json!({}));
    let terminal = home.run_to_end("say hello").id;

    let unknown = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    home.post("/api/v1/sessions", &resume("gemini", unknown)).expect_error(404, "session_not_found");
    home.post("/api/v1/sessions", &resume("gemini", &terminal)).expect_error(409, "session_conflict");
}
