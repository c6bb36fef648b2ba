//! AGENT-14 to AGENT-17: what is said, field for field.

use std::fs;

use coven_testing::agents::{agent, counted, user};
use coven_testing::{TestHome, check_invariants, eventually};
use serde_json::{Value, json};

fn opened() -> (TestHome, String) {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    (home, id)
}

/// The content of every message of the system with this type.
fn of_system(home: &TestHome, id: &str, kind: &str) -> Vec<Value> {
    let said = home.said(id);
    said.into_iter().filter(|it| it.role == "system" && it.kind() == kind).map(|it| it.content).collect()
}

#[test]
fn agent_14_the_users_text_is_stored_as_it_was_given() {
    let (home, id) = opened();
    let text = "say \"quoted\" \\ \u{1f600} ümläut\nand a second line\ttabbed";

    let message = home.prompt(&id, text);
    home.wait_for_rest(&id);

    let first = home.said(&id).remove(0);
    assert_eq!(first.plain(), user(text));
    assert_eq!(first.id, message);
    assert_eq!(home.received_prompts(&id), [text]);
}

#[test]
fn agent_15_the_agents_text_is_partial_while_it_comes_and_one_message_when_it_is_there() {
    let (home, id) = opened();
    let gate = home.project().join("gate");

    home.prompt(&id, &format!("say one ;; until {} ;; say two", gate.display()));
    let part = eventually("the first chunk", || home.said(&id).into_iter().find(|it| it.role == "agent"));
    assert_eq!(part.content, json!({ "type": "text", "text": "one", "partial": true }));
    fs::write(&gate, "").expect("room on disk");
    home.wait_for_rest(&id);

    let said = home.plainly(&id);
    assert_eq!(said[1..], [agent("onetwo")]);
    check_invariants(&home);
}

#[test]
fn agent_15_a_thousand_chunks_are_one_message_and_a_thought_is_none_of_it() {
    let (home, id) = opened();

    let said = home.turn(&id, "chunks 1000 ;; think let me see ;; say done");

    let thought = json!({ "type": "thought", "text": "let me see", "partial": false });
    let plain: Vec<(String, Value)> = said.iter().skip(1).map(|it| it.plain()).collect();
    assert_eq!(plain, [agent(&counted(1000)), ("agent".to_owned(), thought), agent("done")]);
}

#[test]
fn agent_16_a_plan_is_a_message_of_the_system_with_its_steps() {
    let (home, id) = opened();
    let step = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });

    home.turn(&id, "plan look,change,test");
    let first = json!({
        "type": "plan",
        "steps": [step("look", "in_progress"), step("change", "pending"), step("test", "pending")],
    });
    assert_eq!(of_system(&home, &id, "plan"), std::slice::from_ref(&first));

    // A plan that changes within its turn is replaced; that of another turn stays.
    home.turn(&id, "plan a,b ;; say well ;; plan c");
    let second = json!({ "type": "plan", "steps": [step("c", "in_progress")] });
    assert_eq!(of_system(&home, &id, "plan"), [first, second]);
    check_invariants(&home);
}

#[test]
fn agent_17_a_tool_call_is_a_message_of_the_system_with_name_arguments_and_result() {
    let (home, id) = opened();

    home.turn(&id, "tool shell {\"command\":\"ls\",\"all\":true}");

    let mut tools = of_system(&home, &id, "tool");
    let call = tools.remove(0);
    assert_eq!(tools, [] as [Value; 0], "one message, however often it changed");
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
fn agent_17_a_tool_call_without_a_result_has_null_and_a_diff_says_where() {
    let (home, id) = opened();

    home.prompt(&id, "permit touch x");
    let request = home.wait_for_request(&id);
    let waiting = of_system(&home, &id, "tool").remove(0);
    assert_eq!((&waiting["tool"], &waiting["result"]), (&json!("touch x"), &Value::Null));
    assert_eq!((&waiting["args"], &waiting["status"]), (&json!({ "command": "touch x" }), &json!("pending")));
    assert_eq!(home.answer_request(&request.id, &json!({ "decision": "deny" })).status, 200);
    home.wait_for_rest(&id);
    assert_eq!(of_system(&home, &id, "tool").remove(0)["status"], "failed");

    home.turn(&id, "diff src/main.rs");
    let edit = of_system(&home, &id, "tool").remove(1);
    assert_eq!((&edit["tool"], &edit["kind"]), (&json!("edit src/main.rs"), &json!("edit")));
    assert_eq!(edit["args"], json!({}));
    let diff = json!([{ "type": "diff", "path": "src/main.rs", "oldText": "old\n", "newText": "new\n" }]);
    assert_eq!(edit["result"]["content"], diff);
    assert_eq!(edit["locations"], json!([{ "path": "src/main.rs", "line": 1 }]));
}
