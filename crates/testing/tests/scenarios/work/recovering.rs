//! What a daemon makes of tasks that were being worked on when the one before it died: the table, row by row, with real
//! processes, real worktrees and a real `kill -9`.

use std::fs;

use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{TestHome, check_invariants, check_tasks, eventually, process, wait_until};
use serde_json::{Value, json};

/// A task whose agent did what `script` says and hangs; its id and its session.
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
fn store_04_an_agent_that_lives_is_looked_after_again() {
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
    fs::write(go, "").expect("room on disk");
    home.wait_for_task(&id, TaskState::PendingMerge);
    assert!(home.log_text(&session.to_string()).contains("after"));
    assert_eq!(home.agents_of(&id).len(), 1, "nobody else was set on it");
    check_invariants(&home);
}

#[test]
fn store_05_an_agent_that_died_with_uncommitted_work_blocks_its_task() {
    // Whether or not there are commits too.
    for script in ["leave_dirty left.txt", "commit done.txt ;; leave_dirty left.txt", "append a.txt more"] {
        let (home, id, session) = working(script);
        home.kill_daemon_and(&session);
        home.start();

        assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted with uncommitted work".to_owned())));
        let task = home.task(&id);
        assert_eq!((task.task.status.as_str(), task.task.claimed_by), ("blocked", None), "{script}");
        assert_eq!(task.task.reason.as_deref(), Some("daemon restarted with uncommitted work"));
        assert_eq!(task.run.map(|run| run.status), Some(WorkflowState::Blocked));
        // The human is told: in the feed and in the inbox.
        assert!(home.events_since("0").items.iter().any(|it| it.kind == "task.blocked" && it.subject == id));
        let waiting: Value = home.json(&["inbox", "--json"]);
        assert!(waiting.to_string().contains(&id), "{waiting}");
        // What was written for the agent is swept away.
        let is_prompt = |name: std::ffi::OsString| name.to_string_lossy().starts_with(".prompt-");
        wait_until("its prompt is gone", || {
            let mut names = fs::read_dir(home.path().join("worktrees")).expect("a folder").flatten();
            !names.any(|entry| is_prompt(entry.file_name()))
        });
        // And nothing is lost: a retry goes on in the same worktree.
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
    let diff = home.coven(&["task", "diff", &id, "--stat"]).done();
    assert!(diff.contains("done.txt"), "{diff}");
    home.coven(&["task", "approve", &id]).done();
    assert_eq!(home.git("cat done.txt"), "done.txt");
    assert_eq!(home.task(&id).task.status, TaskState::Closed);
    check_invariants(&home);
}

#[test]
fn an_agent_that_died_and_left_nothing_gives_its_task_back() {
    let (home, id, session) = working("say nothing");
    home.kill_daemon_and(&session);
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted and the agent was gone".to_owned())));
    let task = home.task(&id);
    assert_eq!((task.task.status.as_str(), task.readiness.ready), ("open", true));
    home.start_task(&id);
    home.wait_for_agent(&id);
    home.coven(&["task", "release", &id]).done();
    check_invariants(&home);
}

#[test]
fn an_agent_whose_worktree_is_gone_blocks_its_task() {
    let (home, id, session) = working("say nothing");
    home.kill_daemon_and(&session);
    fs::remove_dir_all(home.worktree(&id)).expect("it was there");
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted and the worktree was gone".to_owned())));
    assert_eq!(home.task(&id).task.status, TaskState::Blocked);
    check_invariants(&home);
}

#[test]
fn store_07_what_was_over_stays_as_it_is() {
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
fn store_09_what_is_not_the_agent_is_neither_looked_after_nor_ended() {
    let (home, id, session) = working("leave_dirty left.txt");
    let holder = home.holder_of(&session).expect("a holder");
    home.kill_daemon_and(&session);
    // Somebody else has the agent's pid now, as far as the record can tell.
    let mut other = std::process::Command::new("sleep").arg("600").spawn().expect("a process");
    let script =
        format!("UPDATE sessions SET pid = {0} WHERE id = '{session}'; UPDATE agents SET pid = {0}", other.id());
    home.edit_database(&script);
    home.start();

    assert_eq!(agent(&home, &id), (AgentState::Failed, Some("daemon restarted with uncommitted work".to_owned())));
    assert_eq!(home.task(&id).task.status, TaskState::Blocked);
    assert!(process::is_alive(other.id()) && !process::is_alive(holder));
    other.kill().expect("ours");
    other.wait().expect("ours");
    check_invariants(&home);
}

#[test]
fn an_agent_that_changed_its_looks_is_never_given_a_second_one() {
    let config = json!({
        "scheduler": { "autoStart": true },
        "harnesses": { "renamed": { "program": "/bin/bash", "identity": "looks-like-this", "print": { "prompt": "argument",
            "args": ["-c", "echo $$ >> ../../../log; exec -a something-else sleep 600", "looks-like-this"] } } },
    });
    let home = TestHome::in_repository(config);
    home.start();
    let id = home.add_task("Renamed", "x", &["--harness", "renamed"]);
    home.wait_for_agent(&id);
    let log = home.project().join("log");
    let pid = eventually("it runs", || fs::read_to_string(&log).ok()?.trim().parse::<u32>().ok());
    wait_until("it has other looks", || {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"something-else"))
    });
    home.kill_daemon();
    home.start();

    let task = home.wait_for_task(&id, TaskState::Blocked).task;
    assert!(task.reason.as_ref().is_some_and(|why| why.contains(&format!("pid {pid}"))), "{task:?}");
    assert!(process::is_alive(pid), "it is not ours to end");
    let told = home.coven(&["workflow", "retry", &id]).refused(2);
    assert!(told.contains(&format!("pid {pid}")), "{told}");
    assert_eq!(home.agents_of(&id).len(), 1);
    check_tasks(&home);
    process::kill_hard(pid);
    wait_until("it is gone", || !process::is_alive(pid));
    home.coven(&["workflow", "retry", &id]).done();
    wait_until("the next one is at work", || home.agents_of(&id).len() == 2);
    home.coven(&["workflow", "cancel", &id]).done();
}

