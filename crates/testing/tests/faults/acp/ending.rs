//! The end of sessions: the right reason, a report of unsent prompts, and no new turns.

use std::time::Instant;

use coven_domain::message::Activity;
use coven_testing::agents::{agent_path, numbers, user};
use coven_testing::{DEADLINE, TestHome, check_invariants, process, wait_until};
use hyper::Method;
use serde_json::json;

use super::{Fixture, gate, open_gate};

#[test]
fn an_agent_that_refuses_the_session_and_exits_is_an_error() {
    let fixture = Fixture::new(&["refuse_and_exit"]);

    // The response and the exit come together: their order must not matter.
    for _ in 0..5 {
        let id = fixture.open_as("refuse_and_exit");
        fixture.home.wait_for_end(&id);
        assert_eq!(fixture.home.agent_session(&id).status, "error");
        let message = fixture.error_of(&id);
        assert!(message.contains("the quota is used up"), "{message}");
    }
    fixture.assert_others_unaffected();
}

#[test]
fn the_next_daemon_ends_a_session_that_could_not_be_opened() {
    let fixture = Fixture::new(&["refuse_new.ignore_sigterm"]);
    let failures = "SELECT count(*) FROM conversations WHERE state LIKE '%\"phase\":\"Failed\"%'";
    let failures = || fixture.database().query_row(failures, [], |row| row.get::<_, i64>(0)).expect("count");

    for round in 1..=3 {
        let daemon = fixture.home.health().pid;
        let id = fixture.open_as("refuse_new.ignore_sigterm");
        // Poll without a delay: the failure is stored, but the session may not have started to end.
        let until = Instant::now() + DEADLINE;
        while failures() < round {
            assert!(Instant::now() < until, "the handshake does not fail");
        }
        process::kill_hard(daemon);
        fixture.home.restart_after_death();

        let prompt = fixture.home.post(&agent_path(&id, "/prompt"), &json!({ "text": "say hello" }));
        prompt.expect_error(409, "session_not_live");
        fixture.home.wait_for_agent_status(&id, "error");
        fixture.home.wait_for_end(&id);
        wait_until("the agent process has exited", || fixture.home.harness_processes(&id).is_empty());
        assert!(fixture.error_of(&id).contains("the quota is used up"));
    }
    fixture.assert_others_unaffected();
}

#[test]
fn queued_prompts_are_not_sent_to_an_agent_that_is_being_ended() {
    let fixture = Fixture::new(&["ignore_sigterm"]);
    for end in ["delete", "finish"] {
        let id = fixture.open_as("ignore_sigterm");
        let ran = gate(&fixture, &format!("ran-{end}"));
        let first = "say working ;; hang";
        fixture.home.prompt(&id, first);
        fixture.home.wait_for_text(&id, "working");
        fixture.home.prompt(&id, &format!("touch {}", ran.display()));

        match end {
            "finish" => assert_eq!(fixture.home.act(&id, "finish").status, 200),
            _ => assert_eq!(fixture.home.cancel_session(&id).status, 200),
        }
        let late = fixture.home.post(&agent_path(&id, "/prompt"), &json!({ "text": "say hello" }));
        late.expect_error(409, "session_not_live");
        fixture.home.wait_for_end(&id);

        assert_eq!(fixture.home.received_prompts(&id), [first], "{end}");
        assert!(!ran.exists());
        assert_eq!(fixture.turns(&id).iter().filter(|it| *it == "started").count(), 1, "{:?}", fixture.turns(&id));
        let cancelled = fixture.system_messages(&id, "cancelled");
        assert!(
            cancelled.iter().any(|it| it.content["reason"] == "prompts that were not sent: 1"),
            "{end}: {cancelled:?}"
        );
        assert_eq!(fixture.home.agent_state(&id).queued, 0);
    }
    fixture.assert_others_unaffected();
}

