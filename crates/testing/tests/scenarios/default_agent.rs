//! The default agent: the same for sessions, tasks and conversations.

use coven_testing::{TestHome, eventually};
use serde_json::{Value, json};

use crate::chat::{lines, spawn};

/// Returns the default harness of a session, of a task's step and of a conversation.
fn chosen(home: &TestHome) -> [String; 3] {
    let word = |value: &Value| value.as_str().expect("a harness").to_owned();
    let session: Value = home.json(&["run", "--json"]);
    let task: Value = home.json(&["task", "add", "Do it", "--json"]);
    let id = word(&task["id"]);
    home.start_task(&id);
    let step = eventually("the step has a session", || home.agents_of(&id).pop()?.session_id);
    spawn(home, &["-i", "--session", "s"], "").expect_success();
    [word(&session["harness"]), home.session(&step.to_string()).harness, word(&lines(home, "s")[0]["harness"])]
}

/// Starts a home in a Git repository, with agents that exit immediately.
fn home_with_agents(names: &[&str], config: Value) -> TestHome {
    let home = TestHome::in_repository(config);
    names.iter().for_each(|name| home.write_agent(name, "#!/bin/sh\nexit 0\n"));
    home.start();
    home
}

#[test]
fn sessions_tasks_and_conversations_share_the_configured_default_agent() {
    let home = home_with_agents(&["codex", "gemini"], json!({ "defaultHarness": "gemini" }));
    assert_eq!(chosen(&home), ["gemini", "gemini", "gemini"]);
}

#[test]
fn without_a_configured_default_it_is_the_first_installed_agent() {
    let home = home_with_agents(&["codex", "gemini"], json!({}));
    assert_eq!(chosen(&home), ["claude", "claude", "claude"]);
    let home = TestHome::in_repository(json!({}));
    std::fs::remove_file(home.agents().join("claude")).expect("exists");
    home.write_agent("codex", "#!/bin/sh\nexit 0\n");
    home.start();
    assert_eq!(chosen(&home), ["codex", "codex", "codex"]);
}

#[test]
fn the_agent_of_an_older_config_is_the_default_for_all() {
    let home = home_with_agents(&["codex"], json!({ "agents": { "harness": "codex" } }));
    assert_eq!(chosen(&home), ["codex", "codex", "codex"]);
}

#[test]
fn without_an_installed_agent_the_message_has_advice() {
    let home = TestHome::new();
    std::fs::remove_file(home.agents().join("claude")).expect("exists");
    let message = home.coven(&["run", "--json"]).expect_failure(2);
    assert!(message.contains("claude, codex") && message.contains("defaultHarness"), "{message}");
}

#[test]
fn a_config_with_the_unused_conversations_block_is_accepted_with_a_warning() {
    let home = TestHome::new();
    home.configure(json!({ "conversations": { "maxTokens": 5 } }));
    let checked = home.coven(&["config", "check"]);
    assert!(checked.stderr.contains("conversations: this setting has no effect"), "{}", checked.stderr);
    checked.expect_success();
    home.start();
}
