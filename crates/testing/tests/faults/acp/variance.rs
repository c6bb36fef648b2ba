//! What real agents do differently from each other: each is fine.

use coven_testing::agents::{Said, agent, user};
use coven_testing::{process, wait_until};
use serde_json::{Value, json};

use super::Scene;

#[test]
fn request_ids_may_be_strings() {
    let scene = Scene::new(&["string_ids"]);
    let id = scene.open_as("string_ids");
    scene.home.prompt(&id, "permit touch x ;; unknown_request");
    let asked = scene.home.wait_for_request(&id);

    assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), "chose:o1-allow_oncecode=-32601");
    let answers: Vec<Value> = scene
        .home
        .received(&id)
        .into_iter()
        .filter(|it| it.get("method").is_none())
        .map(|it| it["id"].clone())
        .collect();
    assert_eq!(answers, [json!("request-0"), json!("request-1")], "as the agent spelt them");
    scene.is_sound();
}

#[test]
fn a_cancelled_turn_may_end_with_end_turn() {
    let scene = Scene::new(&["end_turn_after_cancel"]);
    let id = scene.open_as("end_turn_after_cancel");
    scene.home.prompt(&id, "say working ;; hang");
    scene.home.wait_for_text(&id, "working");
    scene.home.prompt(&id, "say never");

    assert_eq!(scene.home.act(&id, "cancel").status, 202);
    scene.home.wait_for_rest(&id);

    scene.home.turn(&id, "say next");
    assert_eq!(scene.home.agent_text(&id), "workingnext");
    assert_eq!(scene.home.received_prompts(&id), ["say working ;; hang", "say next"]);
    scene.is_sound();
}

#[test]
fn updates_may_come_after_the_result_of_load() {
    let scene = Scene::new(&["load_updates_late"]);
    let first = scene.open_as("load_updates_late");
    scene.home.turn(&first, "say hello");
    scene.home.cancel_session(&first);
    scene.home.wait_for_end(&first);

    let request = json!({ "harness": "load_updates_late", "channel": "acp", "resume": first });
    let second = scene.home.launch_with(request).id;
    scene.home.wait_for_text(&second, "hello");
    scene.home.turn(&second, "say again");

    let said = scene.home.said(&second);
    let texts: Vec<&str> = said.iter().map(Said::text).collect();
    assert_eq!(texts, ["say hello", "hello", "say again", "again"]);
    let replayed: Vec<bool> = said.iter().map(|it| it.content["replayed"] == true).collect();
    assert_eq!(replayed, [true, true, false, false]);
    scene.is_sound();
}

#[test]
fn a_permission_may_come_without_a_tool_call_or_with_nothing_but_its_id() {
    let scene = Scene::new(&["permit_without_tool_call", "permit_bare"]);

    for harness in ["permit_without_tool_call", "permit_bare"] {
        let id = scene.open_as(harness);
        scene.home.prompt(&id, "permit touch x");
        let asked = scene.home.wait_for_request(&id);
        assert_eq!(asked.title, "touch x", "{harness}");
        assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "deny" })).status, 200);
        scene.home.wait_for_rest(&id);
        assert_eq!(scene.home.agent_text(&id), "chose:o2-reject_once");
        scene.home.prompt(&id, "permit touch y");
        let asked = scene.home.wait_for_request(&id);
        assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
        scene.home.wait_for_rest(&id);
        let tools = scene.of_system(&id, "tool");
        let done = tools.iter().find(|it| it.content["status"] == "completed").expect("the call that was allowed");
        assert_eq!(done.content["tool"], "touch y", "{harness}: {tools:?}");
    }
    scene.is_sound();
}

#[test]
fn children_that_an_agent_leaves_do_not_outlive_its_session() {
    let scene = Scene::new(&[]);
    for (script, code) in
        [("fork_child", None), ("fork_child holding", None), ("fork_child holding ;; crash 2", Some(2))]
    {
        let id = scene.open();
        scene.home.prompt(&id, script);
        let text = scene.home.wait_for_text(&id, "child=");
        let child: u32 = text.trim_start_matches("child=").parse().expect("a pid");

        match code {
            // The child holds the pipe open; the agent's own end is what counts.
            Some(code) => {
                scene.home.wait_for_end(&id);
                assert_eq!(scene.home.session(&id).exit_code, Some(code));
                assert_eq!(scene.home.agent_session(&id).status, "error");
                process::kill_hard(child);
            }
            None => {
                assert_eq!(scene.home.cancel_session(&id).status, 200);
                scene.home.wait_for_end(&id);
            }
        }
        wait_until("the child is gone", || !process::is_alive(child));
    }
    scene.is_sound();
}

#[test]
fn an_agent_that_ignores_the_end_of_its_input_and_sigterm_is_ended() {
    let scene = Scene::new(&["ignore_eof", "ignore_eof.ignore_sigterm"]);

    for (harness, end) in ["ignore_eof", "ignore_eof.ignore_sigterm"].into_iter().zip(["finish", "delete"]) {
        let id = scene.open_as(harness);
        scene.home.turn(&id, "say hello");
        match end {
            "finish" => drop(scene.home.act(&id, "finish")),
            _ => drop(scene.home.cancel_session(&id)),
        }
        scene.home.wait_for_end(&id);
        wait_until("its process is gone", || scene.home.harness_processes(&id).is_empty());
    }
    scene.is_sound();
}

#[test]
fn updates_may_come_after_the_answer_to_a_prompt() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.prompt(&id, "say in time ;; late_update");
    scene.home.wait_for_text(&id, "late");
    scene.home.turn(&id, "say next");

    let text = scene.home.agent_text(&id);
    assert_eq!(text, "in timelatenext");
    assert!(scene.home.said(&id).iter().all(|it| it.content["partial"] != true), "{:?}", scene.home.said(&id));
    scene.is_sound();
}

#[test]
fn unknown_updates_are_kept_unknown_requests_refused_and_notifications_passed_over() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    scene.home.turn(&id, "unknown_update ;; unknown_request ;; ext_notification ;; orphan_update ;; say done");

    let kept = scene.of_system(&id, "update");
    let update = json!({ "sessionUpdate": "weather_report", "sky": "clear" });
    assert_eq!(kept.iter().map(|it| &it.content["update"]).collect::<Vec<_>>(), [&update]);
    let text = scene.home.agent_text(&id);
    assert_eq!(text, "code=-32601done");
    scene.is_sound();
}

#[test]
fn a_prompt_that_the_agent_sends_back_is_not_said_twice() {
    let scene = Scene::new(&["echo_prompt"]);
    let id = scene.open_as("echo_prompt");

    scene.home.turn(&id, "say hello");

    assert_eq!(scene.home.plainly(&id), [user("say hello"), agent("hello")]);
    scene.is_sound();
}
