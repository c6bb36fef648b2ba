//! Workflows: what steps get, how they end, what stops them.

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
    // One attempt after the other, each with a session of its own.
    let agents: Vec<String> = run.agents.iter().map(|agent| agent.step.clone().unwrap_or_default()).collect();
    assert_eq!(agents, ["first", "write", "write", "check"]);
    check_invariants(&home);
}

#[test]
fn a_step_that_fails_blocks_the_task_and_a_retry_repeats_it_in_the_same_worktree() {
    let home = started();
    let id = home.add_task_for(
        "twice",
        "steps:\n  - { name: before, type: script, command: 'echo x >> before.txt' }\n  \
         - { name: fails, type: script, command: 'test -f mended && wc -l < before.txt' }\n",
    );
    home.start_task(&id);
    let task = home.wait_for_task(&id, TaskState::Blocked);
    assert_eq!(task.task.reason.as_deref(), Some("fails: exit code 1"));
    let run = home.run_of(&id);
    assert_eq!((run.workflow.status.as_str(), run.workflow.step_name.as_deref()), ("failed", Some("fails")));
    let shown = home.coven(&["workflow", "show", &id]).done();
    assert!(shown.contains("fails: exit code 1") && shown.contains("failed"), "{shown}");

    fs::write(home.worktree(&id).join("mended"), "").expect("its worktree is there");
    let told = home.coven(&["workflow", "retry", &id]).done();
    assert!(told.contains("retrying fails"), "{told}");
    home.wait_for_task(&id, TaskState::Closed);
    let run = home.run_of(&id);
    // The step before was not repeated.
    assert_eq!(run.steps[1].output.as_deref().map(str::trim), Some("1"));
    assert_eq!(run.agents.len(), 3);
    let told = home.coven(&["workflow", "retry", &id]).refused(4);
    assert!(told.contains("completed"), "{told}");
    check_invariants(&home);
}

#[test]
fn what_a_failed_step_means_is_said_by_its_rule() {
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
fn an_agent_is_believed_when_it_says_that_it_failed() {
    let home = started();
    // In its own words, and in the records of one that writes JSON.
    let record = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"{\"success\": false, \"error\": \"no such file\"}"}]}}"#;
    for (harness, said) in [("plain", r#"{"success": false, "error": "no such file"}"#), ("claude", record)] {
        let id = home.add_task("Try", &format!("say {said}"), &["--harness", harness]);
        home.start_task(&id);
        assert_eq!(home.wait_for_task(&id, TaskState::Blocked).task.reason.as_deref(), Some("work: no such file"));
    }
    // Words on a screen are no verdict, and an exit code is.
    let id = home.add_task("Try", "say error: it failed miserably", &[]);
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::PendingMerge);
    let id = home.add_task("Try", r#"say {"success": true} ;; exit 4"#, &["--harness", "plain"]);
    home.start_task(&id);
    assert_eq!(home.wait_for_task(&id, TaskState::Blocked).task.reason.as_deref(), Some("work: exit code 4"));
    check_invariants(&home);
}

#[test]
fn time_is_up_for_a_step_and_for_the_whole() {
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
        wait_until("its process is gone", || home.harness_processes(&session.to_string()).is_empty());
    }
    check_invariants(&home);
}

