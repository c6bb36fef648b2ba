//! `coven harness rules`, and rules in the config.

use std::fs;

use coven_domain::activity::Activity;
use coven_testing::TestHome;
use serde_json::{Value, json};

use super::all_rules;

const RECORDING: &[u8] = b"\x1b]2;* build\x07hello\r\n\x1b]9;Approval requested: ls\x07\x1b[2J\x1b[HDo you trust it?";

#[test]
fn a_recording_shows_every_match_with_its_offset() {
    let home = TestHome::new();
    home.configure(coven_testing::evidence::with_rules(&all_rules()));
    let file = home.project().join("recording");
    fs::write(&file, RECORDING).expect("disk has space");

    let found: Value = home.json(&["harness", "rules", "test", "recording", "--harness", "fake", "--json"]);
    let expected = json!([
        { "offset": 12, "on": "title", "rule": "spinner", "means": "working", "detail": "* build" },
        { "offset": 46, "on": "notification", "rule": "approval", "means": "permission", "detail": "Approval requested: ls" },
        { "offset": 69, "on": "screen", "rule": "trust", "means": "question", "detail": "asks: Do you trust it?" },
    ]);
    assert_eq!(found, json!({ "harness": "fake", "matches": expected }));
    let narrow = ["harness", "rules", "test", "recording", "--harness", "fake", "--rows", "5", "--cols", "10"];
    let text = home.coven(&narrow).expect_success();
    assert!(text.contains("spinner") && !text.contains("trust"), "the dialog does not fit on one line: {text}");
    let message = home.coven(&["harness", "rules", "test", "recording"]).expect_failure(2);
    assert!(message.contains("--harness"), "{message}");
    let message = home.coven(&["harness", "rules", "test", "recording", "--harness", "nobody"]).expect_failure(3);
    assert!(message.contains("fake"), "{message}");
    assert!(home.daemons().is_empty(), "a file needs no daemon");
}

#[test]
fn the_log_of_a_session_is_a_recording() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home.launch_fake(r"raw \e]2;* build\a ;; raw Do you trust it?\n ;; ask 1 ;; raw \e[2J\e[Hwelcome").id;
    home.wait_for_evidence(&id, Activity::Question);
    home.type_in(&id, "\r");
    home.wait_for_end(&id);

    let found: Value = home.json(&["harness", "rules", "test", &id[..8], "--json"]);
    let means: Vec<&str> =
        found["matches"].as_array().expect("a list").iter().filter_map(|it| it["means"].as_str()).collect();
    assert!(means.contains(&"working"), "{found}");
    let none = home.coven(&["harness", "rules", "test", &id, "--harness", "shell"]).expect_success();
    assert!(none.contains("No rule"), "{none}");
}

#[test]
fn a_rule_of_the_config_replaces_a_built_in_one() {
    let own = json!({ "name": "prompt", "on": "shell", "means": "question", "starts": ["prompt"] });
    let home = TestHome::new();
    home.configure(json!({ "harnesses": { "shell": { "rules": [own] } } }));
    let listed: Value = home.json(&["harness", "rules", "list", "shell", "--json"]);
    let names: Vec<(&str, &str)> = listed["rules"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| Some((it["name"].as_str()?, it["means"].as_str()?)))
        .collect();
    assert_eq!(names, [("prompt", "question"), ("command", "working")]);
    assert!(home.coven(&["harness", "rules", "list", "shell"]).expect_success().contains("tested with"));

    home.start();
    let id = home.launch_with(json!({ "harness": "shell" })).id;
    home.type_in(&id, "printf '\\033]133;A\\007'\n");
    home.wait_for_evidence(&id, Activity::Question);
}

#[test]
fn a_wrong_rule_is_reported_with_its_name() {
    let home = TestHome::new();
    let wrong = json!([{ "name": "trust", "on": "screen", "means": "question" }]);
    home.configure(coven_testing::evidence::with_rules(&wrong));
    let message = home.coven(&["config", "check"]).expect_failure(2);
    assert!(message.contains("harnesses.fake") && message.contains("rules: trust"), "{message}");
}
