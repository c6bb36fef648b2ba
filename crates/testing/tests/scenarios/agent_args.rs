//! Arguments for an agent's program: from the command line, the config, REST, a task and a step of a workflow.

use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, eventually};
use serde_json::{Value, json};

use crate::chat::{home_with, spawn};

/// Starts a home in a Git repository, with an agent that prints its arguments and gets no hooks.
fn home_with_config(mut config: Value) -> TestHome {
    config["sessions"] = json!({ "hooks": false });
    let home = TestHome::in_repository(config);
    home.write_agent("codex", "#!/bin/sh\necho \"got:$*:\"\n");
    home.start();
    home
}

/// Returns the arguments of the agent of the task's first step.
fn started_with(home: &TestHome, task: &str) -> String {
    let session = eventually("the step has a session", || home.agents_of(task).pop()?.session_id);
    eventually("the agent prints its arguments", || {
        let log = home.log_text(&session.to_string());
        Some(log.split_once("got:")?.1.split_once(':')?.0.to_owned())
    })
}

#[test]
fn arguments_after_dashes_are_passed_to_the_agent_before_the_prompt() {
    let home = home_with_config(json!({}));
    let ran = home.coven(&["run", "codex", "fix", "it", "--", "--model", "opus 1"]).expect_success();
    assert!(ran.contains("got:--disable daemon_auto_start --model opus 1 -- fix it:"), "{ran}");
    let ran = home.coven(&["run", "codex", "--prompt", "--help me"]).expect_success();
    assert!(ran.contains("got:--disable daemon_auto_start -- --help me:"), "{ran}");
    let ran = home.coven(&["run", "--", "sh", "-c", "echo any command"]).expect_success();
    assert!(ran.contains("any command"), "{ran}");
}

#[test]
fn arguments_from_the_config_are_added_to_a_built_in_harness() {
    let home = home_with_config(json!({ "harnesses": { "codex": { "args": ["--model", "opus"] } } }));
    let ran = home.coven(&["run", "codex", "hello", "--", "-x"]).expect_success();
    assert!(ran.contains("got:--disable daemon_auto_start --model opus -x -- hello:"), "{ran}");
    let task: Value = home.json(&["task", "add", "Do it", "--harness", "codex", "--json"]);
    let id = task["id"].as_str().expect("an id").to_owned();
    home.start_task(&id);
    assert_eq!(started_with(&home, &id), "exec --json --skip-git-repo-check - --model opus");
}

#[test]
fn rest_accepts_arguments_for_a_harness_but_not_for_a_command() {
    let home = home_with_config(json!({}));
    let request = json!({ "harness": "codex", "prompt": "hello", "args": ["--model", "opus"], "cwd": home.project() });
    let session: SessionRecord = home.post("/api/v1/sessions", &request).json();
    home.wait_for_output(&session.id, "got:--disable daemon_auto_start --model opus -- hello:");
    for request in [json!({ "argv": ["true"], "args": ["x"] }), json!({ "harness": "codex", "args": ["a\0b"] })] {
        let answer = home.post("/api/v1/sessions", &request);
        assert_eq!(answer.status, 400, "{request}");
    }
}

#[test]
fn a_task_and_a_step_have_arguments_for_their_agent() {
    let home = home_with_config(json!({}));
    home.write_workflow(
        "two",
        "steps:\n  - { name: a, type: agent, prompt: hello, args: ['--title={{ task.title }}'] }\n",
    );
    let add = ["task", "add", "T", "--harness", "codex", "--workflow", "two", "--json", "--", "--model", "opus"];
    let task: Value = home.json(&add);
    assert_eq!(task["args"], json!(["--model", "opus"]));
    let id = task["id"].as_str().expect("an id").to_owned();
    home.start_task(&id);
    assert_eq!(started_with(&home, &id), "exec --json --skip-git-repo-check - --title=T --model opus");

    let task: Value = home.json(&["task", "add", "T", "--harness", "codex", "--json"]);
    let id = task["id"].as_str().expect("an id").to_owned();
    home.coven(&["task", "start", &id, "--", "--model", "haiku"]).expect_success();
    assert_eq!(started_with(&home, &id), "exec --json --skip-git-repo-check - --model haiku");
    assert_eq!(home.task(&id).task.args, ["--model", "haiku"]);
}

#[test]
fn a_conversation_passes_arguments_to_its_tool() {
    let home = home_with("cat > /dev/null; echo \"got $*\"");
    let ran = spawn(&home, &["-i", "--", "--model", "opus"], "hello\n").expect_success();
    assert!(ran.contains("got -p --model opus"), "{ran}");
}
