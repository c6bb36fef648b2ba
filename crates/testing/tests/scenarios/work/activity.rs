//! Steps of full-screen agents: they end when the agent is idle, and wait while it is limited.

use std::fs;

use coven_domain::activity::Activity;
use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WaitCause;
use coven_testing::{TestHome, check_invariants, eventually};
use serde_json::json;

/// Starts a daemon with the fake agent as a harness with hooks, and a task whose full-screen agent runs this script.
fn started_with_task(script: &str, more: &str) -> (TestHome, String) {
    let home = TestHome::in_repository(json!({
        "harnesses": {
            "fake": { "program": "fake", "prompt": "afterDashes", "identity": "fake", "hooks": true },
        },
    }));
    home.install("fake");
    home.start();
    let text = format!(
        "steps:\n  - name: work\n    type: agent\n    harness: fake\n    channel: terminal\n    {more}\n    prompt: '{script}'\n"
    );
    let id = home.add_task_for("idle", &text);
    home.start_task(&id);
    (home, id)
}

fn session_of(home: &TestHome, task: &str) -> String {
    home.wait_for_agent(task).session_id.expect("an agent is a session").to_string()
}

#[test]
fn a_step_that_ends_on_idle_is_done_when_no_subagent_runs() {
    let script = r#"say before ;; hook working ;; hook background {"count":1} ;; say the result ;; hook idle ;; echo"#;
    let (home, id) = started_with_task(
        &format!("{script} ;; hang").replace(";; echo", r#";; ask go on? ;; hook background {"count":0}"#),
        "ends_on: idle",
    );
    let session = session_of(&home, &id);
    home.wait_for_output(&session, "go on?");
    // A subagent still works.
    assert_eq!(home.evidence(&session).activity, Some(Activity::Working));
    assert_eq!(home.task(&id).task.status, TaskState::InProgress);

    home.type_in(&session, "\r");

    home.wait_for_task(&id, TaskState::Closed);
    let ended = home.session(&session);
    assert_eq!((ended.status.as_str(), &ended.metadata["reason"]), ("completed", &json!("finished")));
    let step = &home.run_of(&id).steps[0];
    let output = step.output.as_deref().unwrap_or_default();
    assert!(step.error.is_none() && output.contains("before") && output.contains("the result"), "{output}");
    check_invariants(&home);
}

#[test]
fn a_step_that_ends_on_idle_survives_a_restart_of_the_daemon() {
    let (home, id) =
        started_with_task("hook working ;; say at work ;; ask go on? ;; hook idle ;; hang", "ends_on: idle");
    let session = session_of(&home, &id);
    home.wait_for_output(&session, "go on?");
    home.wait_for_evidence(&session, Activity::Working);
    home.kill_daemon();
    home.start();
    eventually("the daemon follows the session again", || {
        (home.evidence(&session).activity == Some(Activity::Working)).then_some(())
    });
    home.type_in(&session, "\r");
    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.session(&session).status, "completed");
    check_invariants(&home);
}

#[test]
fn by_default_an_idle_agent_does_not_end_its_step() {
    let (home, id) = started_with_task("hook working ;; hook idle ;; ask go on?", "timeout: 1h");
    let session = session_of(&home, &id);
    home.wait_for_evidence(&session, Activity::Idle);
    home.type_in(&session, "\r");
    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.session(&session).metadata.get("reason"), None, "it exited by itself");
    check_invariants(&home);
}

#[test]
fn a_limited_agent_does_not_use_up_the_timeout_of_its_step() {
    let script = r#"hook working ;; hook limited {"detail":"usage limit: try again in 2 hours"} ;; ask go on? ;; hook working ;; hook idle ;; hang"#;
    let (home, id) = started_with_task(script, "timeout: 2s\n    ends_on: idle");
    let session = session_of(&home, &id);
    let wait = eventually("the step waits", || home.task(&id).run?.waiting);
    assert_eq!((wait.cause, wait.detail.as_deref()), (WaitCause::Limit, Some("usage limit: try again in 2 hours")));
    assert_eq!(wait.until.expect("it says when").since(wait.since).as_secs(), 7200);
    // The record is stored a moment after the step sees the activity.
    let until = eventually("the record says when", || home.session(&session).activity_until);
    assert_eq!(Some(until), wait.until.map(|until| until.to_string()));
    let page = home.coven(&["task", "show", &id]).expect_success();
    assert!(page.contains("waits       for a limit to reset, 1h more (until "), "{page}");
    assert_eq!(home.run_of(&id).steps[0].status.as_str(), "waiting");
    eventually("the wait is longer than the timeout", || {
        (coven_holder::clock::now().since(wait.since).as_millis() > 2500).then_some(())
    });
    home.restart();
    assert_eq!(home.task(&id).run.and_then(|run| run.waiting), Some(wait));

    home.type_in(&session, "\r");

    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.agents_of(&id).len(), 1, "the agent continued by itself");
    check_invariants(&home);
}

#[test]
fn a_step_whose_limited_agent_exits_is_repeated() {
    let home = TestHome::in_repository(json!({
        "harnesses": { "limited": { "program": "limited-agent", "identity": "limited-agent", "hooks": true } },
    }));
    let ready = home.folder().join("ready");
    let script = format!(
        "#!/bin/sh\ntest -e {} && exit 0\necho '{{\"detail\":\"try again in 1 second\"}}' | \"$COVEN_PROGRAM\" hook limited limited\nexit 1\n",
        ready.display()
    );
    home.write_agent("limited-agent", &script);
    home.start();
    let text = "steps:\n  - { name: work, type: agent, harness: limited, channel: terminal, prompt: x }\n";
    let id = home.add_task_for("limited", text);
    home.start_task(&id);
    eventually("the step waits", || {
        home.agents_of(&id).first().filter(|it| it.status == AgentState::Failed)?;
        home.task(&id).run?.waiting.filter(|wait| wait.cause == WaitCause::Limit)
    });
    fs::write(&ready, "").expect("disk has space");
    home.wait_for_task(&id, TaskState::Closed);
    assert!(home.agents_of(&id).len() >= 2);
    check_invariants(&home);
}
