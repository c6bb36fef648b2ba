//! `kill -9` of the daemon at every point of an ACP session: no message is lost, repeated or out of order.

use coven_domain::message::Activity;
use coven_testing::agents::{agent, agent_path, counted, numbers, user};
use coven_testing::{TestHome, check_invariants, wait_until};
use hyper::Method;
use serde_json::{Value, json};

use super::{Fixture, gate, kill_and_restart, open_gate};

#[test]
fn killed_repeatedly_during_a_stream() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "pace 1200 300");
    let mut seen = 0;

    for round in 0..6 {
        // The stream continues under every daemon.
        wait_until("the stream continues", || {
            let now = numbers(&fixture.home.agent_text(&id)).len();
            now > seen || fixture.home.agent_state(&id).activity == Activity::Idle
        });
        seen = numbers(&fixture.home.agent_text(&id)).len();
        kill_and_restart(&fixture.home);
        let text = fixture.home.agent_text(&id);
        let so_far = numbers(&text);
        assert_eq!(so_far, (0..so_far.len() as u64).collect::<Vec<_>>(), "round {round}");
        assert!(so_far.len() >= seen, "round {round}: messages are lost");
    }
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.messages_with_roles(&id), [user("pace 1200 300"), agent(&counted(1200))]);
    assert_eq!(fixture.home.received_prompts(&id).len(), 1);
    fixture.assert_others_unaffected();
}

#[test]
fn killed_in_a_flood() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "chunks 50000");

    for _ in 0..4 {
        kill_and_restart(&fixture.home);
    }
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.messages_with_roles(&id), [user("chunks 50000"), agent(&counted(50_000))]);
    fixture.assert_others_unaffected();
}

#[test]
fn killed_while_a_permission_request_is_pending() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "permit touch x ;; say and on");
    let asked = fixture.home.wait_for_request(&id);
    let before = fixture.home.messages(&id);

    kill_and_restart(&fixture.home);

    assert_eq!(fixture.home.inbox(""), std::slice::from_ref(&asked), "the request is still pending, once");
    assert_eq!(fixture.home.wait_for_activity(&id, Activity::Waiting).queued, 0);
    assert_eq!(fixture.home.messages(&id), before);
    kill_and_restart(&fixture.home);
    assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    fixture.home.wait_for_rest(&id);
    assert_eq!(fixture.home.agent_text(&id), "chose:o1-allow_onceand on");
    let answers = fixture.home.received(&id).into_iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answers, 1, "the request was answered once");
    fixture.home.answer_request(&asked.id, &json!({ "decision": "deny" })).expect_error(409, "already_answered");
    fixture.assert_others_unaffected();
}

#[test]
fn killed_right_after_a_permission_request_was_answered() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "permit touch x");
    let asked = fixture.home.wait_for_request(&id);

    assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "deny" })).status, 200);
    kill_and_restart(&fixture.home);
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), "chose:o2-reject_once");
    let answers = fixture.home.received(&id).into_iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answers, 1, "one response");
    fixture.assert_others_unaffected();
}

#[test]
fn killed_while_prompts_are_queued() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    let first = format!("say one ;; until {}", gate.display());
    fixture.home.prompt(&id, &first);
    fixture.home.wait_for_text(&id, "one");
    fixture.home.prompt(&id, "say two");
    fixture.home.prompt(&id, "say three");

    kill_and_restart(&fixture.home);

    let state = fixture.home.wait_for_activity(&id, Activity::Working);
    assert_eq!(state.queued, 2);
    fixture.home.prompt(&id, "say four");
    open_gate(&gate);
    fixture.home.wait_for_rest(&id);
    assert_eq!(fixture.home.agent_text(&id), "onetwothreefour");
    let wanted = [first.as_str(), "say two", "say three", "say four"];
    assert_eq!(fixture.home.received_prompts(&id), wanted, "each prompt once and in order");
    let users: Vec<String> =
        fixture.home.messages(&id).iter().filter(|it| it.role == "user").map(|it| it.text().to_owned()).collect();
    assert_eq!(users, wanted);
    fixture.assert_others_unaffected();
}

