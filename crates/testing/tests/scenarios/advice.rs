//! Messages name the problem, and their advice can be followed.

use std::fs;

use coven_testing::{TestHome, TestTerminal};
use serde_json::{Value, json};

#[test]
fn export_refuses_a_file_name_with_the_extension_of_another_format() {
    let home = TestHome::started();
    let id = home.run_to_end("say hello").id;
    let message = home.coven(&["export", &id, "--output", "x.gif"]).expect_failure(2);
    assert!(message.contains(".gif") && message.contains(".cast") && message.contains("--format"), "{message}");
    assert!(!home.project().join("x.gif").exists());
    home.coven(&["export", &id, "--output", "x.gif", "--format", "text"]).expect_success();
    home.coven(&["export", &id, "--output", "plain"]).expect_success();
}

#[test]
fn a_file_given_as_working_folder_is_called_a_file() {
    let home = TestHome::started();
    fs::write(home.project().join("file"), "").expect("room on disk");
    let message = home.coven(&["run", "claude", "--cwd", "file"]).expect_failure(2);
    assert!(message.contains("is not a folder") && !message.contains("does not exist"), "{message}");
}

#[test]
fn a_program_that_does_not_exist_is_not_called_a_harness() {
    let home = TestHome::started();
    let message = home.coven(&["run", "--", "nosuchprog", "x"]).expect_failure(2);
    assert!(message.contains("the program \"nosuchprog\" was not found") && !message.contains("harness"), "{message}");
}

#[test]
fn an_ambiguous_prefix_is_explained_once() {
    let home = TestHome::started();
    let mut first = String::new();
    // Two of seventeen ids have the same first digit.
    for _ in 0..17 {
        let made: Value = home.json(&["run", "claude", "--detach", "--json"]);
        let letter = made["id"].as_str().expect("an id")[..1].to_owned();
        if first.contains(&letter) {
            let message = home.coven(&["show", &letter]).expect_failure(2);
            assert_eq!(message.to_lowercase().matches("use a longer prefix").count(), 1, "{message}");
            return;
        }
        first.push_str(&letter);
    }
    panic!("two of seventeen ids have the same first digit");
}

#[test]
fn events_after_a_future_number_are_not_called_expired() {
    let home = TestHome::started();
    home.run_to_end("say hello");
    let ran = home.coven(&["events", "--since", "999999"]);
    assert!(ran.stderr.contains("event 999999 does not exist yet") && !ran.stderr.contains("expired"), "{ran:?}");
    ran.expect_success();
}

#[test]
fn doctor_reports_a_missing_config_and_uses_the_singular_for_one_session() {
    let home = TestHome::new();
    fs::remove_file(home.path().join("config.json")).expect("existed");
    home.start();
    let id = home.launch("hang").id;
    let shown = home.coven(&["doctor"]).stdout;
    let config = shown.lines().find(|line| line.contains(" config ")).expect("a finding");
    assert!(config.starts_with("note") && config.contains("defaults"), "{config}");
    assert!(shown.contains("1 session running"), "{shown}");
    home.kill(&id);
}

#[test]
fn the_viewer_of_a_killed_session_reports_the_kill_and_not_an_exit_code() {
    let home = TestHome::started();
    let id = home
        .launch_with(json!({ "argv": ["sh", "-c", "trap 'exit 143' TERM; echo up; while :; do sleep 0.05; done"] }))
        .id;
    home.wait_for_output(&id, "up");
    let mut terminal = TestTerminal::open(&home, &["attach", &id]);
    terminal.wait_for_text("up");
    home.kill(&id);
    terminal.wait();
    terminal.wait_for_text("[session ended: killed]");
}

#[test]
fn a_finished_session_was_ended_on_request_and_did_not_fail() {
    let home = TestHome::started();
    let id = home.launch("hang").id;
    let shown = home.coven(&["finish", &id]).expect_success();
    assert!(shown.contains("(completed, ended on request)"), "{shown}");
}

#[test]
fn a_task_for_a_harness_that_does_not_exist_is_refused() {
    let home = TestHome::started();
    let message = home.coven(&["task", "add", "Fix it", "--harness", "cluade"]).expect_failure(2);
    assert!(message.contains("cluade") && message.contains("claude"), "{message}");
    let made: Value = home.json(&["task", "add", "Fix it", "--json"]);
    let id = made["id"].as_str().expect("an id");
    home.coven(&["task", "edit", id, "--harness", "cluade"]).expect_failure(2);
    assert_eq!(home.task(id).task.harness, None);
}

#[test]
fn verbs_of_other_programs_are_refused_with_the_coven_verb() {
    let home = TestHome::new();
    for (word, verb) in [("list", "coven sessions"), ("status", "coven daemon status"), ("new", "coven run")] {
        let message = home.coven(&[word]).expect_failure(2);
        assert!(message.contains(verb), "{message}");
    }
}
