//! `kill -9` of the daemon at every point of a conversation: nothing is lost, nothing said twice, the order is kept.

use coven_testing::agents::{agent, agent_path, counted, numbers, user};
use coven_testing::{TestHome, check_invariants, wait_until};
use hyper::Method;
use serde_json::{Value, json};

use super::{Scene, gate, kill_and_start, let_through};

#[test]
fn killed_in_mid_stream_again_and_again() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "pace 1200 300");
    let mut seen = 0;

    for round in 0..6 {
        // Further than the last time: the stream goes on under every daemon.
        wait_until("the stream goes on", || {
            let now = numbers(&scene.home.agent_text(&id)).len();
            now > seen || scene.home.agent_state(&id).activity == "idle"
        });
        seen = numbers(&scene.home.agent_text(&id)).len();
        kill_and_start(&scene.home);
        let text = scene.home.agent_text(&id);
        let so_far = numbers(&text);
        assert_eq!(so_far, (0..so_far.len() as u64).collect::<Vec<_>>(), "round {round}");
        assert!(so_far.len() >= seen, "round {round}: what was told is not told any more");
    }
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.plainly(&id), [user("pace 1200 300"), agent(&counted(1200))]);
    assert_eq!(scene.home.received_prompts(&id).len(), 1);
    scene.is_sound();
}

#[test]
fn killed_in_a_flood() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "chunks 50000");

    for _ in 0..4 {
        kill_and_start(&scene.home);
    }
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.plainly(&id), [user("chunks 50000"), agent(&counted(50_000))]);
    scene.is_sound();
}

#[test]
fn killed_while_a_permission_waits() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "permit touch x ;; say and on");
    let asked = scene.home.wait_for_request(&id);
    let before = scene.home.said(&id);

    kill_and_start(&scene.home);

    assert_eq!(scene.home.inbox(""), std::slice::from_ref(&asked), "it still waits, once");
    assert_eq!(scene.home.wait_for_activity(&id, "waiting").queued, 0);
    assert_eq!(scene.home.said(&id), before);
    kill_and_start(&scene.home);
    assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    scene.home.wait_for_rest(&id);
    assert_eq!(scene.home.agent_text(&id), "chose:o1-allow_onceand on");
    let answers = scene.home.received(&id).into_iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answers, 1, "it was answered once");
    scene.home.answer_request(&asked.id, &json!({ "decision": "deny" })).refused(409, "already_answered");
    scene.is_sound();
}

#[test]
fn killed_right_after_a_permission_was_answered() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "permit touch x");
    let asked = scene.home.wait_for_request(&id);

    assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "deny" })).status, 200);
    kill_and_start(&scene.home);
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), "chose:o2-reject_once");
    let answers = scene.home.received(&id).into_iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answers, 1, "it was answered once");
    scene.is_sound();
}

#[test]
fn killed_while_prompts_wait_in_the_queue() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    let first = format!("say one ;; until {}", gate.display());
    scene.home.prompt(&id, &first);
    scene.home.wait_for_text(&id, "one");
    scene.home.prompt(&id, "say two");
    scene.home.prompt(&id, "say three");

    kill_and_start(&scene.home);

    let state = scene.home.wait_for_activity(&id, "working");
    assert_eq!(state.queued, 2);
    scene.home.prompt(&id, "say four");
    let_through(&gate);
    scene.home.wait_for_rest(&id);
    assert_eq!(scene.home.agent_text(&id), "onetwothreefour");
    let wanted = [first.as_str(), "say two", "say three", "say four"];
    assert_eq!(scene.home.received_prompts(&id), wanted, "each once, in the order they were given");
    let users: Vec<String> =
        scene.home.said(&id).iter().filter(|it| it.role == "user").map(|it| it.text().to_owned()).collect();
    assert_eq!(users, wanted);
    scene.is_sound();
}

#[test]
fn killed_right_after_each_prompt_was_accepted() {
    let scene = Scene::new(&[]);
    let id = scene.open();

    for nth in 0..8 {
        scene.home.prompt(&id, &format!("say {nth},"));
        kill_and_start(&scene.home);
    }
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), "0,1,2,3,4,5,6,7,");
    let wanted: Vec<String> = (0..8).map(|nth| format!("say {nth},")).collect();
    assert_eq!(scene.home.received_prompts(&id), wanted, "each once");
    scene.is_sound();
}

/// The daemon dies at a named point of the way from its acceptance to the agent.
#[test]
fn killed_between_accepting_a_prompt_and_sending_it() {
    let mut home = TestHome::with_agent(json!({}));
    home.start_with_fault("after_prompt");
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.wait_for_rest(&id);

    let body = json!({ "text": "say hello" }).to_string().into_bytes();
    // Whether its answer comes before the death is not what is tested.
    let _ = home.try_request(Method::POST, &agent_path(&id, "/prompt"), Some(body));
    home.restart_after_death();

    home.wait_for_text(&id, "hello");
    home.wait_for_rest(&id);
    assert_eq!(home.plainly(&id), [user("say hello"), agent("hello")]);
    assert_eq!(home.received_prompts(&id), ["say hello"]);
    check_invariants(&home);
}

