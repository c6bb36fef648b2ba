//! Workflows: the input of steps, their results, and stopping them.

use std::fs;

use coven_domain::agent::AgentState;
use coven_domain::task::TaskState;
use coven_domain::workflow::WorkflowState;
use coven_testing::{TestHome, check_invariants, eventually, process, wait_until};
use serde_json::{Value, json};

fn started() -> TestHome {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home
}

#[test]
fn steps_get_the_task_earlier_outputs_and_counters() {
    let home = started();
    let id = home.add_task_for(
        "all",
        r#"
steps:
  - name: first
    type: agent
    harness: plain
    prompt: 'say {"success": true, "summary": "ok", "outputs": {"file": "made.txt", "rounds": 2}}'
  - name: rounds
    type: loop
    max_iterations: 5
    until: loop.iteration >= steps.first.outputs.rounds
    steps:
      - name: write
        type: script
        command: echo {{ loop.iteration }} {{ task.title }} >> {{ steps.first.outputs.file }}; cat made.txt
      - name: never
        type: script
        when: steps.write.failed
        command: exit 9
  - name: check
    type: script
    command: test {{ steps.write.output | trim | length }} -gt 10 && test {{ previous.success }} = true
"#,
    );
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::Closed);
    let run = home.run_of(&id);
    let steps: Vec<(&str, &str)> = run.steps.iter().map(|it| (it.name.as_str(), it.status.as_str())).collect();
    let expected = [
        ("first", "completed"),
        ("rounds", "completed"),
        ("write", "completed"),
        ("never", "skipped"),
        ("check", "completed"),
    ];
    assert_eq!(steps, expected, "{run:?}");
    assert_eq!(run.steps[1].iteration, Some(2));
    assert_eq!(run.steps[2].output.as_deref().map(|text| text.replace('\r', "")), Some("1 A task\n2 A task\n".into()));
    // Each attempt has its own session.
    let agents: Vec<String> = run.agents.iter().map(|agent| agent.step.clone().unwrap_or_default()).collect();
    assert_eq!(agents, ["first", "write", "write", "check"]);
    check_invariants(&home);
}

#[test]
fn a_failed_step_blocks_the_task_and_a_retry_repeats_it_in_the_same_worktree() {
    let home = started();
    let id = home.add_task_for(
        "twice",
        "steps:\n  - { name: before, type: script, command: 'echo x >> before.txt' }\n  \
         - { name: fails, type: script, command: 'test -f fixed && wc -l < before.txt' }\n",
    );
    home.start_task(&id);
    let task = home.wait_for_task(&id, TaskState::Blocked);
    assert_eq!(task.task.reason.as_deref(), Some("fails: exit code 1"));
    let run = home.run_of(&id);
    assert_eq!((run.workflow.status.as_str(), run.workflow.step_name.as_deref()), ("failed", Some("fails")));
    let shown = home.coven(&["workflow", "show", &id]).expect_success();
    assert!(shown.contains("fails: exit code 1") && shown.contains("failed"), "{shown}");

    fs::write(home.worktree(&id).join("fixed"), "").expect("worktree exists");
    let message = home.coven(&["workflow", "retry", &id]).expect_success();
    assert!(message.contains("retrying fails"), "{message}");
    home.wait_for_task(&id, TaskState::Closed);
    let run = home.run_of(&id);
    // The previous step was not repeated.
    assert_eq!(run.steps[1].output.as_deref().map(str::trim), Some("1"));
    assert_eq!(run.agents.len(), 3);
    let message = home.coven(&["workflow", "retry", &id]).expect_failure(4);
    assert!(message.contains("completed"), "{message}");
    check_invariants(&home);
}

#[test]
fn on_fail_decides_the_result_of_a_failed_step() {
    let home = started();
    let text = |rule: &str| {
        format!(
            "steps:\n  - {{ name: a, type: script, command: exit 3, on_fail: {rule} }}\n  - {{ name: b, type: script, command: 'true' }}\n"
        )
    };
    for (rule, task, run) in [
        ("fail", TaskState::Blocked, WorkflowState::Failed),
        ("block", TaskState::Blocked, WorkflowState::Blocked),
        ("continue", TaskState::Closed, WorkflowState::Completed),
    ] {
        let id = home.add_task_for(rule, &text(rule));
        home.start_task(&id);
        home.wait_for_task(&id, task);
        assert_eq!(home.run_of(&id).workflow.status, run, "{rule}");
        assert_eq!(home.run_of(&id).steps[0].exit_code, Some(3));
    }
    check_invariants(&home);
}

