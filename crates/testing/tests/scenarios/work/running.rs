//! A task from its start to its end.

use std::thread;

use coven_api::inbox::InboxKind;
use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{TestHome, check_invariants, check_tasks, wait_until};
use serde_json::{Value, json};

#[test]
fn store_15_starting_a_task_claims_it_and_starts_agent_and_workflow() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Do it", "hang", &[]);
    let started: Value = home.json(&["task", "start", &id[..8], "--json"]);

    assert_eq!((&started["task"]["status"], &started["agent"]["status"]), (&json!("in_progress"), &json!("starting")));
    assert_eq!((&started["workflow"]["status"], &started["workflow"]["step"]), (&json!("running"), &json!(0)));
    assert_eq!(started["task"]["claimed_by"], started["agent"]["id"]);
    let base = home.git("git rev-parse main");
    assert_eq!((&started["task"]["base_branch"], &started["task"]["base_commit"]), (&json!("main"), &json!(base)));
    // The three events are adjacent, because they are one transaction.
    let events = home.events_since("0").items;
    let at = events.iter().position(|event| event.kind == "task.claimed").expect("task.claimed");
    let kinds: Vec<&str> = events[at..at + 3].iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["task.claimed", "agent.starting", "workflow.started"]);
    // A second start is refused with the reason.
    let message = home.coven(&["task", "start", &id]).expect_failure(4);
    assert!(message.contains("it is in_progress") && message.contains("it is claimed by"), "{message}");
    home.coven(&["task", "release", &id]).expect_success();
    check_invariants(&home);
}

#[test]
fn store_08_the_agent_of_a_task_is_stored_with_its_process() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Do it", "env COVEN_TASK_ID ;; cwd ;; hang", &[]);
    home.start_task(&id);
    let agent = home.wait_for_agent(&id);
    let session = agent.session_id.expect("an agent is a session").to_string();

    // The record survives an immediate crash of the daemon.
    home.kill_daemon();
    home.start();
    let known = home.agents_of(&id).pop().expect("an agent");
    assert_eq!((known.task_id.to_string(), known.status, known.pid), (id.clone(), AgentState::Running, agent.pid));
    assert!(coven_testing::process::is_alive(agent.pid.expect("a process")));
    let worktree = std::fs::canonicalize(home.worktree(&id)).expect("a worktree");
    assert_eq!(known.worktree.as_deref(), home.worktree(&id).to_str());
    assert_eq!(known.output_file.as_deref(), home.session_dir(&session).to_str());
    home.wait_for_output(&session, &format!("cwd={}", worktree.display()));
    assert!(home.log_text(&session).contains(&format!("COVEN_TASK_ID={id}")));
    let session = home.session(&session);
    assert_eq!((&session.metadata["task_id"], &session.metadata["step"]), (&json!(id), &json!("work")));
    home.coven(&["task", "release", &id]).expect_success();
    check_invariants(&home);
}

#[test]
fn store_16_a_workflow_that_completes_closes_its_task() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task_for("one", "steps:\n  - { name: build, type: script, command: 'echo built > built.txt' }\n");
    home.start_task(&id);

    let task = home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(task.run.expect("a run").status, WorkflowState::Completed);
    assert_eq!(home.agents_of(&id).pop().expect("an agent").status, AgentState::Completed);
    let events = home.events_since("0").items;
    let at = events.iter().position(|event| event.kind == "agent.completed").expect("agent.completed");
    let kinds: Vec<&str> = events[at..at + 3].iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["agent.completed", "workflow.completed", "task.closed"]);
    // Nothing was merged, so the changes are rescued before the worktree is removed.
    wait_until("the worktree is removed", || !home.worktree(&id).exists());
    let kept: Vec<Value> = home.json(&["task", "rescue", "list", "--json"]);
    assert_eq!(kept.len(), 1, "{kept:?}");
    home.coven(&["task", "rescue", "restore", &id[..8], "--branch", "back"]).expect_success();
    assert_eq!(home.git("git show back:built.txt; git branch --show-current; git status --porcelain"), "built\nmain");
    check_invariants(&home);
}

