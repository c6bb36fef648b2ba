//! Agents whose words have a shape that nobody expects: the words are lost at most, never the session.

use coven_testing::agents::{Said, user};
use coven_testing::wait_until;
use serde_json::json;

use super::{Scene, gate, kill_and_start, let_through};

#[test]
fn modes_of_another_shape_do_not_make_anybody_deaf() {
    let scene = Scene::new(&["modes_list"]);
    let id = scene.open_as("modes_list");

    scene.home.turn(&id, "mode code ;; say fine");

    assert_eq!(scene.home.agent_text(&id), "fine");
    assert_eq!(scene.home.agent_state(&id).modes, json!({ "currentModeId": "code" }));
    kill_and_start(&scene.home);
    scene.home.turn(&id, "mode ask ;; say  and later");
    assert_eq!(scene.home.agent_state(&id).modes, json!({ "currentModeId": "ask" }));
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    scene.home.wait_for_end(&id);
    assert_eq!(scene.home.agent_session(&id).status, "cancelled");
    scene.is_sound();
}

#[test]
fn what_an_agent_says_of_its_modes_at_its_end_does_not_keep_it_from_ending() {
    let scene = Scene::new(&["modes_list"]);
    let id = scene.open_as("modes_list");

    let gate = gate(&scene, "gate");
    scene.home.prompt(&id, &format!("say here ;; until {} ;; mode code ;; exit_mid", gate.display()));
    scene.home.wait_for_text(&id, "here");
    scene.home.kill_daemon();
    let_through(&gate);
    wait_until("it is gone", || scene.home.harness_processes(&id).is_empty());
    scene.home.start();

    scene.home.wait_for_end(&id);
    assert_eq!(scene.home.agent_text(&id), "here");
    scene.is_sound();
}

#[test]
fn an_error_of_any_shape_ends_the_turn_and_is_told() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    for (error, told) in [
        ("quota exceeded", "quota exceeded"),
        (r#"{"code":"E1","message":"an odd code"}"#, "an odd code"),
        (r#"{"code":7,"message":{"deep":"words"}}"#, "words"),
        (r#"{"message":"no code at all"}"#, "no code at all"),
        ("[1,2]", "[1,2]"),
        ("false", "false"),
    ] {
        scene.home.prompt(&id, &format!("say trying ;; error_odd {error}"));
        let state = scene.home.wait_for_rest(&id);
        assert_eq!(state.stop_reason.as_deref(), Some("error"), "{error}");
        let last = scene.of_system(&id, "error").pop().expect("a message");
        let message = last.content["message"].as_str().expect("words").to_owned();
        assert!(message.contains(told), "{error}: {message}");
    }

    scene.home.turn(&id, "say better now");
    assert!(scene.home.agent_text(&id).ends_with("better now"));
    scene.is_sound();
}

#[test]
fn a_message_that_is_being_written_stays_one_while_a_prompt_comes_in() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let (first, second) = (gate(&scene, "first"), gate(&scene, "second"));
    let script =
        format!("say one, ;; until {} ;; say two, ;; until {} ;; say three", first.display(), second.display());
    scene.home.prompt(&id, &script);
    scene.home.wait_for_text(&id, "one,");

    // It stands behind the beginning and before the rest.
    scene.home.prompt(&id, "say four");
    let_through(&first);
    scene.home.wait_for_text(&id, "two,");

    let partly = json!({ "type": "text", "text": "one,two,", "partial": true });
    let so_far = [user(&script), ("agent".to_owned(), partly), user("say four")];
    assert_eq!(scene.home.plainly(&id), so_far);
    kill_and_start(&scene.home);
    assert_eq!(scene.home.plainly(&id), so_far);
    let_through(&second);
    scene.home.wait_for_rest(&id);
    let said = scene.home.said(&id);
    let mut texts: Vec<&str> = said.iter().map(Said::text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["four", "one,two,three", "say four", &script]);
    scene.is_sound();
}
