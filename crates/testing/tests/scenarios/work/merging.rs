//! Review and merge: a checkout with changes stays unchanged, and no work is lost.

use std::fs;
use std::path::PathBuf;
use std::thread;

use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{TestHome, TestTerminal, check_invariants, eventually, wait_until};
use serde_json::{Value, json};

fn started() -> TestHome {
    let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 8 } }));
    home.start();
    home
}

/// Runs a task until it is ready for review, and returns its id.
fn task_in_review(home: &TestHome, title: &str, script: &str, more: &[&str]) -> String {
    let id = home.add_task(title, script, more);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    id
}

#[test]
fn the_changes_of_a_task_are_shown_and_merged_with_its_id() {
    let home = started();
    let id = task_in_review(&home, "Add a file", "commit new.txt ;; append a.txt 4 ;; leave_dirty extra.txt", &[]);
    let diff: Value = home.json(&["task", "diff", &id, "--json"]);
    let files: Vec<&str> =
        diff["files"].as_array().expect("files").iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(files, ["a.txt", "extra.txt", "new.txt"]);
    assert_eq!((&diff["additions"], &diff["deletions"], &diff["uncommitted"]), (&json!(3), &json!(0), &json!(false)));
    let shown = home.coven(&["task", "diff", &id]).expect_success();
    assert!(shown.contains("3 files changed, 3 added, 0 deleted: main...coven/") && shown.contains("+4"), "{shown}");
    let before = home.git("git rev-parse HEAD");
    home.coven(&["task", "approve", &id[..8]]).expect_success();

    let task = home.task(&id).task;
    assert_eq!((task.status.as_str(), task.reason.as_deref()), ("closed", Some("merged")));
    assert_eq!(home.git("git log -1 --format='%P' main | wc -w"), "2");
    assert!(home.git("git log -1 --format=%B main").contains(&format!("Coven-Task: {id}")));
    // The checkout was clean and on that branch, so it is updated.
    assert_eq!(home.git("cat new.txt extra.txt; tail -1 a.txt; git status --porcelain"), "new.txt\nnot committed\n4");
    assert_eq!(home.git("git rev-parse HEAD^1"), before);
    wait_until("the worktree and branch are removed", || {
        !home.worktree(&id).exists() && home.git("git branch --list 'coven/*'").is_empty()
    });
    assert_eq!(home.json::<Vec<Value>>(&["task", "rescue", "list", "--json"]).len(), 0, "all changes are in the base");
    check_invariants(&home);
}

#[test]
fn a_rebase_in_the_checkout_has_to_be_finished_before_approving_again() {
    let home = started();
    let id = task_in_review(&home, "Add a file", "commit new.txt", &[]);
    home.git(
        "git checkout -q -b other; echo theirs > a.txt; git commit -qam theirs; git checkout -q main; \
         echo ours > a.txt; git commit -qam ours; git rebase -q other || true",
    );
    let message = home.coven(&["task", "approve", &id]).expect_failure(4);
    assert!(message.contains("rebase or bisect is in progress there; finish or abort it, then"), "{message}");
    assert!(!message.contains("stash"), "{message}");
    home.git("git rebase --abort");
    home.coven(&["task", "approve", &id]).expect_success();
}

#[test]
fn a_checkout_with_uncommitted_changes_stays_unchanged() {
    let home = started();
    let id = task_in_review(&home, "Add a file", "commit new.txt", &[]);
    // On the base branch, with changes: the merge is refused.
    home.git("echo mine >> a.txt");
    let message = home.coven(&["task", "approve", &id]).expect_failure(4);
    assert!(message.contains("uncommitted changes; commit or stash them, then approve again"), "{message}");
    assert_eq!(home.git("tail -1 a.txt; git log --oneline main | wc -l"), "mine\n1");
    assert_eq!(home.task(&id).task.status, TaskState::PendingMerge);
    // On another branch: only the base branch moves.
    home.git("git checkout -q -b mine");
    home.coven(&["task", "approve", &id]).expect_success();
    assert_eq!(
        home.git("git branch --show-current; tail -1 a.txt; ls new.txt 2>/dev/null || echo none"),
        "mine\nmine\nnone"
    );
    assert_eq!(home.git("git show main:new.txt"), "new.txt");
    check_invariants(&home);
}