#[test]
fn a_task_that_is_not_ready_is_refused_with_the_reason() {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 1 } }));
    home.start();
    let first = home.add_task("First", "hang", &[]);
    let second = home.add_task("Second", "hang", &["--depends-on", &first]);
    let assert_refused = |args: &[&str], code: i32, why: &str| {
        let message = home.coven(args).expect_failure(code);
        assert!(message.contains(why), "{args:?}: {message}");
    };
    assert_refused(&["task", "start", &second], 4, &format!("it depends on {first}, which is open"));
    for (more, why) in
        [(["--workflow", "nowhere"], "unknown workflow \"nowhere\""), (["--base", "nothing"], "no branch \"nothing\"")]
    {
        let made: Value = home.json(&[&["task", "add", "x", "--json", "--harness", "claude"], &more[..]].concat());
        assert_refused(&["task", "start", made["id"].as_str().expect("an id")], 2, why);
    }
    home.start_task(&first);
    let third = home.add_task("Third", "hang", &[]);
    assert_refused(&["task", "start", &third], 4, "1 of 1 tasks are in progress");
    assert_refused(&["task", "unblock", &first], 4, "cannot be unblocked");
    assert_refused(&["task", "approve", &first], 4, "cannot be approved");
    assert_refused(&["task", "diff", &third], 2, "has no work yet");
    assert_refused(&["task", "start", "ffffffff"], 3, "no task has the id");
    home.coven(&["task", "block", &first, "--reason", "wait for me"]).expect_success();
    assert_eq!(home.task(&first).task.reason.as_deref(), Some("wait for me"));
    assert!(home.harness_processes(&home.agents_of(&first)[0].session_id.expect("a session").to_string()).is_empty());
    let offered: Vec<String> = home.inbox("").remove(0).options.into_iter().map(|option| option.id).collect();
    assert_eq!(offered, ["retry", "unblock", "close"]);
    home.coven(&["task", "unblock", &first]).expect_success();
    home.coven(&["task", "close", &first]).expect_success();
    assert_eq!(home.task(&second).task.status, TaskState::Open);
    check_invariants(&home);
}

#[test]
fn many_tasks_start_concurrently() {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 8 } }));
    home.start();
    home.write_workflow("quick", "steps:\n  - { name: a, type: script, command: 'test -f a.txt' }\n");
    let ids: Vec<String> = (0..8).map(|_| home.add_task("One of many", "", &["--workflow", "quick"])).collect();
    thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| home.start_task(id));
        }
    });
    for id in &ids {
        home.wait_for_task(id, TaskState::Closed);
    }
    check_invariants(&home);
}

#[test]
fn store_01_tasks_agents_and_runs_of_a_snapshot_match() {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 2, "autoStart": true } }));
    home.start();
    // The agents continue after some snapshots.
    let resume = home.folder().join("resume");
    let wait = format!("until test -e {}; do sleep 0.05; done", resume.display());
    home.write_workflow(
        "quick",
        &format!(
            "steps:\n  - {{ name: a, type: script, command: '{wait}' }}\n  - {{ name: b, type: script, command: 'true' }}\n"
        ),
    );
    let ids: Vec<String> = (0..6).map(|_| home.add_task("One of many", "", &["--workflow", "quick"])).collect();
    // Every snapshot must be consistent, and some must have a task in progress.
    let (mut snapshots, mut seen) = (0, 0);
    for id in &ids {
        wait_until("the task is closed", || {
            let in_progress = check_tasks(&home);
            (snapshots, seen) = (snapshots + 1, seen + in_progress);
            assert!(in_progress <= 2, "{in_progress}");
            if snapshots > 3 && seen > 0 {
                std::fs::write(&resume, "").expect("disk has space");
            }
            home.task(id).task.status == TaskState::Closed
        });
    }
    check_invariants(&home);
}

