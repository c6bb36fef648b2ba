//! How sessions end: for the right reason, with a word about everything that was left, and nothing begun any more.

use std::time::Instant;

use coven_testing::agents::{agent_path, numbers, user};
use coven_testing::{DEADLINE, TestHome, check_invariants, process, wait_until};
use hyper::Method;
use serde_json::json;

use super::{Scene, gate, let_through};

#[test]
fn an_agent_that_opens_no_session_and_leaves_is_an_error_however_it_exits() {
    let scene = Scene::new(&["refuse_and_exit"]);

    // Its answer and its exit come at once: which is seen first must not matter.
    for _ in 0..5 {
        let id = scene.open_as("refuse_and_exit");
        scene.home.wait_for_end(&id);
        assert_eq!(scene.home.agent_session(&id).status, "error");
        let message = scene.error_of(&id);
        assert!(message.contains("the quota is used up"), "{message}");
    }
    scene.is_sound();
}

#[test]
fn a_session_that_could_not_be_opened_is_ended_by_the_next_daemon_too() {
    let scene = Scene::new(&["refuse_new.ignore_sigterm"]);
    let failures = "SELECT count(*) FROM conversations WHERE state LIKE '%\"phase\":\"Failed\"%'";
    let failures = || scene.database().query_row(failures, [], |row| row.get::<_, i64>(0)).expect("a count");

    for round in 1..=3 {
        let daemon = scene.home.health().pid;
        let id = scene.open_as("refuse_new.ignore_sigterm");
        // At once: the failure is stored, and its end may not have begun.
        let until = Instant::now() + DEADLINE;
        while failures() < round {
            assert!(Instant::now() < until, "it does not fail");
        }
        process::kill_hard(daemon);
        scene.home.restart_after_death();

        let prompt = scene.home.post(&agent_path(&id, "/prompt"), &json!({ "text": "say hello" }));
        prompt.refused(409, "session_not_live");
        scene.home.wait_for_agent_status(&id, "error");
        scene.home.wait_for_end(&id);
        wait_until("its process is ended", || scene.home.harness_processes(&id).is_empty());
        assert!(scene.error_of(&id).contains("the quota is used up"));
    }
    scene.is_sound();
}

#[test]
fn prompts_that_wait_are_not_given_to_an_agent_that_is_being_ended() {
    let scene = Scene::new(&["ignore_sigterm"]);
    for end in ["delete", "finish"] {
        let id = scene.open_as("ignore_sigterm");
        let ran = gate(&scene, &format!("ran-{end}"));
        let first = "say working ;; hang";
        scene.home.prompt(&id, first);
        scene.home.wait_for_text(&id, "working");
        scene.home.prompt(&id, &format!("touch {}", ran.display()));

        match end {
            "finish" => assert_eq!(scene.home.act(&id, "finish").status, 200),
            _ => assert_eq!(scene.home.cancel_session(&id).status, 200),
        }
        let late = scene.home.post(&agent_path(&id, "/prompt"), &json!({ "text": "say hello" }));
        late.refused(409, "session_not_live");
        scene.home.wait_for_end(&id);

        assert_eq!(scene.home.received_prompts(&id), [first], "{end}");
        assert!(!ran.exists());
        assert_eq!(scene.turns(&id).iter().filter(|it| *it == "started").count(), 1, "{:?}", scene.turns(&id));
        let told = scene.of_system(&id, "cancelled");
        assert!(told.iter().any(|it| it.content["reason"] == "prompts that were not sent: 1"), "{end}: {told:?}");
        assert_eq!(scene.home.agent_state(&id).queued, 0);
    }
    scene.is_sound();
}

