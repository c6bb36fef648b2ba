//! Agents that send messages of an unexpected form: at most the message is lost, never the session.

use coven_api::acp_state::AcpModes;
use coven_testing::agents::{AgentMessage, user};
use coven_testing::wait_until;
use serde_json::json;

use super::{Fixture, gate, kill_and_restart, open_gate};

/// The modes of an agent that named only the current one.
fn only_mode(id: &str) -> Option<AcpModes> {
    Some(AcpModes { current_mode_id: Some(id.to_owned()), available_modes: Vec::new() })
}

#[test]
fn modes_of_an_unexpected_form_do_not_break_the_session() {
    let fixture = Fixture::new(&["modes_list"]);
    let id = fixture.open_as("modes_list");

    fixture.home.turn(&id, "mode code ;; say fine");

    assert_eq!(fixture.home.agent_text(&id), "fine");
    assert_eq!(fixture.home.agent_state(&id).modes, only_mode("code"));
    kill_and_restart(&fixture.home);
    fixture.home.turn(&id, "mode ask ;; say  and later");
    assert_eq!(fixture.home.agent_state(&id).modes, only_mode("ask"));
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    fixture.home.wait_for_end(&id);
    assert_eq!(fixture.home.agent_session(&id).status, "cancelled");
    fixture.assert_others_unaffected();
}

#[test]
fn a_mode_update_right_before_the_exit_does_not_prevent_the_end() {
    let fixture = Fixture::new(&["modes_list"]);
    let id = fixture.open_as("modes_list");

    let gate = gate(&fixture, "gate");
    fixture.home.prompt(&id, &format!("say here ;; until {} ;; mode code ;; exit_mid", gate.display()));
    fixture.home.wait_for_text(&id, "here");
    fixture.home.kill_daemon();
    open_gate(&gate);
    wait_until("the agent has exited", || fixture.home.harness_processes(&id).is_empty());
    fixture.home.start();

    fixture.home.wait_for_end(&id);
    assert_eq!(fixture.home.agent_text(&id), "here");
    fixture.assert_others_unaffected();
}

#[test]
fn an_error_of_any_form_ends_the_turn_and_is_reported() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    for (error, expected) in [
        ("quota exceeded", "quota exceeded"),
        (r#"{"code":"E1","message":"an odd code"}"#, "an odd code"),
        (r#"{"code":7,"message":{"deep":"words"}}"#, "words"),
        (r#"{"message":"no code at all"}"#, "no code at all"),
        ("[1,2]", "[1,2]"),
        ("false", "false"),
    ] {
        fixture.home.prompt(&id, &format!("say trying ;; error_odd {error}"));
        let state = fixture.home.wait_for_rest(&id);
        assert_eq!(state.stop_reason.as_deref(), Some("error"), "{error}");
        let last = fixture.system_messages(&id, "error").pop().expect("message");
        let message = last.content["message"].as_str().expect("text").to_owned();
        assert!(message.contains(expected), "{error}: {message}");
    }

    fixture.home.turn(&id, "say better now");
    assert!(fixture.home.agent_text(&id).ends_with("better now"));
    fixture.assert_others_unaffected();
}

#[test]
fn a_partial_message_stays_one_message_when_a_prompt_arrives() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let (first, second) = (gate(&fixture, "first"), gate(&fixture, "second"));
    let script =
        format!("say one, ;; until {} ;; say two, ;; until {} ;; say three", first.display(), second.display());
    fixture.home.prompt(&id, &script);
    fixture.home.wait_for_text(&id, "one,");

    // The prompt arrives between the chunks of the message.
    fixture.home.prompt(&id, "say four");
    open_gate(&first);
    fixture.home.wait_for_text(&id, "two,");

    let partly = json!({ "type": "text", "text": "one,two,", "partial": true });
    let so_far = [user(&script), ("agent".to_owned(), partly), user("say four")];
    assert_eq!(fixture.home.messages_with_roles(&id), so_far);
    kill_and_restart(&fixture.home);
    assert_eq!(fixture.home.messages_with_roles(&id), so_far);
    open_gate(&second);
    fixture.home.wait_for_rest(&id);
    let messages = fixture.home.messages(&id);
    let mut texts: Vec<&str> = messages.iter().map(AgentMessage::text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["four", "one,two,three", "say four", &script]);
    fixture.assert_others_unaffected();
}