#[test]
fn nobody_begins_while_children_of_the_one_before_live() {
    let config = json!({ "scheduler": { "autoStart": true }, "sessions": { "killGraceSeconds": 1.0 } });
    let home = TestHome::in_repository(config);
    home.write_workflow(
        "family",
        "steps:\n  - name: s\n    type: script\n    command: |\n      (trap '' HUP TERM; echo $BASHPID >> ../../../log; while :; do sleep 0.05; done) &\n      sleep 600\n",
    );
    home.start();
    let id = home.add_task("Family", "", &["--workflow", "family"]);
    let session = home.wait_for_agent(&id).session_id.expect("a session");
    wait_until("its child runs", || home.project().join("log").exists());
    let family = home.harness_processes(&session.to_string());
    let holder = home.holder_of(&session.to_string()).expect("a holder");
    home.kill_daemon();
    process::kill_hard(holder);
    wait_until("the first of them is gone", || family.iter().any(|pid| !process::is_alive(*pid)));
    home.start();

    wait_until("somebody else has it", || home.agents_of(&id).len() == 2);
    assert!(family.iter().all(|pid| !process::is_alive(*pid)), "all of them are gone by then");
    home.wait_for_agent(&id);
    check_invariants(&home);
}

#[test]
fn nobody_begins_while_the_one_before_is_still_being_ended() {
    let config = json!({ "scheduler": { "autoStart": true }, "sessions": { "killGraceSeconds": 1.0 } });
    let home = TestHome::in_repository(config);
    home.write_workflow(
        "stubborn",
        "steps:\n  - name: s\n    type: script\n    command: |\n      trap '' HUP TERM\n      echo begin $$ >> ../../../log; while :; do sleep 0.05; done\n",
    );
    home.start();
    let id = home.add_task("Stubborn", "", &["--workflow", "stubborn"]);
    let first = home.wait_for_agent(&id);
    let session = first.session_id.expect("a session");
    let harness = home.harness_processes(&session.to_string());
    wait_until("it runs", || home.project().join("log").exists());
    let holder = home.holder_of(&session.to_string()).expect("a holder");
    home.kill_daemon();
    process::kill_hard(holder);
    home.start();

    wait_until("somebody else has it", || home.agents_of(&id).len() == 2);
    assert!(harness.iter().all(|pid| !process::is_alive(*pid)), "the one before is gone by then");
    home.wait_for_agent(&id);
    check_invariants(&home);
}

#[test]
fn an_agent_that_was_still_starting_gives_its_task_back() {
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

/// The daemon dies at every named point of a task's life. Whatever it was, there is one agent at most, and the task comes to
/// its end.
#[test]
fn a_daemon_that_dies_at_any_point_leaves_a_task_that_goes_on() {
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

        // What never ran is open again; what ran goes on to its end.
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
        assert_eq!(ran, 1, "{point}: it was done once");
        let output = home.run_of(&id).steps[0].output.clone().unwrap_or_default();
        assert_eq!(output.trim(), "x", "{point}: nobody did it twice");
        check_invariants(&home);
    }
}

#[test]
fn a_merge_that_was_cut_off_is_finished() {
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