#[test]
fn killed_while_the_agent_introduces_itself() {
    let mut home = TestHome::with_agent(json!({}));
    let gate = home.project().join("gate");
    home.env.push(("FAKE_ACP_GATE".to_owned(), gate.display().to_string()));
    home.start();
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    // Accepted, and it cannot have been sent.
    home.prompt(&id, "say hello");

    kill_and_start(&home);
    assert_eq!(home.agent_state(&id).activity, "opening");
    let_through(&gate);
    home.wait_for_text(&id, "hello");
    home.wait_for_rest(&id);

    assert_eq!(home.plainly(&id), [user("say hello"), agent("hello")]);
    let opening = ["initialize", "session/new", "session/prompt"];
    assert_eq!(home.received_methods(&id), opening, "nothing was asked twice");
    check_invariants(&home);
}

#[test]
fn what_an_agent_does_while_no_daemon_runs_is_told_later() {
    let scene = Scene::new(&[]);
    let (goes_on, dies) = (scene.open(), scene.open());
    let gate = gate(&scene, "gate");
    let until = format!("say one ;; until {}", gate.display());
    scene.home.prompt(&goes_on, &format!("{until} ;; chunks 2000 ;; permit touch x"));
    scene.home.prompt(&dies, &format!("{until} ;; say  last words ;; crash 4"));
    scene.home.wait_for_text(&goes_on, "one");
    scene.home.wait_for_text(&dies, "one");

    scene.home.kill_daemon();
    let_through(&gate);
    wait_until("the agent has died", || scene.home.harness_processes(&dies).is_empty());
    scene.home.start();

    let asked = scene.home.wait_for_request(&goes_on);
    assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    scene.home.wait_for_rest(&goes_on);
    let text = scene.home.agent_text(&goes_on);
    assert_eq!(text, format!("one{}chose:o1-allow_once", counted(2000)));
    scene.home.wait_for_end(&dies);
    assert_eq!(scene.home.agent_session(&dies).status, "error");
    assert_eq!(scene.home.session(&dies).exit_code, Some(4));
    assert!(scene.home.agent_text(&dies).starts_with("one") && scene.home.agent_text(&dies).ends_with("last words"));
    assert_eq!(scene.of_system(&dies, "error").len(), 1);
    scene.is_sound();
}

#[test]
fn requests_of_the_agent_that_no_daemon_hears_are_answered_by_the_next() {
    let scene = Scene::new(&["string_ids"]);
    let id = scene.open_as("string_ids");
    let gate = gate(&scene, "gate");
    let file = format!("{}/notes.txt", scene.repo.path);
    let script = format!("say one ;; until {} ;; write {file} words ;; read {file} ;; unknown_request", gate.display());
    scene.home.prompt(&id, &script);
    scene.home.wait_for_text(&id, "one");

    scene.home.kill_daemon();
    let_through(&gate);
    scene.home.start();
    scene.home.wait_for_rest(&id);

    let text = scene.home.agent_text(&id);
    assert_eq!(text, format!("onewrote:{file}read:wordscode=-32601"));
    scene.is_sound();
}

#[test]
fn a_cancel_that_was_accepted_is_carried_out_by_the_next_daemon() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "say working ;; hang");
    scene.home.wait_for_text(&id, "working");

    assert_eq!(scene.home.act(&id, "cancel").status, 202);
    kill_and_start(&scene.home);

    scene.home.wait_for_rest(&id);
    scene.home.turn(&id, "say next");
    assert_eq!(scene.home.agent_text(&id), "workingnext");
    let cancels = scene.home.received_methods(&id).into_iter().filter(|it| it == "session/cancel").count();
    assert_eq!(cancels, 1);
    scene.is_sound();
}

#[test]
fn a_whole_conversation_under_a_daemon_that_keeps_dying() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let mut expected: Vec<(String, Value)> = Vec::new();

    for nth in 0..5 {
        let script = format!("think about {nth} ;; pace 60 300 ;; tool shell {{\"nth\":{nth}}} ;; say done {nth}");
        scene.home.prompt(&id, &script);
        kill_and_start(&scene.home);
        scene.home.wait_for_text(&id, "5 ");
        kill_and_start(&scene.home);
        scene.home.wait_for_rest(&id);
        expected.push(user(&script));
        let thought = json!({ "type": "thought", "text": format!("about {nth}"), "partial": false });
        expected.extend([("agent".to_owned(), thought), agent(&counted(60))]);
        expected.push(agent(&format!("done {nth}")));
    }

    let mut said = scene.home.plainly(&id);
    let tools: Vec<Value> = said.extract_if(.., |(_, content)| content["type"] == "tool").map(|it| it.1).collect();
    assert_eq!(said, expected);
    let args: Vec<&Value> = tools.iter().map(|it| &it["args"]["nth"]).collect();
    assert_eq!(args, [0, 1, 2, 3, 4]);
    assert!(tools.iter().all(|it| it["status"] == "completed"), "{tools:?}");
    scene.is_sound();
}

#[test]
fn a_restart_is_as_harmless_as_a_kill() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    scene.home.prompt(&id, "pace 400 200 ;; permit touch x");
    for _ in 0..3 {
        scene.home.restart();
    }
    let asked = scene.home.wait_for_request(&id);
    scene.home.restart();
    assert_eq!(scene.home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    scene.home.wait_for_rest(&id);

    assert_eq!(scene.home.agent_text(&id), format!("{}chose:o1-allow_once", counted(400)));
    scene.is_sound();
}