#[test]
fn killed_right_after_each_prompt_was_accepted() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    for nth in 0..8 {
        fixture.home.prompt(&id, &format!("say {nth},"));
        kill_and_restart(&fixture.home);
    }
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), "0,1,2,3,4,5,6,7,");
    let wanted: Vec<String> = (0..8).map(|nth| format!("say {nth},")).collect();
    assert_eq!(fixture.home.received_prompts(&id), wanted, "each prompt once");
    fixture.assert_others_unaffected();
}

/// The daemon dies after it accepts the prompt and before it sends it.
#[test]
fn killed_between_accepting_a_prompt_and_sending_it() {
    let mut home = TestHome::with_agent(json!({}));
    home.start_with_fault("after_prompt");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);

    let gate = home.project().join("gate");
    let prompt = format!("say hello ;; until {}", gate.display());
    let body = json!({ "text": prompt }).to_string().into_bytes();
    // The daemon may die before it answers.
    let _ = home.try_request(Method::POST, &agent_path(&id, "/prompt"), Some(body));
    home.restart_after_death();

    home.wait_for_text(&id, "hello");
    home.wait_for_evidence(&id, coven_domain::activity::Activity::Working);
    open_gate(&gate);
    home.wait_for_rest(&id);
    assert_eq!(home.messages_with_roles(&id), [user(&prompt), agent("hello")]);
    assert_eq!(home.received_prompts(&id), [prompt]);
    check_invariants(&home);
}

/// The daemon dies after it stored a permission request and before it stored that the session waits.
#[test]
fn killed_between_storing_a_permission_request_and_its_activity() {
    let mut home = TestHome::with_agent(json!({}));
    home.start_with_fault("after_acp_request");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);

    let body = json!({ "text": "permit touch x" }).to_string().into_bytes();
    // The daemon may die before it answers.
    let _ = home.try_request(Method::POST, &agent_path(&id, "/prompt"), Some(body));
    home.restart_after_death();

    let asked = home.wait_for_request(&id);
    home.wait_for_evidence(&id, coven_domain::activity::Activity::Permission);
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    home.wait_for_rest(&id);
    home.wait_for_evidence(&id, coven_domain::activity::Activity::Idle);
}

#[test]
fn killed_during_the_handshake() {
    let mut home = TestHome::with_agent(json!({}));
    let gate = home.project().join("gate");
    home.env.push(("FAKE_ACP_GATE".to_owned(), gate.display().to_string()));
    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    // The prompt is accepted but cannot have been sent.
    home.prompt(&id, "say hello");

    kill_and_restart(&home);
    assert_eq!(home.agent_state(&id).activity, Activity::Opening);
    open_gate(&gate);
    home.wait_for_text(&id, "hello");
    home.wait_for_rest(&id);

    assert_eq!(home.messages_with_roles(&id), [user("say hello"), agent("hello")]);
    let opening = ["initialize", "session/new", "session/prompt"];
    assert_eq!(home.received_methods(&id), opening, "no request was sent twice");
    check_invariants(&home);
}

#[test]
fn messages_from_the_time_without_a_daemon_are_recorded_later() {
    let fixture = Fixture::new(&[]);
    let (survivor, dies) = (fixture.open(), fixture.open());
    let gate = gate(&fixture, "gate");
    let until = format!("say one ;; until {}", gate.display());
    fixture.home.prompt(&survivor, &format!("{until} ;; chunks 2000 ;; permit touch x"));
    fixture.home.prompt(&dies, &format!("{until} ;; say  and more ;; crash 4"));
    fixture.home.wait_for_text(&survivor, "one");
    fixture.home.wait_for_text(&dies, "one");

    fixture.home.kill_daemon();
    open_gate(&gate);
    wait_until("the agent has exited", || fixture.home.harness_processes(&dies).is_empty());
    fixture.home.start();

    let asked = fixture.home.wait_for_request(&survivor);
    assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    fixture.home.wait_for_rest(&survivor);
    let text = fixture.home.agent_text(&survivor);
    assert_eq!(text, format!("one{}chose:o1-allow_once", counted(2000)));
    fixture.home.wait_for_end(&dies);
    assert_eq!(fixture.home.agent_session(&dies).status, "error");
    assert_eq!(fixture.home.session(&dies).exit_code, Some(4));
    assert!(fixture.home.agent_text(&dies).starts_with("one") && fixture.home.agent_text(&dies).ends_with("and more"));
    assert_eq!(fixture.system_messages(&dies, "error").len(), 1);
    fixture.assert_others_unaffected();
}