#[test]
fn a_turn_ends_with_its_agent_and_queued_prompts_are_reported() {
    let fixture = Fixture::new(&[]);
    for (last_command, kills_daemon) in [("crash 9", false), ("exit_mid", false), ("crash 9", true)] {
        let id = fixture.open();
        let gate = gate(&fixture, &id);
        fixture.home.prompt(&id, &format!("say half ;; until {} ;; {last_command}", gate.display()));
        fixture.home.wait_for_text(&id, "half");
        fixture.home.prompt(&id, "say never");

        if kills_daemon {
            fixture.home.kill_daemon();
        }
        open_gate(&gate);
        if kills_daemon {
            wait_until("the agent has exited", || fixture.home.harness_processes(&id).is_empty());
            fixture.home.start();
        }
        fixture.home.wait_for_end(&id);

        assert_eq!(fixture.turns(&id), ["started", "session_over"], "{last_command}");
        let cancelled = fixture.system_messages(&id, "cancelled");
        let reasons: Vec<_> = cancelled.iter().map(|it| &it.content["reason"]).collect();
        assert_eq!(reasons, ["prompts that were not sent: 1"], "{last_command}");
        assert_eq!(fixture.home.agent_state(&id).queued, 0);
    }
    fixture.assert_others_unaffected();
}

/// A response that arrives with the exit must not start the next queued prompt.
#[test]
fn no_turn_is_started_for_an_exited_agent() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    fixture.home.prompt(&id, &format!("say half ;; until {}", gate.display()));
    fixture.home.wait_for_text(&id, "half");
    fixture.home.prompt(&id, "say never");

    fixture.home.kill_daemon();
    open_gate(&gate);
    let agent = fixture.home.harness_processes(&id);
    // The agent has answered once the log contains the response.
    let dir = fixture.home.session_dir(&id);
    wait_until("the agent answers", || {
        let (_, log) = coven_testing::journal::log_until(&dir, u64::MAX >> 1);
        String::from_utf8_lossy(&log).contains("end_turn")
    });
    agent.into_iter().for_each(process::kill_hard);
    wait_until("the holder has exited", || fixture.home.holder_of(&id).is_none());
    fixture.home.start();
    fixture.home.wait_for_end(&id);

    assert_eq!(fixture.turns(&id), ["started", "end_turn"]);
    assert_eq!(fixture.system_messages(&id, "cancelled").len(), 1, "{:?}", fixture.home.messages(&id));
    fixture.assert_others_unaffected();
}

#[test]
fn an_interrupted_launch_is_reported_in_the_message_history() {
    let mut home = TestHome::with_agent(json!({}));
    home.start();
    let repo = home.make_repo("app");
    home.stop();
    home.start_with_fault("after_create");

    let body = json!({ "repoId": repo.id, "text": "say hello" }).to_string().into_bytes();
    let _ = home.try_request(Method::POST, "/api/sessions", Some(body));
    home.restart_after_death();

    let id = home.agent_sessions("").sessions.pop().expect("session record").id;
    home.wait_for_agent_status(&id, "error");
    let messages = home.messages_with_roles(&id);
    assert_eq!(messages[0], user("say hello"));
    let errors: Vec<_> = messages.iter().filter(|(role, it)| role == "system" && it["type"] == "error").collect();
    assert_eq!(errors.len(), 1, "{messages:?}");
    let message = errors[0].1["message"].as_str().expect("text");
    assert!(message.contains("cannot launch the agent"), "{message}");
    let state = home.agent_state(&id);
    assert_eq!((state.activity, state.queued), (Activity::Ended, 0));
    check_invariants(&home);
}

#[test]
fn work_without_a_daemon_does_not_count_as_idle_time() {
    // The timeout is three seconds.
    let fixture = Fixture::with(&[], json!({ "idleTimeoutMinutes": 0.05 }));
    let longer = gate(&fixture, "longer-than-that");
    let script = format!("pace 450 100 ;; touch {} ;; pace 600 100", longer.display());
    // No session waits for the others without a prompt: it would become idle.
    let open_and_prompt = || {
        let id = fixture.open();
        fixture.home.prompt(&id, &script);
        id
    };
    let ids: Vec<String> = (0..5).map(|_| open_and_prompt()).collect();
    for id in &ids {
        fixture.home.wait_for_text(id, "5 ");
    }

    fixture.home.kill_daemon();
    wait_until("the agents have worked longer than the timeout", || longer.exists());
    fixture.home.start();

    for id in &ids {
        wait_until("the agent continues", || {
            assert_eq!(
                fixture.home.agent_session(id).status,
                "active",
                "{:?}",
                fixture.home.agent_session(id).metadata
            );
            numbers(&fixture.home.agent_text(id)).len() > 700
        });
    }
    for id in &ids {
        assert_eq!(fixture.home.cancel_session(id).status, 200);
        fixture.home.wait_for_end(id);
    }
    // The session without work reaches its idle timeout.
    fixture.home.wait_for_agent_status(&fixture.bystander, "completed");
    check_invariants(&fixture.home);
}
