//! Steps of tasks that wait: for their launch, and for a limit of their agent.

use std::fs;

use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WaitCause;
use coven_testing::{TestHome, check_invariants, eventually};
use serde_json::json;

#[test]
fn the_agent_of_a_task_waits_for_its_launch_without_using_up_its_timeout() {
    let home = TestHome::in_repository(json!({ "limits": { "liveAgents": 1 } }));
    home.start();
    let first = home.launch("hang").id;
    // The step would time out while it waits.
    let id = home.add_task_for(
        "quick",
        "steps:\n  - { name: work, type: agent, timeout: 1s, channel: print, prompt: 'say done' }\n",
    );
    home.start_task(&id);
    let wait = eventually("the step waits", || home.task(&id).run?.waiting);
    assert_eq!((wait.cause, wait.until), (WaitCause::Launch, None));
    assert_eq!(
        wait.detail.as_deref(),
        Some("place 1 in the launch queue: the limit of live agents is reached (1 of 1)")
    );
    let page = home.coven(&["task", "show", &id]).expect_success();
    assert!(page.contains("waits       for its launch: place 1 in the launch queue"), "{page}");
    let board = home.coven(&["board", "--once"]).expect_success();
    assert!(board.contains("waits for its launch"), "{board}");
    assert_eq!(home.agents_of(&id)[0].status, AgentState::Starting);

    // The wait survives a crash of the daemon.
    home.kill_daemon();
    home.start();
    let waited = eventually("the wait is longer than the timeout", || {
        let wait = home.task(&id).run?.waiting?;
        (coven_holder::clock::now().since(wait.since).as_millis() > 1500).then_some(wait)
    });
    assert_eq!((waited.cause, waited.since), (wait.cause, wait.since));
    home.kill(&first);

    let task = home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(task.run.expect("a run").waiting, None);
    assert_eq!(home.run_of(&id).steps[0].output.as_deref().map(str::trim), Some("done"));
    let kinds: Vec<String> = home.events_since("0").items.into_iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&"workflow.waiting".to_owned()) && kinds.contains(&"workflow.resumed".to_owned()));
    check_invariants(&home);
}

#[test]
fn a_task_that_is_released_leaves_the_launch_queue() {
    let home = TestHome::in_repository(json!({ "limits": { "liveAgents": 1 } }));
    home.start();
    home.launch("hang");
    let id = home.add_task("Do it", "hang", &[]);
    home.start_task(&id);
    let agent = eventually("the step waits", || {
        home.task(&id).run?.waiting?;
        home.agents_of(&id).pop()
    });
    home.coven(&["task", "release", &id]).expect_success();
    let session = home.session(&agent.session_id.expect("a session").to_string());
    assert_eq!((session.status.as_str(), session.metadata.get("queued")), ("failed", None));
    assert_eq!(home.task(&id).task.status, TaskState::Open);
    check_invariants(&home);
}

#[test]
fn a_step_whose_agent_exits_because_of_a_limit_is_repeated_after_the_reset() {
    let home = TestHome::in_repository(json!({
        "harnesses": {
            "limited": { "program": "limited-agent", "identity": "limited-agent", "print": { "args": [] } },
        },
    }));
    // The agent fails with a limit until the file exists.
    let ready = home.folder().join("ready");
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\nif test -e {0}; then echo fine; else echo 'Error: 429 rate limit; try again in 2 seconds'; exit 1; fi\n",
        ready.display()
    );
    home.write_agent("limited-agent", &script);
    home.start();
    let id = home
        .add_task_for("limited", "steps:\n  - { name: work, type: agent, harness: limited, timeout: 3s, prompt: x }\n");
    home.start_task(&id);
    let wait = eventually("the step waits", || home.task(&id).run?.waiting);
    assert_eq!(
        (wait.cause, wait.detail.as_deref()),
        (WaitCause::Limit, Some("Error: 429 rate limit; try again in 2 seconds"))
    );
    assert_eq!(wait.until.expect("it says when").since(wait.since).as_secs(), 2);
    let page = home.coven(&["task", "show", &id]).expect_success();
    assert!(page.contains("waits       for a limit to reset, ") && page.contains("(until 20"), "{page}");
    let run = home.run_of(&id);
    assert_eq!(run.steps[0].status.as_str(), "waiting");
    assert!(home.coven(&["board", "--once"]).expect_success().contains("waits for a limit to reset"));
    // Another attempt reaches the limit again.
    eventually("the step is repeated", || (home.agents_of(&id).len() == 2).then_some(()));
    fs::write(&ready, "").expect("disk has space");

    home.wait_for_task(&id, TaskState::Closed);
    let agents = home.agents_of(&id);
    let (last, limited) = agents.split_last().expect("agents");
    assert!(last.status == AgentState::Completed && limited.iter().all(|it| it.status == AgentState::Failed));
    let error = limited[0].error.as_deref().unwrap_or_default();
    assert!(error.starts_with("the agent reached a limit: Error: 429"), "{error}");
    check_invariants(&home);
}

#[test]
fn a_run_that_waits_for_a_limit_can_be_cancelled_and_survives_a_restart() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let script = "echo usage limit reached; try again in 3 hours ;; exit 1";
    let id = home.add_task_for(
        "limited",
        &format!(
            "steps:\n  - {{ name: work, type: agent, harness: plain, prompt: '{}' }}\n",
            script.replacen("echo", "say", 1)
        ),
    );
    home.start_task(&id);
    let wait = eventually("the step waits", || home.task(&id).run?.waiting);
    assert_eq!(wait.until.expect("it says when").since(wait.since).as_secs(), 3 * 3600);
    home.restart();
    assert_eq!(home.task(&id).run.and_then(|run| run.waiting), Some(wait));
    home.coven(&["task", "release", &id]).expect_success();
    let task = home.task(&id);
    assert_eq!((task.task.status, task.run.and_then(|run| run.waiting)), (TaskState::Open, None));
    assert_eq!(home.agents_of(&id).len(), 1);
    check_invariants(&home);
}
