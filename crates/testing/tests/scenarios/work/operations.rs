//! Operations: a request starts the work and returns. The work reports its progress, and survives its client and the daemon.

use std::fs;
use std::path::PathBuf;

use coven_api::operation::Operation;
use coven_api::task::TaskRecord;
use coven_domain::operation::OperationState;
use coven_domain::task::TaskState;
use coven_testing::{EventFeed, TestHome, TestTerminal, check_invariants, eventually, wait_until};
use serde_json::{Value, json};

fn started() -> TestHome {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home
}

/// Runs a task until it is ready for review; returns its id and the file that its check waits for.
fn in_review(home: &TestHome) -> (String, PathBuf) {
    let go = home.folder().join("go");
    home.write_workflow(
        "slow",
        &format!(
            "steps:\n  - {{ name: work, type: agent, prompt: 'commit f.txt' }}\n  - name: land\n    type: merge\n    checks:\n      \
             - 'true'\n      - while [ ! -f {} ]; do sleep 0.05; done\n",
            go.display()
        ),
    );
    let id = home.add_task("File", "", &["--workflow", "slow"]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    (id, go)
}

fn approve(home: &TestHome, id: &str) -> Operation {
    home.start_operation(&format!("/api/v1/tasks/{id}/approve"), &json!({}))
}

/// Waits until the last check of an approval is running, and returns the operation.
fn at_the_check(home: &TestHome) -> Operation {
    eventually("the second check is running", || {
        home.operations("?kind=task.approve&status=running")
            .into_iter()
            .find(|it| it.progress.message.starts_with("running check 2 of 2: while"))
    })
}

fn release_check(go: &PathBuf) {
    fs::write(go, "").expect("disk has space");
}

#[test]
fn an_approval_returns_immediately_and_reports_its_steps() {
    let home = started();
    let (id, go) = in_review(&home);
    let mut events = EventFeed::open(&home);

    let operation = approve(&home, &id);

    assert_eq!((operation.kind.as_str(), operation.status), ("task.approve", OperationState::Running));
    assert_eq!((operation.subject.as_deref(), operation.result.is_none()), (Some(id.as_str()), true));
    assert_eq!(events.next_of("operation.started").payload, json!({ "operation": operation }));
    let running = at_the_check(&home);
    assert_eq!((running.id, running.progress.done, running.progress.total), (operation.id, 3, Some(6)));
    // Approved twice, the task is merged once.
    assert_eq!(approve(&home, &id).id, operation.id);
    assert_eq!(home.task(&id).task.status, TaskState::PendingMerge);
    release_check(&go);
    let ended = home.ended_operation(&operation);
    assert_eq!(
        (ended.status, ended.progress.done, ended.ended_at),
        (OperationState::Completed, 6, Some(ended.updated_at))
    );
    let result: TaskRecord = ended.result.as_ref().expect("a result").parse().expect("a task");
    assert_eq!(result, home.task(&id).task);
    assert_eq!(result.status, TaskState::Closed);
    let progress = events.next_of("operation.progress");
    assert_eq!(progress.payload["operation"]["status"], "running");
    assert_eq!(events.next_of("operation.completed").payload, json!({ "operation": ended }));
    assert_eq!(home.git("git log --merges --oneline main | wc -l"), "1");
    assert_eq!(home.operations("?status=running"), []);
    check_invariants(&home);
}

#[test]
fn an_approval_continues_after_kill_9_of_the_daemon() {
    let home = started();
    let (id, go) = in_review(&home);
    let operation = approve(&home, &id);
    at_the_check(&home);
    home.kill_daemon();
    home.start();
    let resumed = at_the_check(&home);
    assert_eq!((resumed.id, resumed.status), (operation.id, OperationState::Running));
    assert_eq!(approve(&home, &id).id, operation.id);
    release_check(&go);
    let ended = home.ended_operation(&operation);
    let result: TaskRecord = ended.result.expect("a result").parse().expect("a task");
    assert_eq!((ended.status, result.status.as_str()), (OperationState::Completed, "closed"));
    assert_eq!(home.git("git log --merges --oneline main | wc -l"), "1");
    check_invariants(&home);
}

#[test]
fn an_operation_whose_merge_was_done_before_the_daemon_died_completes() {
    for point in ["after_approve", "after_landing"] {
        let mut home = started();
        let id = home.add_task("A task", "commit done.txt", &[]);
        home.start_task(&id);
        home.wait_for_task(&id, TaskState::PendingMerge);
        home.stop();
        home.start_with_fault(point);
        let _ = home.coven(&["task", "approve", &id]);
        home.restart_after_death();
        let operation = home.operations("?kind=task.approve").remove(0);
        assert_eq!(home.ended_operation(&operation).status, OperationState::Completed, "{point}");
        assert_eq!(home.operations("").len(), 1, "{point}");
    }
}

#[test]
fn an_answer_in_the_inbox_does_not_wait_for_the_merge() {
    let home = started();
    let (id, go) = in_review(&home);
    let answer = home.answer_request(&id, &json!({ "option": "approve" }));
    let item: Value = answer.json();
    assert_eq!(
        (answer.status, &item["status"], &item["answer"]),
        (200, &json!("answered"), &json!("approve")),
        "{item}"
    );
    assert!(home.inbox("").is_empty(), "an approved task is not in the inbox");
    let operation = at_the_check(&home);
    release_check(&go);
    assert_eq!(home.ended_operation(&operation).status, OperationState::Completed);
    assert_eq!(home.task(&id).task.status, TaskState::Closed);
}

#[test]
fn a_terminal_shows_one_line_of_progress_and_control_c_leaves_the_operation_running() {
    let home = started();
    let (id, go) = in_review(&home);
    let mut terminal = TestTerminal::open(&home, &["task", "approve", &id]);
    terminal.wait_for_text("[3/6] running check 2 of 2");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 130);
    let operation = at_the_check(&home);
    let short = operation.id.short();
    let text = terminal.wait_for_text(&format!("coven operation wait {short}"));
    assert!(!text.contains("[3/6]"), "the line of progress is gone: {text}");

    let mut waiting = TestTerminal::open(&home, &["operation", "wait", &short]);
    waiting.wait_for_text("[3/6] running check 2 of 2");
    let mut again = TestTerminal::open(&home, &["task", "approve", &id]);
    again.wait_for_text("[3/6] running check 2 of 2");
    release_check(&go);
    assert_eq!((waiting.wait(), again.wait()), (0, 0));
    waiting.wait_for_text("status    completed");
    let text = again.wait_for_text("merged: ");
    assert!(!text.contains("/6]"), "{text}");
    let quiet = home.coven(&["operation", "wait", &short]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    check_invariants(&home);
}

#[test]
fn a_command_that_does_not_wait_prints_the_operation() {
    let home = started();
    let (id, go) = in_review(&home);
    let operation: Operation = home.json(&["task", "approve", &id, "--no-wait", "--json"]);
    assert_eq!(operation.status, OperationState::Running);
    let short = operation.id.short();
    let listed = home.coven(&["operation", "list", "--status", "running"]).expect_success();
    assert!(listed.contains(&short) && listed.contains("task.approve"), "{listed}");
    let completed = home.coven(&["complete", "bash", "operation", "show", ""]).expect_success();
    assert_eq!(completed.trim(), short);
    release_check(&go);
    let ended: Operation = home.json(&["operation", "wait", &short, "--json"]);
    assert_eq!((ended.id, ended.status), (operation.id, OperationState::Completed));
    assert!(home.coven(&["operation", "show", &short]).expect_success().contains("status    completed"));
    home.coven(&["operation", "show", "ffffffff"]).expect_failure(3);
    home.get("/api/v1/operations/nosuch").expect_error(404, "operation_not_found");
    home.get("/api/v1/operations?status=done").expect_error(400, "invalid_request");
}

#[test]
fn a_command_keeps_waiting_across_a_restart_of_the_daemon() {
    let home = started();
    let (id, go) = in_review(&home);
    std::thread::scope(|scope| {
        let approving = scope.spawn(|| home.coven(&["task", "approve", &id]));
        at_the_check(&home);
        home.restart();
        at_the_check(&home);
        release_check(&go);
        let ran = approving.join().expect("no panic");
        assert!(ran.expect_success().starts_with("merged: "));
    });
    check_invariants(&home);
}

#[test]
fn a_merge_that_fails_or_is_cancelled_ends_its_operation_with_the_error() {
    let home = started();
    let (id, _go) = in_review(&home);
    let operation = approve(&home, &id);
    at_the_check(&home);
    home.coven(&["workflow", "cancel", &id]).expect_success();
    let ended = home.ended_operation(&operation);
    let error = ended.error.expect("an error");
    assert_eq!((ended.status, error.code.as_str()), (OperationState::Cancelled, "merge_failed"));
    home.git("echo ours > f.txt; git add -A; git commit -qm ours");
    let operation = approve(&home, &id);
    let ended = home.ended_operation(&operation);
    let error = ended.error.expect("an error");
    assert_eq!((ended.status, error.details), (OperationState::Failed, Some(json!({ "conflicts": ["f.txt"] }))));
    assert!(error.message.contains("conflicts with the base branch in f.txt"), "{}", error.message);
    assert_eq!(home.coven(&["operation", "wait", &operation.id.to_string()]).code, 1);
    wait_until("the review is back in the inbox", || home.inbox("").iter().any(|it| it.id == id));
}

#[test]
fn many_tasks_are_added_by_an_operation() {
    let home = TestHome::started();
    let many: Vec<Value> = (0..500).map(|nth| json!({ "title": format!("task {nth}") })).collect();
    let operation = home.start_operation("/api/v1/tasks/bulk", &json!({ "tasks": many }));
    let ended = home.ended_operation(&operation);
    assert_eq!((ended.kind.as_str(), ended.status), ("task.add", OperationState::Completed));
    assert_eq!((ended.progress.done, ended.progress.total), (500, Some(500)));
    let result: Value = ended.result.expect("a result").parse().expect("JSON");
    assert_eq!((result["items"].as_array().map(Vec::len), &result["total"]), (Some(100), &json!(500)));
    let rest = format!("/api/v1/tasks?operation={}&limit=1000&cursor=", operation.id);
    let rest: Value = home.read(&format!("{rest}{}", result["next"].as_str().expect("more")));
    assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next"]), (Some(400), &Value::Null));
    let started: Operation = {
        let ran = home.coven_with_input(&["task", "add", "--stdin", "--no-wait", "--json"], b"{\"title\":\"x\"}\n");
        serde_json::from_str(&ran.expect_success()).expect("an operation")
    };
    assert_eq!(home.ended_operation(&started).status, OperationState::Completed);
    // Invalid input is refused before an operation starts.
    home.post("/api/v1/tasks/bulk", &json!({ "tasks": [{ "title": "" }] })).expect_error(400, "invalid_task");
    let page: Value = home.read("/api/v1/operations?limit=1");
    assert_eq!(page["items"][0]["id"], json!(started.id));
    let next: Value = home.read(&format!("/api/v1/operations?limit=1&cursor={}", page["next"].as_str().expect("more")));
    assert_eq!((&next["items"][0]["id"], &next["next"]), (&json!(operation.id), &Value::Null));
    home.get("/api/v1/operations?cursor=x").expect_error(400, "invalid_request");
}
