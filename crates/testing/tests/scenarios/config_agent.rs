//! Agents defined in the config: in a terminal, in print mode, over ACP, and based on another agent.

use coven_testing::{TestHome, eventually};
use serde_json::{Value, json};

use crate::chat::{lines, spawn};

/// Starts a home in a Git repository, with the fake agent under this name and these harnesses in the config.
fn home_with_harnesses(program: &str, harnesses: Value) -> TestHome {
    let home = TestHome::in_repository(json!({ "harnesses": harnesses }));
    home.install(program);
    home.start();
    home
}

#[test]
fn an_agent_from_the_config_runs_over_every_channel() {
    let mine = json!({
        "program": "my-agent", "prompt": "afterDashes", "identity": "my-agent", "acpArgs": ["--acp"],
        "print": { "args": ["-p"] },
    });
    let mut home = home_with_harnesses("my-agent", json!({ "mine": mine }));

    let ran = home.coven(&["run", "mine", "say in a terminal"]).expect_success();
    assert!(ran.contains("in a terminal"), "{ran}");

    let session = home.launch_with(json!({ "harness": "mine", "channel": "acp", "prompt": "say over ACP" }));
    home.wait_for_text(&session.id, "over ACP");

    home.env.push(("AURORA_SPAWN_TOOL".to_owned(), "mine".to_owned()));
    spawn(&home, &["-i", "--session", "s"], "say printed\n").expect_success();
    let entries = lines(&home, "s");
    assert_eq!(entries[0]["harness"], "mine");
    assert!(entries.iter().any(|line| line["content"] == "printed"), "{entries:?}");
}

#[test]
fn a_wrapper_can_be_based_on_a_built_in_agent() {
    let wrapped =
        json!({ "like": "claude", "program": "my-claude", "args": ["--model", "opus"], "env": { "MODE": "quiet" } });
    let home = TestHome::in_repository(json!({ "harnesses": { "wrapped": wrapped }, "sessions": { "hooks": false } }));
    home.write_agent("my-claude", "#!/bin/sh\necho \"got:$MODE $*:\"\n");
    home.start();

    let ran = home.coven(&["run", "wrapped", "fix it"]).expect_success();
    assert!(ran.contains("got:quiet --model opus -- fix it:"), "{ran}");

    let task: Value = home.json(&["task", "add", "Do it", "--harness", "wrapped", "--json"]);
    let id = task["id"].as_str().expect("an id").to_owned();
    home.start_task(&id);
    let step = eventually("the step has a session", || home.agents_of(&id).pop()?.session_id);
    let flags = "-p --output-format stream-json --verbose --include-partial-messages";
    home.wait_for_output(&step.to_string(), &format!("got:quiet {flags} --allowedTools=Edit(./**) --model opus:"));
}

#[test]
fn an_agent_based_on_an_unknown_one_is_reported_with_its_key() {
    let home = TestHome::new();
    home.configure(json!({ "harnesses": { "mine": { "like": "hal9000" } } }));
    let message = home.coven(&["config", "check"]).expect_failure(2);
    assert!(message.contains("harnesses.mine") && message.contains("like: \"hal9000\""), "{message}");
}

#[test]
fn an_agent_without_a_terminal_is_listed_and_refused_with_the_reason() {
    let home = TestHome::started();
    home.install("cline");
    let listed: Value = home.json(&["harness", "list", "--json"]);
    let ids: Vec<&str> =
        listed["items"].as_array().expect("a list").iter().filter_map(|it| it["id"].as_str()).collect();
    assert!(ids.contains(&"goose") && !ids.contains(&"cursor"), "{ids:?}");
    let cline = listed["items"].as_array().expect("a list").iter().find(|it| it["id"] == "cline").expect("is listed");
    assert_eq!(cline["argv"].as_array().and_then(|argv| argv.last()), Some(&json!("--acp")));
    let message = home.coven(&["run", "cline", "fix it"]).expect_failure(2);
    assert!(message.contains("in a terminal") && message.contains("harnesses.cline.prompt"), "{message}");
}
