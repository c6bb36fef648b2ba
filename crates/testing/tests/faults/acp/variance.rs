//! Differences between real agents, all of which are supported.

use coven_testing::agents::{AgentMessage, agent, user};
use coven_testing::{process, wait_until};
use serde_json::{Value, json};

use super::Fixture;

#[test]
fn request_ids_may_be_strings() {
    let fixture = Fixture::new(&["string_ids"]);
    let id = fixture.open_as("string_ids");
    fixture.home.prompt(&id, "permit touch x ;; unknown_request");
    let asked = fixture.home.wait_for_request(&id);

    assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), "chose:o1-allow_oncecode=-32601");
    let answers: Vec<Value> = fixture
        .home
        .received(&id)
        .into_iter()
        .filter(|it| it.get("method").is_none())
        .map(|it| it["id"].clone())
        .collect();
    assert_eq!(answers, [json!("request-0"), json!("request-1")], "the ids of the agent, unchanged");
    fixture.assert_others_unaffected();
}

#[test]
fn a_cancelled_turn_may_end_with_end_turn() {
    let fixture = Fixture::new(&["end_turn_after_cancel"]);
    let id = fixture.open_as("end_turn_after_cancel");
    fixture.home.prompt(&id, "say working ;; hang");
    fixture.home.wait_for_text(&id, "working");
    fixture.home.prompt(&id, "say never");

    assert_eq!(fixture.home.act(&id, "cancel").status, 202);
    fixture.home.wait_for_rest(&id);

    fixture.home.turn(&id, "say next");
    assert_eq!(fixture.home.agent_text(&id), "workingnext");
    assert_eq!(fixture.home.received_prompts(&id), ["say working ;; hang", "say next"]);
    fixture.assert_others_unaffected();
}

#[test]
fn updates_may_come_after_the_result_of_load() {
    let fixture = Fixture::new(&["load_updates_late"]);
    let first = fixture.open_as("load_updates_late");
    fixture.home.turn(&first, "say hello");
    fixture.home.cancel_session(&first);
    fixture.home.wait_for_end(&first);

    let request = json!({ "harness": "load_updates_late", "channel": "acp", "resume": first });
    let second = fixture.home.launch_with(request).id;
    fixture.home.wait_for_text(&second, "hello");
    fixture.home.turn(&second, "say again");

    let messages = fixture.home.messages(&second);
    let texts: Vec<&str> = messages.iter().map(AgentMessage::text).collect();
    assert_eq!(texts, ["say hello", "hello", "say again", "again"]);
    let replayed: Vec<bool> = messages.iter().map(|it| it.content["replayed"] == true).collect();
    assert_eq!(replayed, [true, true, false, false]);
    fixture.assert_others_unaffected();
}

#[test]
fn a_permission_request_may_have_no_tool_call_or_only_its_id() {
    let fixture = Fixture::new(&["permit_without_tool_call", "permit_bare"]);

    for harness in ["permit_without_tool_call", "permit_bare"] {
        let id = fixture.open_as(harness);
        fixture.home.prompt(&id, "permit touch x");
        let asked = fixture.home.wait_for_request(&id);
        assert_eq!(asked.title, "touch x", "{harness}");
        assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "deny" })).status, 200);
        fixture.home.wait_for_rest(&id);
        assert_eq!(fixture.home.agent_text(&id), "chose:o2-reject_once");
        fixture.home.prompt(&id, "permit touch y");
        let asked = fixture.home.wait_for_request(&id);
        assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
        fixture.home.wait_for_rest(&id);
        let tools = fixture.system_messages(&id, "tool");
        let done = tools.iter().find(|it| it.content["status"] == "completed").expect("allowed call");
        assert_eq!(done.content["tool"], "touch y", "{harness}: {tools:?}");
    }
    fixture.assert_others_unaffected();
}

#[test]
fn children_of_an_agent_do_not_outlive_its_session() {
    let fixture = Fixture::new(&[]);
    for (script, code) in
        [("fork_child", None), ("fork_child holding", None), ("fork_child holding ;; crash 2", Some(2))]
    {
        let id = fixture.open();
        fixture.home.prompt(&id, script);
        let text = fixture.home.wait_for_text(&id, "child=");
        let child: u32 = text.trim_start_matches("child=").parse().expect("pid");

        match code {
            // The child keeps the pipe open, but the exit of the agent counts.
            Some(code) => {
                fixture.home.wait_for_end(&id);
                assert_eq!(fixture.home.session(&id).exit_code, Some(code));
                assert_eq!(fixture.home.agent_session(&id).status, "error");
                process::kill_hard(child);
            }
            None => {
                assert_eq!(fixture.home.cancel_session(&id).status, 200);
                fixture.home.wait_for_end(&id);
            }
        }
        wait_until("the child has exited", || !process::is_alive(child));
    }
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_that_ignores_eof_and_sigterm_is_killed() {
    let fixture = Fixture::new(&["ignore_eof", "ignore_eof.ignore_sigterm"]);

    for (harness, end) in ["ignore_eof", "ignore_eof.ignore_sigterm"].into_iter().zip(["finish", "delete"]) {
        let id = fixture.open_as(harness);
        fixture.home.turn(&id, "say hello");
        match end {
            "finish" => drop(fixture.home.act(&id, "finish")),
            _ => drop(fixture.home.cancel_session(&id)),
        }
        fixture.home.wait_for_end(&id);
        wait_until("the agent process has exited", || fixture.home.harness_processes(&id).is_empty());
    }
    fixture.assert_others_unaffected();
}

#[test]
fn updates_may_come_after_the_answer_to_a_prompt() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, "say in time ;; late_update");
    fixture.home.wait_for_text(&id, "late");
    fixture.home.turn(&id, "say next");

    let text = fixture.home.agent_text(&id);
    assert_eq!(text, "in timelatenext");
    assert!(
        fixture.home.messages(&id).iter().all(|it| it.content["partial"] != true),
        "{:?}",
        fixture.home.messages(&id)
    );
    fixture.assert_others_unaffected();
}

#[test]
fn unknown_updates_are_stored_unknown_requests_refused_and_notifications_ignored() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.turn(&id, "unknown_update ;; unknown_request ;; ext_notification ;; orphan_update ;; say done");

    let kept = fixture.system_messages(&id, "update");
    let update = json!({ "sessionUpdate": "weather_report", "sky": "clear" });
    assert_eq!(kept.iter().map(|it| &it.content["update"]).collect::<Vec<_>>(), [&update]);
    let text = fixture.home.agent_text(&id);
    assert_eq!(text, "code=-32601done");
    fixture.assert_others_unaffected();
}

#[test]
fn a_prompt_echoed_by_the_agent_is_not_duplicated() {
    let fixture = Fixture::new(&["echo_prompt"]);
    let id = fixture.open_as("echo_prompt");

    fixture.home.turn(&id, "say hello");

    assert_eq!(fixture.home.messages_with_roles(&id), [user("say hello"), agent("hello")]);
    fixture.assert_others_unaffected();
}
