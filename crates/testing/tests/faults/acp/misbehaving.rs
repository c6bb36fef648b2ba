//! Agents that crash, hang, or send invalid data.

use std::fs;

use coven_api::inbox::InboxStatus;
use coven_domain::message::Activity;
use coven_testing::{process, wait_until};
use hyper::Method;
use rustix::process::Signal;

use super::Fixture;

#[test]
fn an_agent_that_crashes_in_a_turn_is_an_error_and_its_messages_are_kept() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, "say so far ;; crash 9");
    fixture.home.wait_for_end(&id);

    assert_eq!(fixture.home.agent_session(&id).status, "error");
    assert_eq!(fixture.home.agent_text(&id), "so far");
    assert!(fixture.error_of(&id).contains('9'));
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_that_is_killed_between_turns_is_an_error() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.turn(&id, "say hello");

    process::signal(fixture.home.session(&id).pid.expect("is running"), Signal::KILL);
    fixture.home.wait_for_end(&id);

    assert_eq!(fixture.home.agent_session(&id).status, "error");
    assert!(!fixture.error_of(&id).is_empty());
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_that_exits_during_a_turn_is_an_error() {
    let fixture = Fixture::new(&[]);
    for last_command in ["exit_mid", "torn"] {
        let id = fixture.open();
        fixture.home.prompt(&id, &format!("say half of it ;; {last_command}"));
        fixture.home.prompt(&id, "say never");
        fixture.home.wait_for_end(&id);

        assert_ne!(fixture.home.agent_session(&id).status, "active");
        assert_eq!(fixture.home.agent_text(&id), "half of it");
        assert!(!fixture.system_messages(&id, "error").is_empty(), "{last_command}: {:?}", fixture.home.messages(&id));
        assert_eq!(fixture.home.agent_state(&id).activity, Activity::Ended);
    }
    fixture.assert_others_unaffected();
}

#[test]
fn a_hanging_turn_can_be_cancelled_and_an_unresponsive_agent_ended() {
    let fixture = Fixture::new(&[]);
    let (responsive, unresponsive) = (fixture.open(), fixture.open());
    for (id, script) in [(&responsive, "say working ;; hang"), (&unresponsive, "say working ;; hang_forever")] {
        fixture.home.prompt(id, script);
        fixture.home.wait_for_text(id, "working");
        assert_eq!(fixture.home.act(id, "cancel").status, 202);
    }

    let state = fixture.home.wait_for_rest(&responsive);
    assert_eq!(state.stop_reason.as_deref(), Some("cancelled"));
    fixture.home.turn(&responsive, "say fine");
    assert_eq!(fixture.home.agent_text(&responsive), "workingfine");
    // The other agent ignores the cancellation, but its session can be ended.
    assert_eq!(fixture.home.agent_session(&unresponsive).status, "active");
    assert_eq!(fixture.home.cancel_session(&unresponsive).status, 200);
    fixture.home.wait_for_end(&unresponsive);
    assert_eq!(fixture.home.agent_session(&unresponsive).status, "cancelled");
    fixture.assert_others_unaffected();
}

#[test]
fn lines_that_are_not_json_are_ignored_and_the_turn_continues() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    for nonsense in ["invalid_json", "invalid_utf8", "not_an_object"] {
        fixture.home.turn(&id, &format!("say before {nonsense} ;; {nonsense} ;; say  and after"));
    }

    let text: String = fixture.home.agent_text(&id);
    for nonsense in ["invalid_json", "invalid_utf8", "not_an_object"] {
        assert!(text.contains(&format!("before {nonsense}")), "{text}");
    }
    assert_eq!(text.matches("and after").count(), 3, "{text}");
    assert_eq!(fixture.home.agent_session(&id).status, "active");
    // The log contains the invalid lines unchanged.
    assert!(fixture.home.log_text(&id).contains(r#"{"jsonrpc": "2.0", "method": "#));
    fixture.assert_others_unaffected();
}

#[test]
fn a_response_with_an_unknown_id_is_ignored() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = fixture.home.project().join("gate");

    fixture.home.prompt(&id, &format!("say one ;; wrong_id ;; until {}", gate.display()));
    fixture.home.wait_for_text(&id, "one");
    // The response does not belong to the prompt, so the turn continues.
    assert_eq!(fixture.home.agent_state(&id).activity, Activity::Working);
    fs::write(&gate, "").expect("disk has space");
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), "one");
    fixture.assert_others_unaffected();
}

#[test]
fn stderr_output_does_not_become_a_message() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    let messages = fixture.home.turn(&id, "stderr {\"jsonrpc\":\"2.0\"} warning: deprecated ;; say done ;; stderr bye");

    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(fixture.home.agent_text(&id), "done");
    fixture.assert_others_unaffected();
}

#[test]
fn an_error_response_to_a_prompt_ends_only_the_turn() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    for code in ["-32603", "400"] {
        fixture.home.prompt(&id, &format!("say trying ;; error {code} the model is out of reach"));
        let state = fixture.home.wait_for_rest(&id);
        assert_eq!(state.stop_reason.as_deref(), Some("error"));
    }

    let errors = fixture.system_messages(&id, "error");
    assert_eq!(errors.len(), 2, "{errors:?}");
    for error in errors {
        let message = error.content["message"].as_str().expect("text");
        assert!(message.contains("the model is out of reach"), "{message}");
    }
    fixture.home.turn(&id, "say better now");
    assert!(fixture.home.agent_text(&id).ends_with("better now"));
    fixture.assert_others_unaffected();
}

#[test]
fn a_repo_in_use_cannot_be_removed_and_a_deleted_folder_does_not_end_its_session() {
    let fixture = Fixture::new(&[]);
    let other = fixture.home.make_repo("doomed");
    let id = fixture.home.open(&other).id;
    fixture.home.turn(&id, "say hello");

    let answer = fixture.home.request(Method::DELETE, &format!("/api/repos/{}", other.id), None);
    answer.expect_error(409, "repo_in_use");
    fs::remove_dir_all(&other.path).expect("writable");

    fixture.home.turn(
        &id,
        &format!("read {}/a.txt ;; write {}/a.txt x ;; shell pwd ;; say still there", other.path, other.path),
    );
    let text = fixture.home.agent_text(&id);
    assert!(text.contains("read error") && text.ends_with("still there"), "{text}");
    fixture.home.restart();
    fixture.home.turn(&id, "say and after a restart");
    assert!(fixture.home.agent_text(&id).ends_with("and after a restart"));
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    fixture.home.wait_for_end(&id);
    let answer = fixture.home.request(Method::DELETE, &format!("/api/repos/{}", other.id), None);
    assert_eq!(answer.status, 200);
    assert_eq!(fixture.home.agent_session(&id).repo_id, Some(other.id));
    fixture.assert_others_unaffected();
}

#[test]
fn killing_a_holder_ends_only_its_session_and_cancels_its_request() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "permit touch x");
    let asked = fixture.home.wait_for_request(&id);

    process::kill_hard(fixture.home.holder_of(&id).expect("has a holder"));

    assert_eq!(fixture.home.wait_for_agent_status(&id, "error").status, "error");
    wait_until("the session's processes have exited", || fixture.home.harness_processes(&id).is_empty());
    let item: coven_api::inbox::InboxItem = fixture.home.read(&format!("/api/v1/inbox/{}", asked.id));
    assert_eq!(item.status, InboxStatus::Cancelled);
    fixture.assert_others_unaffected();
}