#[test]
fn conflicts_are_listed_and_the_task_stays_in_review() {
    let home = started();
    let id = task_in_review(&home, "Change a line", "leave_dirty a.txt", &[]);
    home.git("echo ours > a.txt; git commit -qam ours");
    let message = home.coven(&["task", "approve", &id]).expect_failure(4);
    assert!(message.contains("conflicts with the base branch in a.txt"), "{message}");
    let task = home.task(&id).task;
    assert_eq!(task.status, TaskState::PendingMerge);
    assert!(task.reason.expect("reason").contains("a.txt"));
    assert_eq!(home.git("cat a.txt; git status --porcelain"), "ours");
    // After the conflict is resolved in the worktree, the merge succeeds.
    let worktree = home.worktree(&id);
    let script = format!(
        "cd {}; git merge -q main || true; printf 'both\\nmore\\n' > a.txt; git add -A; git commit -qm resolved",
        worktree.display()
    );
    home.git(&script);
    home.coven(&["task", "approve", &id]).expect_success();
    assert_eq!(home.git("cat a.txt"), "both\nmore");
    let changes = home.task(&id).task.changes.expect("a size");
    assert_eq!((changes.files, changes.additions, changes.deletions), (1, 2, 1), "of what was merged");
    check_invariants(&home);
}

#[test]
fn the_inbox_shows_the_files_and_the_full_worktree_path_of_a_conflict() {
    let home = started();
    let id = task_in_review(&home, &format!("Change a line {}", "and so on ".repeat(15)), "leave_dirty a.txt", &[]);
    home.git("echo ours > a.txt; git commit -qam ours");
    home.coven(&["task", "approve", &id]).expect_failure(4);
    let worktree = home.worktree(&id).canonicalize().expect("exists").display().to_string();

    let shown = home.coven(&["inbox", "show", &id]).expect_success();
    assert!(shown.contains("a.txt") && shown.contains(&worktree), "{shown}");
    let mut terminal = TestTerminal::with_size(&home, &["inbox", "--plain"], 40, 60);
    assert_eq!(terminal.wait(), 0);
    wait_until("the list shows the full path of the worktree", || {
        String::from_utf8_lossy(&terminal.bytes()).contains(&worktree)
    });

    let message = home.coven(&["inbox", "answer", &id]).expect_failure(2);
    assert!(message.contains("approve | reject"), "{message}");
}

#[test]
fn a_rejected_task_is_blocked_with_the_reason_and_its_work_is_kept() {
    let home = started();
    let id = task_in_review(&home, "Half", "commit half.txt", &[]);
    let message = home.coven(&["task", "reject", &id, "--reason", " "]).expect_failure(2);
    assert!(message.contains("reason"), "{message}");
    home.coven(&["task", "reject", &id, "--reason", "the other half is missing"]).expect_success();
    let task = home.task(&id);
    assert_eq!(
        (task.task.status.as_str(), task.task.reason.as_deref()),
        ("blocked", Some("the other half is missing"))
    );
    assert_eq!(task.run.map(|run| run.status), Some(WorkflowState::Blocked));
    assert!(home.worktree(&id).join("half.txt").exists());
    home.coven(&["task", "approve", &id]).expect_failure(4);
    // When the task is closed, its work is kept under a ref.
    home.coven(&["task", "close", &id, "--reason", "not needed"]).expect_success();
    wait_until("the worktree is removed", || !home.worktree(&id).exists());
    let kept: Vec<Value> = home.json(&["task", "rescue", "list", "--json"]);
    assert_eq!((kept.len(), &kept[0]["task_id"]), (1, &json!(id)));
    home.coven(&["task", "rescue", "restore", &id[..8]]).expect_success();
    assert_eq!(home.git(&format!("git show rescue/{}:half.txt", &id[..8])), "half.txt");
    check_invariants(&home);
}

#[test]
fn the_inbox_rejects_and_closes_a_task_with_a_reason() {
    let home = started();
    let id = task_in_review(&home, "Half", "commit half.txt", &[]);
    for word in ["reject", "deny"] {
        let message = home.coven(&["inbox", "answer", &id, word]).expect_failure(2);
        assert!(message.contains(&format!("coven inbox answer {id} reject --reason TEXT")), "{message}");
    }
    let message = home.coven(&["inbox", "answer", &id, "approve", "--reason", "fine"]).expect_failure(2);
    assert!(message.contains("approve takes no reason"), "{message}");
    home.coven(&["inbox", "answer", &id, "reject", "--reason", "the other half is missing"]).expect_success();
    let task = home.task(&id).task;
    assert_eq!((task.status.as_str(), task.reason.as_deref()), ("blocked", Some("the other half is missing")));
    assert_eq!(home.answer_request(&id, &json!({ "decision": "deny", "reason": "not needed" })).status, 200);
    let task = home.task(&id).task;
    assert_eq!((task.status.as_str(), task.reason.as_deref()), ("closed", Some("not needed")));
    check_invariants(&home);
}