/// Eight processes start the task concurrently.
#[test]
fn concurrent_starts_of_one_task_start_one_agent() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Wanted", "hang", &[]);
    let codes: Vec<i32> = thread::scope(|scope| {
        let starting: Vec<_> = (0..8).map(|_| scope.spawn(|| home.coven(&["task", "start", &id]).code)).collect();
        starting.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    assert_eq!(home.agents_of(&id).len(), 1);
    home.coven(&["task", "release", &id]).expect_success();
    check_invariants(&home);
}

#[test]
fn the_scheduler_starts_ready_tasks_in_order_up_to_the_limit() {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 2, "autoStart": true } }));
    home.start();
    home.write_workflow("quick", "steps:\n  - { name: a, type: script, command: 'echo {{ task.title }}' }\n");
    let first = home.add_task("one", "", &["--workflow", "quick"]);
    let last = home.add_task("two", "", &["--workflow", "quick", "--depends-on", &first]);
    let broken = home.add_task("broken", "", &["--workflow", "none", "--priority", "0"]);
    home.wait_for_task(&last, TaskState::Closed);
    assert_eq!(home.task(&broken).task.status, TaskState::Open);
    let order: Vec<String> = home
        .events_since("0")
        .items
        .iter()
        .filter(|event| event.kind == "task.claimed")
        .map(|event| event.subject.clone())
        .collect();
    assert_eq!(order, [first, last]);
    // The scheduler does not start a cancelled task again.
    let hanging = home.add_task("hangs", "hang", &[]);
    home.wait_for_agent(&hanging);
    home.coven(&["workflow", "cancel", &hanging]).expect_success();
    let after = home.add_task("after", "", &["--workflow", "quick"]);
    home.wait_for_task(&after, TaskState::Closed);
    assert_eq!((home.task(&hanging).task.status.as_str(), home.agents_of(&hanging).len()), ("open", 1));
    // The scheduler may start a released task again.
    let released = home.add_task("given back", "hang", &[]);
    home.wait_for_agent(&released);
    home.coven(&["task", "release", &released]).expect_success();
    wait_until("another agent has started", || home.agents_of(&released).len() == 2);
    home.wait_for_agent(&released);
    check_invariants(&home);
}

#[test]
fn a_claim_is_renewed_while_its_agent_runs() {
    // Three seconds; the run's driver renews the claim.
    let home = TestHome::in_repository(json!({ "store": { "claimTimeoutMinutes": 0.05 } }));
    home.start();
    let id = home.add_task("Long", "hang", &[]);
    home.start_task(&id);
    let agent = home.wait_for_agent(&id);
    let first = home.task(&id).task.claimed_until.expect("a claim");
    wait_until("the claim is renewed three times", || {
        home.events_since("0").items.iter().filter(|event| event.kind == "task.lease_renewed").count() >= 3
    });
    let task = home.task(&id).task;
    assert!(task.claimed_until.expect("a claim") > first && task.status == TaskState::InProgress);
    assert_eq!(home.agents_of(&id).pop().map(|it| it.id), Some(agent.id));
    home.coven(&["task", "release", &id]).expect_success();
    assert_eq!(home.task(&id).task.status, TaskState::Open);
    check_invariants(&home);
}

