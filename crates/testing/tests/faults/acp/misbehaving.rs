//! Agents that break off, hang, or write what nobody can read.

use std::fs;

use coven_testing::{process, wait_until};
use hyper::Method;
use rustix::process::Signal;

use super::Scene;

#[test]
fn an_agent_that_crashes_in_a_turn_is_an_error_and_keeps_what_it_said() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, "say so far ;; crash 9");
    scene.home.wait_for_end(&id);

    assert_eq!(scene.home.agent_session(&id).status, "error");
    assert_eq!(scene.home.agent_text(&id), "so far");
    assert!(scene.error_of(&id).contains('9'));
    scene.is_sound();
}

#[test]
fn an_agent_that_is_killed_between_turns_is_an_error() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.turn(&id, "say hello");

    process::signal(scene.home.session(&id).pid.expect("it runs"), Signal::KILL);
    scene.home.wait_for_end(&id);

    assert_eq!(scene.home.agent_session(&id).status, "error");
    assert!(!scene.error_of(&id).is_empty());
    scene.is_sound();
}

#[test]
fn an_agent_that_exits_during_a_prompt_leaves_a_turn_that_is_told_as_broken_off() {
    let scene = Scene::new(&[]);
    for last_words in ["exit_mid", "torn"] {
        let id = scene.open();
        scene.home.prompt(&id, &format!("say half of it ;; {last_words}"));
        scene.home.prompt(&id, "say never");
        scene.home.wait_for_end(&id);

        assert_ne!(scene.home.agent_session(&id).status, "active");
        assert_eq!(scene.home.agent_text(&id), "half of it");
        assert!(!scene.of_system(&id, "error").is_empty(), "{last_words}: {:?}", scene.home.said(&id));
        assert_eq!(scene.home.agent_state(&id).activity, "ended");
    }
    scene.is_sound();
}

#[test]
fn an_agent_that_hangs_can_be_cancelled_and_one_that_ignores_that_can_be_ended() {
    let scene = Scene::new(&[]);
    let (heeds, ignores) = (scene.open(), scene.open());
    for (id, script) in [(&heeds, "say working ;; hang"), (&ignores, "say working ;; hang_forever")] {
        scene.home.prompt(id, script);
        scene.home.wait_for_text(id, "working");
        assert_eq!(scene.home.act(id, "cancel").status, 202);
    }

    let state = scene.home.wait_for_rest(&heeds);
    assert_eq!(state.stop_reason.as_deref(), Some("cancelled"));
    scene.home.turn(&heeds, "say fine");
    assert_eq!(scene.home.agent_text(&heeds), "workingfine");
    // The other one does not even answer; its session is still ours to end.
    assert_eq!(scene.home.agent_session(&ignores).status, "active");
    assert_eq!(scene.home.cancel_session(&ignores).status, 200);
    scene.home.wait_for_end(&ignores);
    assert_eq!(scene.home.agent_session(&ignores).status, "cancelled");
    scene.is_sound();
}

#[test]
fn lines_that_are_no_json_are_passed_over_and_the_turn_goes_on() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    for nonsense in ["invalid_json", "invalid_utf8", "not_an_object"] {
        scene.home.turn(&id, &format!("say before {nonsense} ;; {nonsense} ;; say  and after"));
    }

    let text: String = scene.home.agent_text(&id);
    for nonsense in ["invalid_json", "invalid_utf8", "not_an_object"] {
        assert!(text.contains(&format!("before {nonsense}")), "{text}");
    }
    assert_eq!(text.matches("and after").count(), 3, "{text}");
    assert_eq!(scene.home.agent_session(&id).status, "active");
    // What it wrote is in the log as it was, for whoever looks into it.
    assert!(scene.home.log_text(&id).contains(r#"{"jsonrpc": "2.0", "method": "#));
    scene.is_sound();
}

#[test]
fn an_answer_to_a_question_that_nobody_asked_is_passed_over() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = scene.home.project().join("gate");

    scene.home.prompt(&id, &format!("say one ;; wrong_id ;; until {}", gate.display()));
    scene.home.wait_for_text(&id, "one");
    // It was no answer to the prompt: the turn goes on.
    assert_eq!(scene.home.agent_state(&id).activity, "working");
    fs::write(&gate, "").expect("room on disk");
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), "one");
    scene.is_sound();
}

#[test]
fn what_an_agent_writes_to_stderr_is_no_message() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    let said = scene.home.turn(&id, "stderr {\"jsonrpc\":\"2.0\"} warning: deprecated ;; say done ;; stderr bye");

    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(scene.home.agent_text(&id), "done");
    scene.is_sound();
}

#[test]
fn an_error_to_a_prompt_ends_the_turn_and_not_the_session() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    for code in ["-32603", "400"] {
        scene.home.prompt(&id, &format!("say trying ;; error {code} the model is out of reach"));
        let state = scene.home.wait_for_rest(&id);
        assert_eq!(state.stop_reason.as_deref(), Some("error"));
    }

    let errors = scene.of_system(&id, "error");
    assert_eq!(errors.len(), 2, "{errors:?}");
    for error in errors {
        let message = error.content["message"].as_str().expect("words");
        assert!(message.contains("the model is out of reach"), "{message}");
    }
    scene.home.turn(&id, "say better now");
    assert!(scene.home.agent_text(&id).ends_with("better now"));
    scene.is_sound();
}

#[test]
fn a_repo_that_is_in_use_is_not_removed_and_one_whose_folder_goes_takes_nobody_along() {
    let scene = Scene::new(&[]);
    let other = scene.home.make_repo("doomed");
    let id = scene.home.open(&other).id;
    scene.home.turn(&id, "say hello");

    let answer = scene.home.request(Method::DELETE, &format!("/api/repos/{}", other.id), None);
    answer.refused(409, "repo_in_use");
    fs::remove_dir_all(&other.path).expect("ours");

    scene.home.turn(
        &id,
        &format!("read {}/a.txt ;; write {}/a.txt x ;; shell pwd ;; say still there", other.path, other.path),
    );
    let text = scene.home.agent_text(&id);
    assert!(text.contains("read error") && text.ends_with("still there"), "{text}");
    scene.home.restart();
    scene.home.turn(&id, "say and after a restart");
    assert!(scene.home.agent_text(&id).ends_with("and after a restart"));
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    scene.home.wait_for_end(&id);
    let answer = scene.home.request(Method::DELETE, &format!("/api/repos/{}", other.id), None);
    assert_eq!(answer.status, 200);
    assert_eq!(scene.home.agent_session(&id).repo_id, Some(other.id));
    scene.is_sound();
}

#[test]
fn a_holder_that_is_killed_takes_its_session_and_its_request_along_and_nobody_else() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "permit touch x");
    let asked = scene.home.wait_for_request(&id);

    process::kill_hard(scene.home.holder_of(&id).expect("a holder"));

    assert_eq!(scene.home.wait_for_agent_status(&id, "error").status, "error");
    wait_until("nobody is left", || scene.home.harness_processes(&id).is_empty());
    let item: coven_api::inbox::InboxItem = scene.home.read(&format!("/api/v1/inbox/{}", asked.id));
    assert_eq!(item.status, "cancelled");
    scene.is_sound();
}
