//! Recovery of tasks after a crash of the daemon: each row of the recovery table, with real processes, real worktrees and a
//! real `kill -9`.

use std::fs;

use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{TestHome, check_invariants, check_tasks, eventually, process, wait_until};
use serde_json::{Value, json};

/// Starts a task whose agent runs `script` and then hangs. Returns the ids of the task and the session.
fn working(script: &str) -> (TestHome, String, String) {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("A task", &format!("{script} ;; say ready ;; hang"), &[]);
    home.start_task(&id);
    let session = home.wait_for_agent(&id).session_id.expect("an agent is a session").to_string();
    home.wait_for_output(&session, "ready");
    (home, id, session)
}

/// Waits until the newest agent of a task has ended: a start does not wait for a recovery that takes long.
fn agent(home: &TestHome, id: &str) -> (AgentState, Option<String>) {
    let is_live = |state: AgentState| matches!(state, AgentState::Starting | AgentState::Running);
    let agent = eventually("the agent has ended", || home.agents_of(id).pop().filter(|it| !is_live(it.status)));
    (agent.status, agent.error)
}

#[test]
fn store_04_a_running_agent_is_adopted() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let go = home.folder().join("go");
    let id =
        home.add_task("A task", &format!("say before ;; until {} ;; commit after.txt ;; say after", go.display()), &[]);
    home.start_task(&id);
    let before = home.wait_for_agent(&id);
    let session = before.session_id.expect("a session");
    home.wait_for_output(&session.to_string(), "before");
    home.kill_daemon();
    home.start();

    let now = home.agents_of(&id).pop().expect("an agent");
    assert_eq!((now.id, now.status.as_str(), now.pid), (before.id, "running", before.pid));
    assert_eq!(home.task(&id).task.status, TaskState::InProgress);
    fs::write(go, "").expect("disk has space");
    home.wait_for_task(&id, TaskState::PendingMerge);
    assert!(home.log_text(&session.to_string()).contains("after"));
    assert_eq!(home.agents_of(&id).len(), 1, "no other agent was started");
    check_invariants(&home);
}

#[test]
fn store_05_an_agent_that_died_with_uncommitted_work_blocks_its_task() {
    // With and without commits.
    for script in ["leave_dirty left.txt", "commit done.txt ;; leave_dirty left.txt", "append a.txt more"] {
        let (home, id, session) = working(script);
        home.kill_daemon_and(&session);
        home.start();

        assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted with uncommitted work".to_owned())));
        let task = home.task(&id);
        assert_eq!((task.task.status.as_str(), task.task.claimed_by), ("blocked", None), "{script}");
        assert_eq!(task.task.reason.as_deref(), Some("daemon restarted with uncommitted work"));
        assert_eq!(task.run.map(|run| run.status), Some(WorkflowState::Blocked));
        // The user is notified in the feed and in the inbox.
        assert!(home.events_since("0").items.iter().any(|it| it.kind == "task.blocked" && it.subject == id));
        let waiting: Value = home.json(&["inbox", "--json"]);
        assert!(waiting.to_string().contains(&id), "{waiting}");
        // The prompt file of the agent is removed.
        let is_prompt = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".prompt-");
        wait_until("the prompt file is removed", || {
            let mut names = fs::read_dir(home.path().join("worktrees")).expect("a folder").flatten();
            !names.any(|entry| is_prompt(entry.file_name()))
        });
        // The work is kept: a retry uses the same worktree.
        assert!(home.git(&format!("cd {}; git status --porcelain", home.worktree(&id).display())).contains(".txt"));
        check_invariants(&home);
    }
}

#[test]
fn store_06_an_agent_that_died_with_commits_leaves_them_for_review() {
    let (home, id, session) = working("commit done.txt");
    home.kill_daemon_and(&session);
    home.start();

    assert_eq!(agent(&home, &id).0, AgentState::Failed);
    assert_eq!(home.task(&id).task.status, TaskState::PendingMerge);
    let diff = home.coven(&["task", "diff", &id, "--stat"]).expect_success();
    assert!(diff.contains("done.txt"), "{diff}");
    home.coven(&["task", "approve", &id]).expect_success();
    assert_eq!(home.git("cat done.txt"), "done.txt");
    assert_eq!(home.task(&id).task.status, TaskState::Closed);
    check_invariants(&home);
}

#[test]
fn the_task_of_a_dead_agent_without_changes_is_open_again() {
    let (home, id, session) = working("say nothing");
    home.kill_daemon_and(&session);
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted and the agent was gone".to_owned())));
    let task = home.task(&id);
    assert_eq!((task.task.status.as_str(), task.readiness.ready), ("open", true));
    home.start_task(&id);
    home.wait_for_agent(&id);
    home.coven(&["task", "release", &id]).expect_success();
    check_invariants(&home);
}

