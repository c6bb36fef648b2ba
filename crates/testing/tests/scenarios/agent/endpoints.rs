//! AGENT-18 to AGENT-23: the endpoints of `/api/sessions`.

use std::fs;

use coven_domain::message::Activity;
use coven_testing::agents::{AgentMessage, agent, agent_path, user};
use coven_testing::records::CompatSessionRecord;
use coven_testing::{TestHome, check_invariants, process, wait_until};
use serde_json::{Value, json};

use super::{is_iso_time, is_uuid};

const UNKNOWN_ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn agent_18_create_answers_201_with_the_session() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");

    let answer = home.post("/api/sessions", &json!({ "repoId": repo.id }));

    assert_eq!(answer.status, 201);
    let session: Value = answer.json();
    assert!(session["id"].as_str().is_some_and(is_uuid), "{session}");
    assert_eq!((&session["repoId"], &session["status"]), (&json!(repo.id), &json!("active")));
    assert!(session["createdAt"].as_str().is_some_and(is_iso_time), "{session}");
    assert_eq!(session["harness"], "gemini");
    assert_eq!(home.agent_sessions("").total, 1);
    check_invariants(&home);
}

#[test]
fn agent_18_create_accepts_a_first_prompt_and_a_title_and_refuses_unknown_values() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");

    let request = json!({ "repoId": repo.id, "text": "say hello", "title": "A greeting" });
    let session = home.open_with(request);
    home.wait_for_text(&session.id, "hello");
    home.wait_for_rest(&session.id);

    assert_eq!(session.title, "A greeting");
    assert_eq!(home.messages_with_roles(&session.id), [user("say hello"), agent("hello")]);
    let post_refused = |request: Value, code: &str| home.post("/api/sessions", &request).expect_error(400, code);
    post_refused(json!({ "repoId": repo.id, "harness": "hal9000" }), "unknown_harness");
    let message = post_refused(json!({ "repoId": repo.id, "colour": "red" }), "invalid_request");
    assert!(message.contains("colour"), "{message}");
    post_refused(json!({ "repoId": 7 }), "invalid_request");
    assert_eq!(home.agent_sessions("").total, 1);
}

#[test]
fn agent_19_list_answers_200_with_sessions_total_limit_and_offset() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let ended = home.open(&repo).id;
    home.cancel_session(&ended);
    home.wait_for_end(&ended);
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);

    let list: Value = home.read(&format!("/api/sessions?repoId={}&status=active&limit=10&offset=0", repo.id));

    assert_eq!(keys(&list), ["limit", "offset", "sessions", "total"]);
    assert_eq!((&list["total"], &list["limit"], &list["offset"]), (&json!(1), &json!(10), &json!(0)));
    let sessions: Vec<CompatSessionRecord> = serde_json::from_value(list["sessions"].clone()).expect("sessions");
    assert_eq!(sessions, [home.agent_session(&id)]);
    for bad in ["?limit=many", "?offset=-1", "?colour=red"] {
        home.get(&format!("/api/sessions{bad}")).expect_error(400, "invalid_request");
    }
}

#[test]
fn agent_20_get_answers_200_with_all_fields_or_404() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");

    let detail: Value = home.read(&agent_path(&id, ""));

    assert_eq!(
        keys(&detail),
        ["createdAt", "harness", "id", "messages", "metadata", "repo", "repoId", "status", "title", "updatedAt"]
    );
    let messages: Vec<AgentMessage> = serde_json::from_value(detail["messages"].clone()).expect("messages");
    assert_eq!(
        messages.iter().map(AgentMessage::role_and_content).collect::<Vec<_>>(),
        [user("say hello"), agent("hello")]
    );
    home.get(&agent_path(UNKNOWN_ID, "")).expect_error(404, "session_not_found");
    home.get(&agent_path(UNKNOWN_ID, "/messages")).expect_error(404, "session_not_found");
}