#[test]
fn a_failure_that_the_agent_reports_fails_the_step() {
    let home = started();
    // As plain text, and in the JSON records of an agent.
    let record = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"{\"success\": false, \"error\": \"no such file\"}"}]}}"#;
    for (harness, result) in [("plain", r#"{"success": false, "error": "no such file"}"#), ("claude", record)] {
        let id = home.add_task("Try", &format!("say {result}"), &["--harness", harness]);
        home.start_task(&id);
        assert_eq!(home.wait_for_task(&id, TaskState::Blocked).task.reason.as_deref(), Some("work: no such file"));
    }
    // Other text does not fail the step, but an exit code does.
    let id = home.add_task("Try", "say error: it failed miserably", &[]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    let id = home.add_task("Try", r#"say {"success": true} ;; exit 4"#, &["--harness", "plain"]);
    home.start_task(&id);
    assert_eq!(home.wait_for_task(&id, TaskState::Blocked).task.reason.as_deref(), Some("work: exit code 4"));
    check_invariants(&home);
}

#[test]
fn a_step_and_a_run_can_time_out() {
    let home = started();
    let step = "steps:\n  - { name: slow, type: script, command: sleep 600, timeout: 0.3 }\n";
    let whole = "timeout: 0.5\nsteps:\n  - name: l\n    type: loop\n    max_iterations: 1000\n    steps:\n      \
                 - { name: short, type: script, command: sleep 0.1, on_fail: continue }\n";
    for (name, text, reason) in
        [("step", step, "slow: timed out after 300ms"), ("whole", whole, "the workflow timed out after 500ms")]
    {
        let id = home.add_task_for(name, text);
        home.start_task(&id);
        assert_eq!(home.wait_for_task(&id, TaskState::Blocked).task.reason.as_deref(), Some(reason));
        assert_eq!(home.run_of(&id).workflow.status, WorkflowState::Failed);
        let session = home.agents_of(&id).pop().and_then(|agent| agent.session_id).expect("a session");
        wait_until("the process has exited", || home.harness_processes(&session.to_string()).is_empty());
    }
    check_invariants(&home);
}

#[test]
fn a_loop_can_time_out_and_on_fail_decides_the_result() {
    let home = started();
    let text = |rule: &str| {
        format!(
            "steps:\n  - name: l\n    type: loop\n    max_iterations: 3\n    timeout: 0.5\n    on_fail: {rule}\n    steps:\n      \
             - {{ name: slow, type: script, command: sleep 600 }}\n  - {{ name: b, type: script, command: 'true' }}\n"
        )
    };
    for (rule, task, run) in [
        ("fail", TaskState::Blocked, WorkflowState::Failed),
        ("block", TaskState::Blocked, WorkflowState::Blocked),
        ("continue", TaskState::Closed, WorkflowState::Completed),
    ] {
        let id = home.add_task_for(rule, &text(rule));
        home.start_task(&id);
        let task = home.wait_for_task(&id, task).task;
        assert_eq!(home.run_of(&id).workflow.status, run, "{rule}");
        let sessions = home.agents_of(&id).into_iter().filter_map(|it| it.session_id);
        let sessions: Vec<String> = sessions.map(|id| id.to_string()).collect();
        assert!(sessions.iter().all(|it| home.harness_processes(it).is_empty()));
        if rule != "continue" {
            assert_eq!(task.reason.as_deref(), Some("l: timed out after 500ms"));
        }
    }
    check_invariants(&home);
}

#[test]
fn a_retry_of_a_loop_that_reached_max_iterations_restarts_it() {
    let home = started();
    let id = home.add_task_for(
        "rounds",
        "steps:\n  - name: l\n    type: loop\n    max_iterations: 2\n    on_max_iterations: block\n    until: steps.look.success\n    steps:\n      \
         - { name: look, type: script, command: 'echo x >> rounds.txt; test -f fixed', on_fail: continue }\n",
    );
    home.start_task(&id);
    let task = home.wait_for_task(&id, TaskState::Blocked).task;
    assert_eq!(task.reason.as_deref(), Some("l: the `until` condition was not met after 2 iterations"));
    fs::write(home.worktree(&id).join("fixed"), "").expect("worktree exists");
    home.coven(&["workflow", "retry", &id]).expect_success();
    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.run_of(&id).agents.len(), 3);
    check_invariants(&home);
}

#[test]
fn cancelling_ends_all_processes_before_the_command_returns() {
    let home = started();
    let id = home.add_task("Stubborn", "ignore_sigterm ;; fork_children ;; hang", &[]);
    home.start_task(&id);
    let agent = home.wait_for_agent(&id);
    let session = agent.session_id.expect("a session");
    home.wait_for_output(&session.to_string(), "children are there");
    let processes = home.harness_processes(&session.to_string());
    assert!(processes.len() >= 2, "{processes:?}");

    home.coven(&["workflow", "cancel", &id]).expect_success();

    assert!(processes.iter().all(|pid| !process::is_alive(*pid)), "all processes have exited when the command returns");
    assert_eq!((home.task(&id).task.status.as_str(), home.run_of(&id).workflow.status.as_str()), ("open", "cancelled"));
    assert_eq!(home.agents_of(&id).pop().map(|agent| agent.status), Some(AgentState::Killed));
    assert!(home.worktree(&id).exists(), "the work is kept");
    let message = home.coven(&["workflow", "cancel", &id]).expect_failure(4);
    assert!(message.contains("cancelled"), "{message}");
    check_invariants(&home);
}

#[test]
fn a_restarted_daemon_continues_at_the_running_step() {
    let home = started();
    let go = home.folder().join("go");
    let text = format!(
        "steps:\n  - {{ name: one, type: script, command: 'echo one >> steps.txt' }}\n  - name: two\n    type: agent\n    \
         prompt: 'append steps.txt two ;; until {} ;; append steps.txt done'\n  - {{ name: three, type: script, command: 'cat steps.txt' }}\n",
        go.display()
    );
    let id = home.add_task_for("three", &text);
    home.start_task(&id);
    let is_at_two = || {
        home.agents_of(&id)
            .pop()
            .is_some_and(|it| it.step.as_deref() == Some("two") && it.status == AgentState::Running)
    };
    wait_until("the second step is running", is_at_two);
    let pid = home.agents_of(&id).pop().and_then(|agent| agent.pid);
    home.kill_daemon();
    // The agent exits while no daemon is running.
    fs::write(&go, "").expect("disk has space");
    wait_until("the agent has exited", || pid.is_some_and(|pid| !process::is_alive(pid)));
    home.start();

    home.wait_for_task(&id, TaskState::Closed);
    let run = home.run_of(&id);
    assert_eq!(run.steps[2].output.as_deref().map(|text| text.replace('\r', "")), Some("one\ntwo\ndone\n".into()));
    assert_eq!(run.agents.len(), 3, "no step was repeated");
    check_invariants(&home);
}

/// Starts a home in a repository, with an ACP agent.
fn started_with_agent() -> TestHome {
    let home = TestHome::with_agent(json!({}));
    home.git("git init -q -b main; git config user.name me; git config user.email me@here");
    home.git("echo a > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first");
    home.start();
    home
}

#[test]
fn an_agent_step_can_use_acp_or_a_terminal() {
    let home = started_with_agent();
    for (channel, harness) in [("acp", "gemini"), ("terminal", "claude")] {
        let id = home.add_task_for(
            channel,
            &format!("steps:\n  - {{ name: talk, type: agent, harness: {harness}, channel: {channel}, prompt: 'say hello ;; touch {channel}.txt' }}\n"),
        );
        home.start_task(&id);
        home.wait_for_task(&id, TaskState::Closed);
        let run = home.run_of(&id);
        assert!(run.steps[0].output.as_deref().unwrap_or_default().contains("hello"), "{channel}: {run:?}");
    }
    check_invariants(&home);
}

#[test]
fn a_refusal_of_an_acp_agent_fails_the_step() {
    let home = started_with_agent();
    let id = home.add_task_for(
        "refused",
        "steps:\n  - { name: work, type: agent, harness: gemini, channel: acp, prompt: 'say hm ;; stop refusal' }\n",
    );
    home.start_task(&id);
    let task = home.wait_for_task(&id, TaskState::Blocked).task;
    assert_eq!(task.reason.as_deref(), Some("work: the agent stopped without an answer: refusal"));
    assert_eq!(home.agents_of(&id).pop().map(|it| it.status), Some(AgentState::Failed));
    check_invariants(&home);
}

#[test]
fn a_repeated_step_does_not_show_its_earlier_result() {
    let home = started_with_agent();
    let id = home.add_task_for(
        "rounds",
        "steps:
  - { name: before, type: script, command: 'echo early; exit 1', on_fail: continue }
  - name: again
    type: loop
    max_iterations: 2
    steps:
      - { name: try, type: script, command: 'test -f ../../../go && echo late && exit 3; test -f seen && sleep 600; touch seen; exit 1', on_fail: continue }
      - { name: rest, type: script, command: 'true', when: 'loop.iteration == 1' }
  - { name: last, type: script, command: 'echo why it stops; exit 4' }
",
    );
    home.start_task(&id);
    let step = |name: &str| home.run_of(&id).steps.into_iter().find(|step| step.name == name).expect("a step");
    wait_until("the second iteration is running", || {
        let again = step("again");
        (again.iteration, step("try").status.as_str()) == (Some(2), "running")
    });
    assert_eq!((step("try").error, step("try").exit_code), (None, None));
    assert_eq!(step("before").exit_code, Some(1));
    // `workflow show` prints the output of the current step.
    fs::write(home.project().join("go"), "").expect("a file");
    home.coven(&["workflow", "cancel", &id]).expect_success();
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::Blocked);
    let shown = home.coven(&["workflow", "show", &id]).expect_success();
    assert!(shown.contains("end of the output of last:\n  why it stops"), "{shown}");
    check_invariants(&home);
}