#[test]
fn the_task_of_a_dead_agent_without_a_worktree_is_blocked() {
    let (home, id, session) = working("say nothing");
    home.kill_daemon_and(&session);
    fs::remove_dir_all(home.worktree(&id)).expect("existed");
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted and the worktree was gone".to_owned())));
    assert_eq!(home.task(&id).task.status, TaskState::Blocked);
    check_invariants(&home);
}

#[test]
fn store_07_finished_tasks_are_unchanged() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let done = home.add_task("Done", "commit done.txt", &[]);
    let failed = home.add_task("Failed", "leave_dirty left.txt ;; exit 3", &[]);
    for (id, status) in [(&done, TaskState::PendingMerge), (&failed, TaskState::Blocked)] {
        home.start_task(id);
        home.wait_for_task(id, status);
    }
    let before: Value = home.read("/state");
    home.kill_daemon();
    home.start();
    let after: Value = home.read("/state");
    for key in ["tasks", "agents", "workflows", "event_number"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    check_invariants(&home);
}

#[test]
fn store_09_another_process_with_the_pid_of_the_agent_is_neither_adopted_nor_killed() {
    let (home, id, session) = working("leave_dirty left.txt");
    let holder = home.holder_of(&session).expect("has a holder");
    home.kill_daemon_and(&session);
    // In the record, the agent has the pid of another process.
    let mut other = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
    let script =
        format!("UPDATE sessions SET pid = {0} WHERE id = '{session}'; UPDATE agents SET pid = {0}", other.id());
    home.edit_database(&script);
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted with uncommitted work".to_owned())));
    assert_eq!(home.task(&id).task.status, TaskState::Blocked);
    assert!(process::is_alive(other.id()) && !process::is_alive(holder));
    other.kill().expect("child process");
    other.wait().expect("child process");
    check_invariants(&home);
}

#[test]
fn a_task_whose_agent_changed_its_command_line_gets_no_second_agent() {
    let config = json!({
        "scheduler": { "autoStart": true },
        "harnesses": { "renamed": { "program": "/bin/bash", "identity": "expected-name", "print": { "prompt": "argument",
            "args": ["-c", "echo $$ >> ../../../log; exec -a something-else sleep 600", "expected-name"] } } },
    });
    let home = TestHome::in_repository(config);
    home.start();
    let id = home.add_task("Renamed", "x", &["--harness", "renamed"]);
    home.wait_for_agent(&id);
    let log = home.project().join("log");
    let pid = eventually("the agent is running", || fs::read_to_string(&log).ok()?.trim().parse::<u32>().ok());
    wait_until("the agent has another command line", || {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"something-else"))
    });
    home.kill_daemon();
    home.start();

    let task = home.wait_for_task(&id, TaskState::Blocked).task;
    assert!(task.reason.as_ref().is_some_and(|why| why.contains(&format!("pid {pid}"))), "{task:?}");
    assert!(process::is_alive(pid), "an unidentified process is not killed");
    let message = home.coven(&["workflow", "retry", &id]).expect_failure(2);
    assert!(message.contains(&format!("pid {pid}")), "{message}");
    assert_eq!(home.agents_of(&id).len(), 1);
    check_tasks(&home);
    process::kill_hard(pid);
    wait_until("the process has exited", || !process::is_alive(pid));
    home.coven(&["workflow", "retry", &id]).expect_success();
    wait_until("the next agent has started", || home.agents_of(&id).len() == 2);
    home.coven(&["workflow", "cancel", &id]).expect_success();
}

#[test]
fn no_agent_starts_while_children_of_the_previous_one_are_running() {
    let config = json!({ "scheduler": { "autoStart": true }, "sessions": { "killGraceSeconds": 1.0 } });
    let home = TestHome::in_repository(config);
    home.write_workflow(
        "children",
        "steps:\n  - name: s\n    type: script\n    command: |\n      (trap '' HUP TERM; echo $BASHPID >> ../../../log; while :; do sleep 0.05; done) &\n      sleep 600\n",
    );
    home.start();
    let id = home.add_task("Children", "", &["--workflow", "children"]);
    let session = home.wait_for_agent(&id).session_id.expect("a session");
    wait_until("the child is running", || home.project().join("log").exists());
    let processes = home.harness_processes(&session.to_string());
    let holder = home.holder_of(&session.to_string()).expect("has a holder");
    home.kill_daemon();
    process::kill_hard(holder);
    wait_until("the first process has exited", || processes.iter().any(|pid| !process::is_alive(*pid)));
    home.start();

    wait_until("another agent has started", || home.agents_of(&id).len() == 2);
    assert!(processes.iter().all(|pid| !process::is_alive(*pid)), "all processes have exited before");
    home.wait_for_agent(&id);
    check_invariants(&home);
}

