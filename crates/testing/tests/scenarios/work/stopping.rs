//! Requests that end an agent return before it has exited. The daemon ends it afterwards, even after a crash.

use coven_api::task::TaskRecord;
use coven_api::workflow::WorkflowRecord;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{EventFeed, TestHome, check_invariants, process, wait_until};
use serde_json::{Value, json};

/// Starts a home with a grace period of ten minutes.
fn home_with_long_grace() -> TestHome {
    let home = TestHome::in_repository(json!({ "sessions": { "killGraceSeconds": 600.0 } }));
    home.start();
    home
}

/// Starts a task whose agent ignores SIGTERM. Returns the ids of the task and of its session.
fn start_stubborn(home: &TestHome) -> (String, String) {
    let id = home.add_task("Stubborn", "ignore_sigterm ;; say stubborn ;; hang", &[]);
    home.start_task(&id);
    let session = home.wait_for_agent(&id).session_id.expect("is running").to_string();
    home.wait_for_output(&session, "stubborn");
    (id, session)
}

/// Asserts that the agent is running, and kills it.
#[track_caller]
fn end_agent(home: &TestHome, session: &str) {
    let alive = home.harness_processes(session);
    assert!(!alive.is_empty(), "the agent is still running after the answer");
    alive.into_iter().for_each(process::kill_hard);
}

#[test]
fn a_request_returns_before_the_agent_exits_and_the_task_changes_afterwards() {
    let home = home_with_long_grace();
    let moves = [("close", TaskState::Closed), ("release", TaskState::Open), ("block", TaskState::Blocked)];
    for (verb, becomes) in moves {
        let (id, session) = start_stubborn(&home);
        let mut feed = EventFeed::open(&home);

        let body = if verb == "release" { json!({}) } else { json!({ "reason": "enough" }) };
        let answer = home.post(&format!("/api/v1/tasks/{id}/{verb}"), &body);

        assert_eq!((answer.status, answer.json::<TaskRecord>().status), (200, TaskState::InProgress), "{verb}");
        assert_eq!(feed.next_of("workflow.stopping").payload["workflow"]["task_id"], json!(id));
        home.post(&format!("/api/v1/tasks/{id}/start"), &json!({})).expect_error(409, "task_not_ready");
        end_agent(&home, &session);
        let task = home.wait_for_task(&id, becomes);
        assert_eq!(task.task.reason.as_deref(), (verb != "release").then_some("enough"));
        if verb == "close" {
            wait_until("the worktree is removed", || !home.worktree(&id).exists());
        }
    }
    check_invariants(&home);
}

#[test]
fn cancel_finish_and_kill_return_before_the_agent_exits() {
    let home = home_with_long_grace();
    let (id, session) = start_stubborn(&home);
    let answer = home.post(&format!("/api/v1/workflows/{id}/cancel"), &json!({}));
    assert_eq!((answer.status, answer.json::<WorkflowRecord>().status), (200, WorkflowState::Running));
    end_agent(&home, &session);
    home.wait_for_task(&id, TaskState::Open);
    assert_eq!(home.run_of(&id).workflow.status, WorkflowState::Cancelled);

    let session = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&session, "stubborn");
    let answer = home.act(&session, "finish");
    assert_eq!((answer.status, &answer.json::<Value>()["status"]), (200, &json!("running")));
    end_agent(&home, &session);
    assert_eq!(home.wait_for_end(&session).status, "completed");

    let session = home.launch("ignore_sigterm ;; say stubborn ;; hang").id;
    home.wait_for_output(&session, "stubborn");
    assert_eq!(home.act(&session, "kill").status, 202);
    home.sacrifice(&session).expect_error(409, "session_conflict");
    end_agent(&home, &session);
    home.coven(&["sacrifice", &session, "--yes"]).expect_success();
    check_invariants(&home);
}

#[test]
fn the_next_daemon_closes_a_task_whose_agent_outlived_the_request() {
    let home = home_with_long_grace();
    let (id, session) = start_stubborn(&home);
    assert_eq!(home.post(&format!("/api/v1/tasks/{id}/close"), &json!({ "reason": "enough" })).status, 200);
    home.kill_daemon();
    home.start();
    assert_eq!(home.task(&id).task.status, TaskState::InProgress);
    end_agent(&home, &session);
    assert_eq!(home.wait_for_task(&id, TaskState::Closed).task.reason.as_deref(), Some("enough"));
    check_invariants(&home);
}

#[test]
fn the_command_waits_until_the_agent_has_exited() {
    let home = TestHome::in_repository(json!({ "sessions": { "killGraceSeconds": 1.5 } }));
    home.start();
    let (id, session) = start_stubborn(&home);
    let closed: TaskRecord = home.json(&["task", "close", &id, "--json"]);
    assert_eq!(closed.status, TaskState::Closed);
    assert_eq!(home.harness_processes(&session), [0; 0]);
}