#[test]
fn the_output_of_a_terminal_agent_is_the_text_on_its_screen() {
    let config = json!({ "harnesses": { "painter": {
        "program": "/bin/sh", "args": ["-c", "printf 'Quick\\033[7Gcheck\\033[1G\\033[2K'; printf 'Is it\\033[7Gsafe?\\n'"] } } });
    let home = TestHome::in_repository(config);
    home.start();
    let id = home.add_task_for(
        "painting",
        "steps:\n  - { name: paint, type: agent, harness: painter, channel: terminal, prompt: x }\n  \
         - { name: tell, type: script, command: 'printf %s {{ steps.paint.output }} > seen' }\n  - { name: land, type: merge }\n",
    );
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    assert_eq!(fs::read_to_string(home.worktree(&id).join("seen")).expect("a file").trim_end(), "Is it safe?");
    check_invariants(&home);
}

#[test]
fn a_hanging_git_command_does_not_prevent_a_stop() {
    let home = started_with_agent();
    let id = home.add_task_for(
        "stuck",
        "steps:
  - name: first
    type: script
    command: |
      git config --global filter.stuck.clean 'echo $$ > ../../../stuck; exec sleep 600'
      echo '*.txt filter=stuck' > .gitattributes
      echo x > x.txt
  - { name: land, type: merge }
",
    );
    home.start_task(&id);
    let waiting = || {
        let mark = home.project().join("stuck");
        let pid = eventually("git waits for a filter", || fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok());
        fs::remove_file(mark).expect("exists");
        pid
    };
    let wait_for_exit = |pid: u32| wait_until("the filter has exited", || !process::is_alive(pid));
    // A daemon that stops kills its git command, and the next daemon runs it again.
    let first = waiting();
    home.stop();
    wait_for_exit(first);
    home.start();
    let second = waiting();
    home.coven(&["workflow", "cancel", &id]).expect_success();
    wait_for_exit(second);
    let task = home.task(&id);
    assert_eq!((task.task.status.as_str(), task.run.expect("a run").status.as_str()), ("open", "cancelled"));
    assert!(home.worktree(&id).join("x.txt").exists(), "the work is kept");
    // The task can be closed too. Its worktree is kept while git is running.
    home.coven(&["task", "close", &id]).expect_success();
    let third = waiting();
    home.stop();
    wait_for_exit(third);
    assert!(home.worktree(&id).join("x.txt").exists(), "the work is kept");
    home.start();
    check_invariants(&home);
    home.stop();
}