#[test]
fn a_turn_that_its_agent_does_not_survive_is_over_and_prompts_behind_it_are_told_of() {
    let scene = Scene::new(&[]);
    for (last_words, kills_daemon) in [("crash 9", false), ("exit_mid", false), ("crash 9", true)] {
        let id = scene.open();
        let gate = gate(&scene, &id);
        scene.home.prompt(&id, &format!("say half ;; until {} ;; {last_words}", gate.display()));
        scene.home.wait_for_text(&id, "half");
        scene.home.prompt(&id, "say never");

        if kills_daemon {
            scene.home.kill_daemon();
        }
        let_through(&gate);
        if kills_daemon {
            wait_until("it is gone", || scene.home.harness_processes(&id).is_empty());
            scene.home.start();
        }
        scene.home.wait_for_end(&id);

        assert_eq!(scene.turns(&id), ["started", "session_over"], "{last_words}");
        let told = scene.of_system(&id, "cancelled");
        let reasons: Vec<_> = told.iter().map(|it| &it.content["reason"]).collect();
        assert_eq!(reasons, ["prompts that were not sent: 1"], "{last_words}");
        assert_eq!(scene.home.agent_state(&id).queued, 0);
    }
    scene.is_sound();
}

/// An answer that comes with the exit does not begin what waits behind it.
#[test]
fn no_turn_is_begun_for_an_agent_that_is_gone() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    scene.home.prompt(&id, &format!("say half ;; until {}", gate.display()));
    scene.home.wait_for_text(&id, "half");
    scene.home.prompt(&id, "say never");

    scene.home.kill_daemon();
    let_through(&gate);
    let agent = scene.home.harness_processes(&id);
    // Its answer is written once the log has it.
    let dir = scene.home.session_dir(&id);
    wait_until("it answers", || {
        let (_, log) = coven_testing::journal::log_until(&dir, u64::MAX >> 1);
        String::from_utf8_lossy(&log).contains("end_turn")
    });
    agent.into_iter().for_each(process::kill_hard);
    wait_until("its holder has ended", || scene.home.holder_of(&id).is_none());
    scene.home.start();
    scene.home.wait_for_end(&id);

    assert_eq!(scene.turns(&id), ["started", "end_turn"]);
    assert_eq!(scene.of_system(&id, "cancelled").len(), 1, "{:?}", scene.home.said(&id));
    scene.is_sound();
}

#[test]
fn a_launch_that_is_cut_off_is_told_in_the_conversation() {
    let mut home = TestHome::with_agent(json!({}));
    home.start();
    let repo = home.make_repo("app");
    home.stop();
    home.start_with_fault("after_create");

    let body = json!({ "repoId": repo.id, "text": "say hello" }).to_string().into_bytes();
    let _ = home.try_request(Method::POST, "/api/sessions", Some(body));
    home.restart_after_death();

    let id = home.agent_sessions("").sessions.pop().expect("a record").id;
    home.wait_for_agent_status(&id, "error");
    let said = home.plainly(&id);
    assert_eq!(said[0], user("say hello"));
    let errors: Vec<_> = said.iter().filter(|(role, it)| role == "system" && it["type"] == "error").collect();
    assert_eq!(errors.len(), 1, "{said:?}");
    let message = errors[0].1["message"].as_str().expect("words");
    assert!(message.contains("could not be launched"), "{message}");
    let state = home.agent_state(&id);
    assert_eq!((state.activity.as_str(), state.queued), ("ended", 0));
    check_invariants(&home);
}

#[test]
fn the_time_without_a_daemon_is_not_held_against_those_who_worked() {
    // Three seconds.
    let scene = Scene::with(&[], json!({ "idleTimeoutMinutes": 0.05 }));
    let longer = gate(&scene, "longer-than-that");
    let ids: Vec<String> = (0..5).map(|_| scene.open()).collect();
    for id in &ids {
        scene.home.prompt(id, &format!("pace 450 100 ;; touch {} ;; pace 600 100", longer.display()));
        scene.home.wait_for_text(id, "5 ");
    }

    scene.home.kill_daemon();
    wait_until("they have worked longer than the timeout", || longer.exists());
    scene.home.start();

    for id in &ids {
        wait_until("it goes on", || {
            assert_eq!(scene.home.agent_session(id).status, "active", "{:?}", scene.home.agent_session(id).metadata);
            numbers(&scene.home.agent_text(id)).len() > 700
        });
    }
    for id in &ids {
        assert_eq!(scene.home.cancel_session(id).status, 200);
        scene.home.wait_for_end(id);
    }
    // The one that did nothing is idle all the same.
    scene.home.wait_for_agent_status(&scene.bystander, "completed");
    check_invariants(&scene.home);
}