#[test]
fn requests_sent_without_a_daemon_are_answered_by_the_next_daemon() {
    let fixture = Fixture::new(&["string_ids"]);
    let id = fixture.open_as("string_ids");
    let gate = gate(&fixture, "gate");
    let file = format!("{}/notes.txt", fixture.repo.path);
    let script = format!("say one ;; until {} ;; write {file} words ;; read {file} ;; unknown_request", gate.display());
    fixture.home.prompt(&id, &script);
    fixture.home.wait_for_text(&id, "one");

    fixture.home.kill_daemon();
    open_gate(&gate);
    fixture.home.start();
    fixture.home.wait_for_rest(&id);

    let text = fixture.home.agent_text(&id);
    assert_eq!(text, format!("onewrote:{file}read:wordscode=-32601"));
    fixture.assert_others_unaffected();
}

#[test]
fn an_accepted_cancel_is_completed_by_the_next_daemon() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "say working ;; hang");
    fixture.home.wait_for_text(&id, "working");

    assert_eq!(fixture.home.act(&id, "cancel").status, 202);
    kill_and_restart(&fixture.home);

    fixture.home.wait_for_rest(&id);
    fixture.home.turn(&id, "say next");
    assert_eq!(fixture.home.agent_text(&id), "workingnext");
    let cancels = fixture.home.received_methods(&id).into_iter().filter(|it| it == "session/cancel").count();
    assert_eq!(cancels, 1);
    fixture.assert_others_unaffected();
}

#[test]
fn a_whole_session_under_a_daemon_that_keeps_dying() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let mut expected: Vec<(String, Value)> = Vec::new();

    for nth in 0..5 {
        let script = format!("think about {nth} ;; pace 60 300 ;; tool shell {{\"nth\":{nth}}} ;; say done {nth}");
        fixture.home.prompt(&id, &script);
        kill_and_restart(&fixture.home);
        fixture.home.wait_for_text(&id, "5 ");
        kill_and_restart(&fixture.home);
        fixture.home.wait_for_rest(&id);
        expected.push(user(&script));
        let thought = json!({ "type": "thought", "text": format!("about {nth}"), "partial": false });
        expected.extend([("agent".to_owned(), thought), agent(&counted(60))]);
        expected.push(agent(&format!("done {nth}")));
    }

    let mut messages = fixture.home.messages_with_roles(&id);
    let tools: Vec<Value> = messages.extract_if(.., |(_, content)| content["type"] == "tool").map(|it| it.1).collect();
    assert_eq!(messages, expected);
    let args: Vec<&Value> = tools.iter().map(|it| &it["args"]["nth"]).collect();
    assert_eq!(args, [0, 1, 2, 3, 4]);
    assert!(tools.iter().all(|it| it["status"] == "completed"), "{tools:?}");
    fixture.assert_others_unaffected();
}

#[test]
fn restarts_lose_no_messages() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    fixture.home.prompt(&id, "pace 400 200 ;; permit touch x");
    for _ in 0..3 {
        fixture.home.restart();
    }
    let asked = fixture.home.wait_for_request(&id);
    fixture.home.restart();
    assert_eq!(fixture.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    fixture.home.wait_for_rest(&id);

    assert_eq!(fixture.home.agent_text(&id), format!("{}chose:o1-allow_once", counted(400)));
    fixture.assert_others_unaffected();
}