#[test]
fn agent_21_prompt_answers_202_immediately_and_the_agent_receives_it() {
    let mut home = TestHome::with_agent(json!({}));
    let gate = home.project().join("gate");
    home.env.push(("FAKE_ACP_GATE".to_owned(), gate.display().to_string()));
    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;

    // The agent has not answered yet, so a request that waited for it would never return.
    let answer = home.post(&agent_path(&id, "/prompt"), &json!({ "text": "say hello" }));

    assert_eq!(answer.status, 202);
    let body: Value = answer.json();
    assert_eq!(body, json!({ "ok": true, "accepted": true, "messageId": body["messageId"] }));
    let messages = home.messages(&id);
    assert_eq!(messages.iter().map(AgentMessage::role_and_content).collect::<Vec<_>>(), [user("say hello")]);
    assert_eq!(body["messageId"], json!(messages[0].id));
    assert_eq!(home.agent_state(&id).activity, Activity::Opening);
    fs::write(&gate, "").expect("disk has space");
    home.wait_for_text(&id, "hello");
    assert_eq!(home.received_prompts(&id), ["say hello"]);
}

#[test]
fn agent_21_a_prompt_during_a_turn_is_queued() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let gate = home.project().join("gate");

    home.prompt(&id, &format!("say one ;; until {}", gate.display()));
    home.wait_for_text(&id, "one");
    home.prompt(&id, "say two");
    home.prompt(&id, "say three");
    let state = home.agent_state(&id);
    assert_eq!((state.activity, state.queued), (Activity::Working, 2));
    fs::write(&gate, "").expect("disk has space");
    home.wait_for_rest(&id);

    assert_eq!(home.agent_text(&id), "onetwothree");
    assert_eq!(home.received_prompts(&id).len(), 3);
    check_invariants(&home);
}

#[test]
fn agent_21_an_invalid_prompt_is_refused() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;

    home.post(&agent_path(UNKNOWN_ID, "/prompt"), &json!({ "text": "x" })).expect_error(404, "session_not_found");
    for bad in [json!({}), json!({ "text": "" }), json!({ "text": 7 }), json!({ "text": "x", "colour": "red" })] {
        assert_eq!(home.post(&agent_path(&id, "/prompt"), &bad).status, 400, "{bad}");
    }
    assert_eq!(home.messages(&id), []);
    home.cancel_session(&id);
    home.wait_for_end(&id);
    home.post(&agent_path(&id, "/prompt"), &json!({ "text": "x" })).expect_error(409, "session_not_live");
}

#[test]
fn agent_22_messages_answers_200_with_all_messages_or_those_since_a_time() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say one");
    let all = home.turn(&id, "say two");
    assert_eq!(all.len(), 4);

    for (index, message) in all.iter().enumerate() {
        let later: Vec<AgentMessage> = home.read(&agent_path(&id, &format!("/messages?since={}", message.timestamp)));
        assert_eq!(later, all[index + 1..], "after {}", message.timestamp);
    }
    let early: Vec<AgentMessage> = home.read(&agent_path(&id, "/messages?since=2020-01-01T00:00:00Z"));
    assert_eq!(early, all);
    let late: Vec<AgentMessage> = home.read(&agent_path(&id, "/messages?since=2999-01-01T00:00:00Z"));
    assert_eq!(late, []);
    let message = home.get(&agent_path(&id, "/messages?since=yesterday")).expect_error(400, "invalid_request");
    assert!(message.contains("since"), "{message}");
}

#[test]
fn agent_23_delete_cancels_the_turn_ends_the_agent_and_answers_with_the_session() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "say working ;; hang");
    home.wait_for_text(&id, "working");
    let pid = home.session(&id).pid.expect("is running");

    let answer = home.cancel_session(&id);

    assert_eq!(answer.status, 200);
    let session: CompatSessionRecord = answer.json();
    assert_eq!((session.id.as_str(), session.status.as_str()), (id.as_str(), "cancelled"));
    home.wait_for_end(&id);
    wait_until("the process has exited", || !process::is_alive(pid));
    assert_eq!(home.received_methods(&id).last().map(String::as_str), Some("session/cancel"));
    assert_eq!(home.agent_session(&id).status, "cancelled");
    home.cancel_session(&id).expect_error(409, "session_not_live");
    home.cancel_session(UNKNOWN_ID).expect_error(404, "session_not_found");
    check_invariants(&home);
}