#[test]
fn checks_run_on_the_merged_result_and_approvals_are_merged_one_at_a_time() {
    let home = started();
    home.write_workflow(
        "checked",
        "steps:\n  - { name: work, type: agent, prompt: '{{ task.body }}' }\n  - name: land\n    type: merge\n    checks:\n      \
         - test $(ls f*.txt | wc -l) -le 3\n",
    );
    let ids: Vec<String> = (0..4)
        .map(|nth| task_in_review(&home, "File", &format!("commit f{nth}.txt"), &["--workflow", "checked"]))
        .collect();
    let codes: Vec<i32> = thread::scope(|scope| {
        let approving: Vec<_> =
            ids.iter().map(|id| scope.spawn(|| home.coven(&["task", "approve", id]).code)).collect();
        approving.into_iter().map(|it| it.join().expect("no panic")).collect()
    });
    // The last merge would result in four files, so its check fails.
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 3, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 4).count(), 1, "{codes:?}");
    assert_eq!(home.git("ls f*.txt | wc -l; git log --merges --oneline main | wc -l; git status --porcelain"), "3\n3");
    let left = ids.iter().find(|id| home.task(id).task.status == TaskState::PendingMerge).expect("one is in review");
    let reason = home.task(left).task.reason.expect("reason");
    assert!(reason.contains("the check `test $(ls f*.txt | wc -l) -le 3` failed: exit code 1"), "{reason}");
    assert!(!fs::exists(home.path().join(format!("worktrees/{left}.check"))).expect("readable folder"));
    check_invariants(&home);
}

#[test]
fn a_merge_without_review_runs_automatically() {
    let home = started();
    home.write_workflow(
        "auto",
        "steps:\n  - { name: work, type: agent, prompt: 'commit auto.txt' }\n  - { name: land, type: merge, require_review: false }\n",
    );
    let id = home.add_task("Auto", "", &["--workflow", "auto"]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.git("cat auto.txt"), "auto.txt");
    check_invariants(&home);
}

#[test]
fn a_worktree_is_deleted_with_its_task_and_unmerged_work_is_rescued() {
    let home = TestHome::in_repository(json!({ "store": { "taskRetentionDays": 0, "taskSoftDeleteDays": 0 } }));
    home.start();
    let deleted = home.add_task("Deleted", "commit one.txt ;; exit 1", &[]);
    home.start_task(&deleted);
    home.wait_for_task(&deleted, TaskState::Blocked);
    home.coven(&["task", "delete", &deleted]).expect_success();
    wait_until("the worktree is removed", || !home.worktree(&deleted).exists());
    // A worktree without a task is removed by the next sweep.
    let left = home.add_task("Left", "leave_dirty two.txt ;; exit 1", &[]);
    home.start_task(&left);
    home.wait_for_task(&left, TaskState::Blocked);
    home.stop();
    let script = format!(
        "PRAGMA foreign_keys = OFF; DELETE FROM workflows; DELETE FROM agents; DELETE FROM tasks WHERE id = '{left}'"
    );
    home.edit_database(&script);
    assert!(home.worktree(&left).join("two.txt").exists());
    home.start();
    wait_until("the other worktree is removed too", || !home.worktree(&left).exists());

    let kept: Vec<Value> = home.json(&["task", "rescue", "list", "--json"]);
    assert_eq!(kept.len(), 2, "{kept:?}");
    home.coven(&["task", "rescue", "restore", &left, "--branch", "left"]).expect_success();
    home.coven(&["task", "rescue", "restore", &deleted, "--branch", "deleted"]).expect_success();
    assert_eq!(home.git("git show left:two.txt deleted:one.txt; git status --porcelain"), "not committed\none.txt");
}

/// Writes a workflow whose check waits for a file, and returns the file.
fn write_slow(home: &TestHome, more: &str) -> PathBuf {
    let go = home.folder().join("go");
    home.write_workflow(
        "slow",
        &format!(
            "{more}steps:\n  - {{ name: work, type: agent, prompt: 'commit f.txt' }}\n  - name: land\n    type: merge\n    checks:\n      \
             - while [ ! -f {} ]; do sleep 0.05; done\n",
            go.display()
        ),
    );
    go
}

