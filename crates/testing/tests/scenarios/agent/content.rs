//! AGENT-14 to AGENT-17: the content of messages, field by field.

use std::fs;

use coven_testing::agents::{agent, counted, user};
use coven_testing::{TestHome, check_invariants, eventually};
use serde_json::{Value, json};

fn open_session() -> (TestHome, String) {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    (home, id)
}

/// Returns the content of every system message of this type.
fn system_contents(home: &TestHome, id: &str, kind: &str) -> Vec<Value> {
    let messages = home.messages(id);
    messages.into_iter().filter(|it| it.role == "system" && it.kind() == kind).map(|it| it.content).collect()
}

#[test]
fn agent_14_the_text_of_the_user_is_stored_unchanged() {
    let (home, id) = open_session();
    let text = "say \"quoted\" \\ \u{1f600} ümläut\nand a second line\ttabbed";

    let message = home.prompt(&id, text);
    home.wait_for_rest(&id);

    let first = home.messages(&id).remove(0);
    assert_eq!(first.role_and_content(), user(text));
    assert_eq!(first.id, message);
    assert_eq!(home.received_prompts(&id), [text]);
}

#[test]
fn agent_15_the_agents_text_is_partial_during_the_turn_and_one_message_afterwards() {
    let (home, id) = open_session();
    let gate = home.project().join("gate");

    home.prompt(&id, &format!("say one ;; until {} ;; say two", gate.display()));
    let part = eventually("the first chunk", || home.messages(&id).into_iter().find(|it| it.role == "agent"));
    assert_eq!(part.content, json!({ "type": "text", "text": "one", "partial": true }));
    fs::write(&gate, "").expect("disk has space");
    home.wait_for_rest(&id);

    let messages = home.messages_with_roles(&id);
    assert_eq!(messages[1..], [agent("onetwo")]);
    check_invariants(&home);
}

#[test]
fn agent_15_a_thousand_chunks_are_one_message_and_a_thought_is_another() {
    let (home, id) = open_session();

    let messages = home.turn(&id, "chunks 1000 ;; think let me see ;; say done");

    let thought = json!({ "type": "thought", "text": "let me see", "partial": false });
    let plain: Vec<(String, Value)> = messages.iter().skip(1).map(|it| it.role_and_content()).collect();
    assert_eq!(plain, [agent(&counted(1000)), ("agent".to_owned(), thought), agent("done")]);
}

#[test]
fn agent_16_a_plan_is_a_system_message_with_its_steps() {
    let (home, id) = open_session();
    let step = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });

    home.turn(&id, "plan look,change,test");
    let first = json!({
        "type": "plan",
        "steps": [step("look", "in_progress"), step("change", "pending"), step("test", "pending")],
    });
    assert_eq!(system_contents(&home, &id, "plan"), std::slice::from_ref(&first));

    // A new plan replaces the plan of the same turn. Plans of other turns stay.
    home.turn(&id, "plan a,b ;; say well ;; plan c");
    let second = json!({ "type": "plan", "steps": [step("c", "in_progress")] });
    assert_eq!(system_contents(&home, &id, "plan"), [first, second]);
    check_invariants(&home);
}

#[test]
fn agent_17_a_tool_call_is_a_system_message_with_name_arguments_and_result() {
    let (home, id) = open_session();

    home.turn(&id, "tool shell {\"command\":\"ls\",\"all\":true}");

    let mut tools = system_contents(&home, &id, "tool");
    let call = tools.remove(0);
    assert_eq!(tools, [] as [Value; 0], "one message despite several updates");
    let expected = json!({
        "type": "tool",
        "tool": "shell",
        "args": { "command": "ls", "all": true },
        "result": {
            "content": [{ "type": "content", "content": { "type": "text", "text": "shell is done" } }],
            "rawOutput": { "code": 0 },
        },
        "status": "completed",
        "kind": "execute",
        "toolCallId": call["toolCallId"],
    });
    assert_eq!(call, expected);
    assert!(call["toolCallId"].is_string());
    check_invariants(&home);
}

#[test]
fn agent_17_a_tool_call_without_a_result_has_null_and_a_diff_has_its_location() {
    let (home, id) = open_session();

    home.prompt(&id, "permit touch x");
    let request = home.wait_for_request(&id);
    let waiting = system_contents(&home, &id, "tool").remove(0);
    assert_eq!((&waiting["tool"], &waiting["result"]), (&json!("touch x"), &Value::Null));
    assert_eq!((&waiting["args"], &waiting["status"]), (&json!({ "command": "touch x" }), &json!("pending")));
    assert_eq!(home.answer_request(&request.id, &json!({ "decision": "deny" })).status, 200);
    home.wait_for_rest(&id);
    assert_eq!(system_contents(&home, &id, "tool").remove(0)["status"], "failed");

    home.turn(&id, "diff src/main.rs");
    let edit = system_contents(&home, &id, "tool").remove(1);
    assert_eq!((&edit["tool"], &edit["kind"]), (&json!("edit src/main.rs"), &json!("edit")));
    assert_eq!(edit["args"], json!({}));
    let diff = json!([{ "type": "diff", "path": "src/main.rs", "oldText": "old\n", "newText": "new\n" }]);
    assert_eq!(edit["result"]["content"], diff);
    assert_eq!(edit["locations"], json!([{ "path": "src/main.rs", "line": 1 }]));
}