#[test]
fn background_processes_of_a_step_end_with_it() {
    let home = started_with_agent();
    // A zombie has no command line.
    let id = home.add_task_for(
        "leaving",
        "steps:
  - name: first
    type: script
    command: |
      nohup sleep 600 > /dev/null 2>&1 &
      echo $! > left
      until grep -q 600 /proc/$!/cmdline; do :; done
      tr '\\0' ' ' < /proc/$!/cmdline > before
  - name: second
    type: script
    command: |
      : > after
      tr '\\0' ' ' < /proc/$(cat left)/cmdline > after || true
  - { name: land, type: merge }
",
    );
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    let read = |name: &str| fs::read_to_string(home.worktree(&id).join(name)).expect("a file");
    assert!(read("before").contains("600") && read("after").is_empty(), "{:?} {:?}", read("before"), read("after"));
    check_invariants(&home);
}

#[test]
fn mistakes_in_a_workflow_file_are_reported_with_their_lines() {
    let home = TestHome::in_repository(json!({}));
    home.write_workflow(
        "bad",
        "steps:\n  - name: a\n    type: script\n    command: '{{ steps.b.output }}'\n  - name: b\n    type: dance\n",
    );
    home.write_workflow("good", "steps:\n  - { name: a, type: script, command: 'true' }\n");
    let ran = home.coven(&["workflow", "lint"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("bad.yaml:4: a: step \"b\" has not run at this point"), "{}", ran.stdout);
    assert!(ran.stdout.contains("bad.yaml:6: type: unknown type \"dance\""), "{}", ran.stdout);
    assert!(ran.stdout.contains("good.yaml: valid, 1 step\n"), "{}", ran.stdout);
    let ran = home.coven(&["workflow", "lint", "bad", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report["items"][0]["problems"][1]["line"], 6);
    home.coven(&["workflow", "lint", "good"]).expect_success();
    home.start();
    let id = home.add_task("x", "", &["--workflow", "bad"]);
    let message = home.coven(&["task", "start", &id]).expect_failure(2);
    assert!(message.contains("line 6") && message.contains("workflow lint bad"), "{message}");
    assert_eq!(home.task(&id).task.status, TaskState::Open);
}