fn wait_for_check(home: &TestHome, id: &str) -> String {
    eventually("the check is running", || {
        let check = home
            .agents_of(id)
            .into_iter()
            .find(|it| it.step.as_deref() == Some("land") && it.status == AgentState::Running);
        check.and_then(|it| it.session_id).map(|id| id.to_string())
    })
}

#[test]
fn a_task_that_is_being_merged_cannot_be_rejected() {
    let home = started();
    let go = write_slow(&home, "");
    let id = task_in_review(&home, "File", "", &["--workflow", "slow"]);
    thread::scope(|scope| {
        let approving = [0, 1].map(|_| scope.spawn(|| home.coven(&["task", "approve", &id]).expect_success()));
        wait_for_check(&home, &id);
        let message = home.coven(&["task", "reject", &id, "--reason", "no"]).expect_failure(4);
        assert!(message.contains("being merged"), "{message}");
        fs::write(&go, "").expect("disk has space");
        // Both approvals get the same result.
        for it in approving {
            it.join().expect("no panic");
        }
    });
    assert_eq!((home.task(&id).task.status.as_str(), home.git("cat f.txt").as_str()), ("closed", "f.txt"));
    assert_eq!(home.git("git log --merges --oneline main | wc -l"), "1");
    check_invariants(&home);
}

#[test]
fn a_merge_waits_for_another_git_process_in_the_checkout() {
    let home = started();
    let id = task_in_review(&home, "File", "commit f.txt", &[]);
    home.git("touch .git/index.lock");
    thread::scope(|scope| {
        let approving = scope.spawn(|| home.coven(&["task", "approve", &id]).expect_success());
        wait_until("the task is approved", || home.run_of(&id).workflow.approved_by.is_some());
        home.git("rm .git/index.lock");
        approving.join().expect("no panic");
    });
    assert_eq!(home.git("ls f.txt; git status --porcelain --untracked-files=no"), "f.txt");
    check_invariants(&home);
}

#[test]
fn cancelling_ends_a_running_check() {
    let home = started();
    write_slow(&home, "");
    let id = task_in_review(&home, "File", "", &["--workflow", "slow"]);
    thread::scope(|scope| {
        let approving = scope.spawn(|| home.coven(&["task", "approve", &id]).expect_failure(4));
        let session = wait_for_check(&home, &id);
        let message = home.coven(&["workflow", "cancel", &id]).expect_success();
        assert!(message.contains("still pending review"), "{message}");
        assert!(home.harness_processes(&session).is_empty(), "the check has exited when the command returns");
        let message = approving.join().expect("no panic");
        assert!(message.contains("stopped by"), "{message}");
    });
    // The task is still in review. A second cancellation ends the run.
    let states = || (home.task(&id).task.status, home.run_of(&id).workflow.status);
    assert_eq!(states(), (TaskState::PendingMerge, WorkflowState::PendingMerge));
    assert_eq!(home.git("git log --oneline main | wc -l"), "1");
    home.coven(&["workflow", "cancel", &id]).expect_success();
    assert_eq!(states(), (TaskState::Blocked, WorkflowState::Cancelled));
    // A cancelled run cannot be retried, so that is not offered.
    let offered: Vec<String> = home.inbox("").remove(0).options.into_iter().map(|option| option.id).collect();
    assert_eq!(offered, ["unblock", "close"]);
    home.coven(&["inbox", "answer", &id, "allow"]).expect_success();
    assert_eq!(home.task(&id).task.status, TaskState::Open);
    check_invariants(&home);
}

#[test]
fn the_timeout_of_a_run_includes_checks_but_not_the_review() {
    let home = started();
    write_slow(&home, "timeout: 8\n");
    let id = task_in_review(&home, "File", "", &["--workflow", "slow"]);
    let message = home.coven(&["task", "approve", &id]).expect_failure(4);
    assert!(message.contains("timed out"), "{message}");
    let task = home.task(&id).task;
    assert_eq!(task.status, TaskState::PendingMerge);
    assert!(home.agents_of(&id).iter().all(|it| it.status != AgentState::Running && it.status != AgentState::Starting));
    check_invariants(&home);
}