#[test]
fn no_agent_starts_while_the_previous_one_is_being_killed() {
    let config = json!({ "scheduler": { "autoStart": true }, "sessions": { "killGraceSeconds": 1.0 } });
    let home = TestHome::in_repository(config);
    home.write_workflow(
        "stubborn",
        "steps:\n  - name: s\n    type: script\n    command: |\n      trap '' HUP TERM\n      echo start $$ >> ../../../log; while :; do sleep 0.05; done\n",
    );
    home.start();
    let id = home.add_task("Stubborn", "", &["--workflow", "stubborn"]);
    let first = home.wait_for_agent(&id);
    let session = first.session_id.expect("a session");
    let harness = home.harness_processes(&session.to_string());
    wait_until("the agent is running", || home.project().join("log").exists());
    let holder = home.holder_of(&session.to_string()).expect("has a holder");
    home.kill_daemon();
    process::kill_hard(holder);
    home.start();

    wait_until("another agent has started", || home.agents_of(&id).len() == 2);
    assert!(harness.iter().all(|pid| !process::is_alive(*pid)), "the previous agent has exited before");
    home.wait_for_agent(&id);
    check_invariants(&home);
}

#[test]
fn the_task_of_an_agent_that_was_starting_is_open_again() {
    let mut home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("A task", "hang", &[]);
    home.stop();
    home.start_with_fault("after_claim");
    let _ = home.coven(&["task", "start", &id]);
    home.restart_after_death();

    let (status, error) = agent(&home, &id);
    assert_eq!(status, AgentState::Failed, "{error:?}");
    let task = home.task(&id);
    assert_eq!((task.task.status.as_str(), task.task.claimed_by, task.readiness.ready), ("open", None, true));
    check_invariants(&home);
}

/// The daemon dies at every named point of a task. At most one agent works on the task, and the task is completed.
#[test]
fn a_task_is_completed_after_the_daemon_died_at_any_point() {
    for point in [
        "before_claim",
        "after_claim",
        "after_worktree",
        "after_create",
        "after_spawn",
        "after_running",
        "after_step_launch",
        "before_complete",
        "after_complete",
    ] {
        let mut home = TestHome::in_repository(json!({}));
        home.write_workflow(
            "one",
            "steps:\n  - { name: build, type: script, command: 'echo x >> runs.txt; cat runs.txt' }\n",
        );
        home.start();
        let id = home.add_task("A task", "", &["--workflow", "one"]);
        home.stop();
        home.start_with_fault(point);
        let _ = home.coven(&["task", "start", &id]);
        home.restart_after_death();

        // A task whose agent never ran is open again. Otherwise it continues.
        let task = home.task(&id);
        match task.task.status.as_str() {
            "open" => {
                assert!(["before_claim", "after_claim", "after_worktree", "after_create"].contains(&point), "{point}");
                home.start_task(&id);
            }
            "in_progress" | "closed" => {}
            other => panic!("{point}: {other}: {task:?}"),
        }
        home.wait_for_task(&id, TaskState::Closed);
        let ran = home.agents_of(&id).iter().filter(|agent| agent.status == AgentState::Completed).count();
        assert_eq!(ran, 1, "{point}: one agent completed");
        let output = home.run_of(&id).steps[0].output.clone().unwrap_or_default();
        assert_eq!(output.trim(), "x", "{point}: the command ran once");
        check_invariants(&home);
    }
}

#[test]
fn an_interrupted_merge_is_completed() {
    for point in ["after_approve", "before_landing", "after_landing"] {
        let mut home = TestHome::in_repository(json!({}));
        home.start();
        let id = home.add_task("A task", "commit done.txt", &[]);
        home.start_task(&id);
        home.wait_for_task(&id, TaskState::PendingMerge);
        home.stop();
        home.start_with_fault(point);
        let _ = home.coven(&["task", "approve", &id]);
        home.restart_after_death();

        home.wait_for_task(&id, TaskState::Closed);
        assert_eq!(
            home.git("cat done.txt; git log --merges --oneline main | wc -l; git status --porcelain"),
            "done.txt\n1",
            "{point}"
        );
        check_invariants(&home);
    }
}