#[test]
fn time_is_up_for_a_loop_and_its_rule_says_what_then() {
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
fn a_loop_that_ran_out_goes_round_anew_when_it_is_tried_again() {
    let home = started();
    let id = home.add_task_for(
        "rounds",
        "steps:\n  - name: l\n    type: loop\n    max_iterations: 2\n    on_max_iterations: block\n    until: steps.look.success\n    steps:\n      \
         - { name: look, type: script, command: 'echo x >> rounds.txt; test -f mended', on_fail: continue }\n",
    );
    home.start_task(&id);
    let task = home.wait_for_task(&id, TaskState::Blocked).task;
    assert_eq!(task.reason.as_deref(), Some("l: the `until` condition was not met after 2 iterations"));
    fs::write(home.worktree(&id).join("mended"), "").expect("its worktree is there");
    home.coven(&["workflow", "retry", &id]).done();
    home.wait_for_task(&id, TaskState::Closed);
    assert_eq!(home.run_of(&id).agents.len(), 3);
    check_invariants(&home);
}

#[test]
fn cancelling_ends_the_process_before_anybody_can_begin_again() {
    let home = started();
    let id = home.add_task("Stubborn", "ignore_sigterm ;; fork_children ;; hang", &[]);
    home.start_task(&id);
    let agent = home.wait_for_agent(&id);
    let session = agent.session_id.expect("a session");
    home.wait_for_output(&session.to_string(), "children are there");
    let family = home.harness_processes(&session.to_string());
    assert!(family.len() >= 2, "{family:?}");

    home.coven(&["workflow", "cancel", &id]).done();

    assert!(family.iter().all(|pid| !process::is_alive(*pid)), "all of it is gone when the answer comes");
    assert_eq!((home.task(&id).task.status.as_str(), home.run_of(&id).workflow.status.as_str()), ("open", "cancelled"));
    assert_eq!(home.agents_of(&id).pop().map(|agent| agent.status), Some(AgentState::Killed));
    assert!(home.worktree(&id).exists(), "what it did stays");
    let told = home.coven(&["workflow", "cancel", &id]).refused(4);
    assert!(told.contains("cancelled"), "{told}");
    check_invariants(&home);
}

#[test]
fn a_restart_goes_on_at_the_step_that_was_running() {
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
    wait_until("the second step runs", is_at_two);
    let pid = home.agents_of(&id).pop().and_then(|agent| agent.pid);
    home.kill_daemon();
    // It ends while nobody looks.
    fs::write(&go, "").expect("room on disk");
    wait_until("the agent is gone", || pid.is_some_and(|pid| !process::is_alive(pid)));
    home.start();

    home.wait_for_task(&id, TaskState::Closed);
    let run = home.run_of(&id);
    assert_eq!(run.steps[2].output.as_deref().map(|text| text.replace('\r', "")), Some("one\ntwo\ndone\n".into()));
    assert_eq!(run.agents.len(), 3, "nobody worked twice");
    check_invariants(&home);
}

/// With an agent that speaks ACP.
fn started_with_agent() -> TestHome {
    let home = TestHome::with_agent(json!({}));
    home.git("git init -q -b main; git config user.name me; git config user.email me@here");
    home.git("echo a > a.txt; echo '/.coven/' > .git/info/exclude; git add -A; git commit -qm first");
    home.start();
    home
}

#[test]
fn an_agent_works_over_acp_and_on_a_terminal_too() {
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
fn an_agent_over_acp_that_refuses_says_so() {
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
fn a_step_that_runs_again_does_not_show_how_it_went_before() {
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
    wait_until("the second round is under way", || {
        let again = step("again");
        (again.iteration, step("try").status.as_str()) == (Some(2), "running")
    });
    assert_eq!((step("try").error, step("try").exit_code), (None, None));
    assert_eq!(step("before").exit_code, Some(1));
    // The one that it stands at is told of.
    fs::write(home.project().join("go"), "").expect("a file");
    home.coven(&["workflow", "cancel", &id]).done();
    home.start_task(&id);
    home.wait_for_task(&id, TaskState::Blocked);
    let shown = home.coven(&["workflow", "show", &id]).done();
    assert!(shown.contains("end of the output of last:\n  why it stops"), "{shown}");
    check_invariants(&home);
}

#[test]
fn what_an_agent_painted_is_handed_on_as_it_stood_there() {
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
fn a_git_that_does_not_end_keeps_nobody_from_stopping() {
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
        fs::remove_file(mark).expect("it is there");
        pid
    };
    let is_gone = |pid: u32| wait_until("the filter is gone", || !process::is_alive(pid));
    // A daemon that stops takes its git along, and the next one begins it again.
    let first = waiting();
    home.stop();
    is_gone(first);
    home.start();
    let second = waiting();
    home.coven(&["workflow", "cancel", &id]).done();
    is_gone(second);
    let told = home.task(&id);
    assert_eq!((told.task.status.as_str(), told.run.expect("a run").status.as_str()), ("open", "cancelled"));
    assert!(home.worktree(&id).join("x.txt").exists(), "what was done stays");
    // Nor does it keep anybody from closing the task; its worktree stays where it is until git ends.
    home.coven(&["task", "close", &id]).done();
    let third = waiting();
    home.stop();
    is_gone(third);
    assert!(home.worktree(&id).join("x.txt").exists(), "what was done stays");
    home.start();
    check_invariants(&home);
    home.stop();
}

#[test]
fn what_a_step_leaves_in_the_background_ends_with_it() {
    let home = started_with_agent();
    // What has ended and was not waited for yet has no command line any more.
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
fn mistakes_in_a_workflow_file_are_told_with_their_lines() {
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
    assert!(ran.stdout.contains("good.yaml: sound, 1 step\n"), "{}", ran.stdout);
    let ran = home.coven(&["workflow", "lint", "bad", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(report[0]["problems"][1]["line"], 6);
    home.coven(&["workflow", "lint", "good"]).done();
    home.start();
    let id = home.add_task("x", "", &["--workflow", "bad"]);
    let told = home.coven(&["task", "start", &id]).refused(2);
    assert!(told.contains("line 6") && told.contains("workflow lint bad"), "{told}");
    assert_eq!(home.task(&id).task.status, TaskState::Open);
}