#[test]
fn permission_requests_and_reviews_are_in_the_inbox_with_their_task() {
    let home = TestHome::with_agent(json!({}));
    home.git("git init -q -b main; git config user.name me; git config user.email me@here");
    home.git("echo a > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first");
    home.start();
    home.write_workflow(
        "asks",
        "steps:\n  - { name: talk, type: agent, harness: gemini, channel: acp, prompt: 'permit touch x ;; touch asked.txt' }\n  - { name: land, type: merge }\n",
    );
    let id = home.add_task("Ask me", "", &["--workflow", "asks", "--harness", "gemini"]);
    home.start_task(&id);
    let asked = |kind: InboxKind| {
        coven_testing::eventually(&format!("a {kind} item is pending"), || {
            home.inbox("").into_iter().find(|item| item.kind == kind)
        })
    };
    let request = asked(InboxKind::Permission);
    assert_eq!((request.task_id, request.step.as_deref()), (id.parse().ok(), Some("talk")));
    // Other tasks are not delayed, and the request survives a restart.
    let other = home.add_task_for("quick", "steps:\n  - { name: a, type: script, command: 'true' }\n");
    home.start_task(&other);
    home.wait_for_task(&other, TaskState::Closed);
    home.kill_daemon();
    home.start();
    assert_eq!(asked(InboxKind::Permission).id, request.id);
    home.coven(&["inbox", "answer", &request.id[..8], "allow"]).expect_success();

    let merge = asked(InboxKind::Merge);
    assert_eq!((merge.id.as_str(), merge.step.as_deref()), (id.as_str(), Some("land")));
    let shown = home.coven(&["inbox", "show", &id[..8]]).expect_success();
    assert!(shown.contains("coven task diff"), "{shown}");
    let message = home.coven(&["inbox", "answer", &id[..8], "dance"]).expect_failure(2);
    assert!(message.contains("approve, reject"), "{message}");
    home.coven(&["inbox", "answer", &id[..8], "approve"]).expect_success();
    assert_eq!(home.task(&id).task.status, TaskState::Closed);
    assert_eq!(home.git("ls asked.txt"), "asked.txt");
    assert!(home.inbox("").is_empty());
    check_invariants(&home);
}

#[test]
fn a_terminal_prompt_is_in_the_inbox_and_its_answer_is_typed_in() {
    let mut home = TestHome::in_repository(json!({}));
    home.start();
    let text = "steps:\n  - { name: talk, type: agent, channel: terminal, prompt: 'ask Really continue? ;; touch asked.txt' }\n";
    let id = home.add_task_for("asks", text);
    home.start_task(&id);
    let waiting = |home: &TestHome| {
        coven_testing::eventually("a terminal prompt is pending", || {
            home.inbox("").into_iter().find(|it| it.kind == InboxKind::Terminal)
        })
    };
    let asked = waiting(&home);
    assert_eq!((asked.title.as_str(), asked.step.as_deref()), ("Really continue?", Some("talk")));
    assert_eq!(asked.task_id, id.parse().ok());
    // The prompt survives the daemon, and so does an answer that is not typed in yet.
    home.stop();
    home.start_with_fault("after_agent_answer");
    let again = waiting(&home);
    assert_eq!(again.id, asked.id);
    let _ = home.coven(&["inbox", "answer", &asked.id[..8], "by all means"]);
    home.restart_after_death();
    home.wait_for_task(&id, TaskState::Closed);
    let session = home.agents_of(&id).pop().and_then(|agent| agent.session_id).expect("a session");
    let log = home.log_text(&session.to_string());
    assert_eq!(log.matches("answer:by all means").count(), 1, "{log}");
    let message = home.coven(&["inbox", "answer", &asked.id[..8], "no"]).expect_failure(4);
    assert!(message.contains("is already answered"), "{message}");
    check_invariants(&home);
}

#[test]
fn input_typed_at_the_terminal_answers_the_prompt_too() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let text = "steps:\n  - { name: talk, type: script, command: 'printf \"name? \"; read name; echo hello $name' }\n";
    let id = home.add_task_for("asks", text);
    home.start_task(&id);
    let asked = coven_testing::eventually("a terminal prompt is pending", || {
        home.inbox("").into_iter().find(|it| it.kind == InboxKind::Terminal)
    });
    assert_eq!(asked.title, "name?");
    home.type_in(&asked.session_id.expect("a session").to_string(), "me\r");
    home.wait_for_task(&id, TaskState::Closed);
    wait_until("the inbox is empty", || home.inbox("").is_empty());
    check_invariants(&home);
}