#[test]
fn an_approval_is_withdrawn_if_the_merge_cannot_start() {
    let home = started();
    let id = task_in_review(&home, "File", "commit f.txt", &[]);
    home.git("mv .git away");
    home.coven(&["task", "approve", &id]).expect_failure(2);
    let waiting: Value = home.json(&["inbox", "--json"]);
    assert!(waiting.to_string().contains(&id), "the task is in the inbox: {waiting}");
    home.git("mv away .git");
    home.coven(&["task", "reject", &id, "--reason", "not now"]).expect_success();
    check_invariants(&home);
}

#[test]
fn a_task_without_a_branch_cannot_be_merged() {
    let home = started();
    home.write_workflow(
        "idle",
        "steps:\n  - { name: work, type: script, command: 'true', when: 'false' }\n  - { name: land, type: merge }\n",
    );
    let id = task_in_review(&home, "Idle", "", &["--workflow", "idle"]);
    let message = home.coven(&["task", "approve", &id]).expect_failure(4);
    assert!(message.contains("does not exist; reject the task"), "{message}");
    home.coven(&["task", "reject", &id, "--reason", "do something"]).expect_success();
    check_invariants(&home);
}

#[test]
fn a_task_of_a_linked_worktree_survives_its_removal() {
    let home = started();
    home.git("git worktree add -q ../linked -b feat");
    let linked = home.project().parent().expect("a folder").join("linked");
    let request = json!({ "title": "Linked", "body": ";; commit new.txt", "harness": "claude", "repo": linked.display().to_string() });
    let made: Value = home.post("/api/v1/tasks", &request).json();
    let id = made["id"].as_str().expect("an id").to_owned();
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    home.git("git worktree remove ../linked");
    assert!(home.coven(&["task", "diff", &id]).expect_success().contains("new.txt"));
    home.coven(&["task", "approve", &id]).expect_success();
    assert_eq!(home.git("git show feat:new.txt"), "new.txt");
    check_invariants(&home);
}

#[test]
fn work_on_a_branch_that_the_agent_created_is_shown_and_merged() {
    let home = started();
    home.write_workflow(
        "branching",
        "steps:\n  - name: work\n    type: script\n    command: |\n      git checkout -q -b feature\n      echo 1 > one.txt; git add -A; git commit -qm one\n      \
         echo 2 > two.txt\n  - { name: land, type: merge }\n",
    );
    let id = task_in_review(&home, "Branching", "", &["--workflow", "branching"]);
    let shown = home.coven(&["task", "diff", &id]).expect_success();
    assert!(shown.contains("one.txt") && shown.contains("two.txt"), "{shown}");
    home.coven(&["task", "approve", &id]).expect_success();
    assert_eq!(home.git("cat one.txt two.txt; git branch --list feature | wc -l"), "1\n2\n1");
    check_invariants(&home);
}

#[test]
fn a_retry_gets_the_reason_of_the_rejection() {
    let home = started();
    home.write_workflow(
        "reviewed",
        "steps:\n  - { name: work, type: script, command: 'echo {{ review }} >> reviews.txt' }\n  - { name: land, type: merge }\n",
    );
    let id = task_in_review(&home, "Reviewed", "", &["--workflow", "reviewed"]);
    home.coven(&["task", "reject", &id, "--reason", "use 'tabs'"]).expect_success();
    home.coven(&["task", "unblock", &id]).expect_success();
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    let reviews = fs::read_to_string(home.worktree(&id).join("reviews.txt")).expect("a file");
    assert_eq!(reviews, "\nuse 'tabs'\n");
    check_invariants(&home);
}

#[test]
fn a_review_answered_by_a_session_has_the_id_of_the_session() {
    let home = started();
    let task = task_in_review(&home, "Do it", "append b.txt two", &[]);
    let coven = coven_testing::program::coven().display().to_string();
    let script = format!("env -u COVEN_SESSION_ID {coven} inbox answer {task} approve; echo code=$?.; exec cat");
    let session = home.launch_with(json!({ "argv": ["/bin/sh", "-c", script] })).id;

    home.wait_for_output(&session, "code=0.");

    let history: Value = home.read(&format!("/api/v1/tasks/{task}/history"));
    let history = history["items"].as_array().expect("a history").clone();
    let closed = history.iter().find(|it| it["field"] == "status" && it["new"] == "closed");
    assert_eq!(closed.map(|it| &it["by"]), Some(&json!(format!("session:{session}"))), "{history:?}");
}