#[test]
fn a_step_cannot_answer_its_own_terminal_prompt() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let [ids, output] = ["ids", "output"].map(|name| home.folder().join(name));
    home.git(&format!("mkfifo {}", ids.display()));
    let text = format!(
        "steps:\n  - name: talk\n    type: script\n    command: |\n      \
         (read -r id < {ids}; env -u COVEN_SESSION_ID {coven} inbox answer $id me > {output}.part 2>&1; \
         echo exit $? >> {output}.part; mv {output}.part {output}) &\n      \
         printf 'name? '; read name; echo hello $name\n",
        ids = ids.display(),
        output = output.display(),
        coven = coven_testing::program::coven().display(),
    );
    let id = home.add_task_for("asks", &text);
    home.start_task(&id);
    let asked = coven_testing::eventually("a terminal prompt is pending", || {
        home.inbox("").into_iter().find(|it| it.kind == InboxKind::Terminal)
    });

    std::fs::write(&ids, format!("{}\n", asked.id)).expect("step reads");

    let message = coven_testing::eventually("the command has exited", || std::fs::read_to_string(&output).ok());
    assert!(message.contains("permissions.allowSelfAnswer") && message.contains("exit 4"), "{message}");
    assert_eq!(home.inbox("").len(), 1);
    home.coven(&["inbox", "answer", &asked.id, "you"]).expect_success();
    home.wait_for_task(&id, TaskState::Closed);
    assert!(home.run_of(&id).steps[0].output.as_deref().unwrap_or_default().contains("hello you"));
    check_invariants(&home);
}

#[test]
fn a_question_set_of_a_step_has_the_id_of_its_task() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let coven = coven_testing::program::coven();
    let text = format!(
        "steps:\n  - {{ name: choose, type: script, command: '{} ask --prompt \"Which one?\" --option A --option B' }}\n",
        coven.display()
    );
    let id = home.add_task_for("asks", &text);
    home.start_task(&id);
    let asked = coven_testing::eventually("the set is pending", || {
        home.inbox("").into_iter().find(|it| it.kind == InboxKind::QuestionSet)
    });
    assert_eq!((asked.task_id, asked.step.as_deref()), (id.parse().ok(), Some("choose")));
    home.coven(&["inbox", "answer", &asked.id[..8], "--option", "B"]).expect_success();
    home.wait_for_task(&id, TaskState::Closed);
    assert!(home.run_of(&id).steps[0].output.as_deref().unwrap_or_default().contains('B'));
    check_invariants(&home);
}

#[test]
fn a_task_starts_with_another_harness_base_and_repository() {
    let home = TestHome::new();
    home.start();
    home.git("git init -q -b main repo; cd repo; git config user.name me; git config user.email me@here");
    home.git("cd repo; echo 1 > a.txt; git add -A; git commit -qm first; git branch develop");
    let id = home.add_task("Work", "commit b.txt", &["--harness", "codex"]);
    let message = home.coven(&["task", "start", &id, "--harness", "claude"]).expect_failure(2);
    assert!(message.contains("--repo"), "{message}");

    home.coven(&["task", "start", &id, "--harness", "claude", "--base", "develop", "--repo", "repo"]).expect_success();

    let task = home.wait_for_task(&id, TaskState::PendingMerge).task;
    assert_eq!((task.harness.as_deref(), task.base_branch.as_deref()), (Some("claude"), Some("develop")));
    let repo = home.project().join("repo").canonicalize().expect("exists");
    assert_eq!(task.repo, Some(repo.display().to_string()));
    let history: serde_json::Value = home.json(&["task", "history", &id, "--json"]);
    assert!(history.to_string().contains("\"field\":\"repo\""), "{history}");
}

#[test]
fn a_task_that_was_started_stays_in_its_repository() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let id = home.add_task("Work", "commit b.txt", &[]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    home.git("git init -q -b main other; cd other; git config user.name me; git config user.email me@here; git commit -q --allow-empty -m x");
    let message = home.coven(&["task", "edit", &id, "--repo", "other"]).expect_failure(2);
    assert!(message.contains("after it was started; add a new task there"), "{message}");
}
