//! Reads recorded calls and screens of Claude Code 2.1.327.

use super::*;
use crate::rules::{Evidence, RuleInput, RuleMeaning, RuleSet};

const SESSION: &str = include_str!("../../../../tests/claude/session.jsonl");
const SUBAGENT: &str = include_str!("../../../../tests/claude/subagent_permission.json");

fn calls() -> Vec<(String, Value)> {
    let call = |line: &str| {
        let call: Value = serde_json::from_str(line).expect("a recorded call");
        (call["event"].as_str().expect("an event").to_owned(), call["payload"].clone())
    };
    SESSION.lines().map(call).collect()
}

/// Returns the payload of the first call with this event and tool.
fn recorded(event: &str, tool_name: &str) -> Value {
    calls().into_iter().find(|(it, payload)| it == event && tool(payload) == tool_name).expect("it was recorded").1
}

fn facts(event: &str, payload: &Value) -> Vec<ActivityFact> {
    let fact = |meaning| match meaning {
        HookMeaning::Activity { fact, .. } => Some(fact),
        _ => None,
    };
    read(event, payload).into_iter().filter_map(fact).collect()
}

fn asked(payload: &Value) -> HookRequest {
    let found = read("PermissionRequest", payload).into_iter().find_map(|meaning| match meaning {
        HookMeaning::Asked(request) => Some(request),
        _ => None,
    });
    found.expect("a request")
}

fn decision(payload: &Value, given: &HookAnswer<'_>) -> Value {
    let text = answer(payload, given).expect("a decision");
    let output: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(output["hookSpecificOutput"]["hookEventName"], "PermissionRequest");
    output["hookSpecificOutput"]["decision"].clone()
}

#[test]
fn a_recorded_session_becomes_facts() {
    use ActivityFact::{LimitReached, PermissionAsked, Rested, TurnEnded, Worked};
    for (event, payload) in calls() {
        let expected = match event.as_str() {
            "UserPromptSubmit" | "PostToolUse" | "PostToolUseFailure" => vec![Worked],
            "PreToolUse" if tool(&payload) != QUESTION_TOOL => vec![Worked],
            "Stop" => vec![TurnEnded],
            "StopFailure" => vec![LimitReached],
            "SessionStart" if payload["source"] == "clear" => vec![TurnEnded],
            "Notification" if payload["notification_type"] == "permission_prompt" => vec![PermissionAsked],
            "Notification" => vec![Rested],
            _ => vec![],
        };
        assert_eq!(facts(&event, &payload), expected, "{event} {payload}");
    }
}

#[test]
fn the_conversation_changes_after_clear() {
    let id = |(event, payload): (String, Value)| match read(&event, &payload).into_iter().next() {
        Some(HookMeaning::Conversation { id, transcript }) => {
            assert!(transcript.is_some_and(|path| path.ends_with(&format!("{id}.jsonl"))));
            id
        }
        other => panic!("{event}: {other:?}"),
    };
    let mut ids: Vec<String> = calls().into_iter().map(id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[test]
fn background_tasks_are_counted_when_a_turn_ends() {
    let counts: Vec<u32> = calls()
        .iter()
        .filter(|(event, _)| event == "Stop")
        .flat_map(|(event, payload)| read(event, payload))
        .filter_map(|meaning| if let HookMeaning::BackgroundCount(count) = meaning { Some(count) } else { None })
        .collect();
    assert_eq!(counts, [0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn scheduled_prompts_of_the_session_count_as_background_tasks() {
    let stop = |tasks: Value, crons: Value| {
        let payload = json!({ "background_tasks": tasks, "session_crons": crons });
        read("Stop", &payload).into_iter().find_map(|meaning| match meaning {
            HookMeaning::BackgroundCount(count) => Some(count),
            _ => None,
        })
    };
    let cron = json!({ "id": "c1", "schedule": "*/5 * * * *", "recurring": true, "prompt": "check the build" });
    let (running, ended) = (json!({ "id": "t1", "status": "running" }), json!({ "id": "t2", "status": "completed" }));
    assert_eq!(stop(json!([]), json!([cron])), Some(1));
    assert_eq!(stop(json!([running, ended]), json!([cron])), Some(2));
    assert_eq!(stop(json!([ended]), json!([])), Some(0));
    assert_eq!(stop(Value::Null, json!("none")), Some(0));
}

#[test]
fn a_permission_offers_the_rule_that_claude_suggests() {
    let payload = recorded("PermissionRequest", "Bash");
    let request = asked(&payload);
    assert!(request.is_answerable);
    let HookRequestBody::Permission { title, options, .. } = &request.body else { panic!("{request:?}") };
    assert_eq!(title, "wants to run: touch one.txt");
    let names: Vec<(&str, &str)> = options.iter().map(|it| (it.kind.as_str(), it.name.as_str())).collect();
    let always = "Always allow: access to /home/ann/shop in this session";
    assert_eq!(names, [("allow_once", "Allow"), ("allow_always", always), ("reject_once", "Deny")]);
    let given = |index: usize| decision(&payload, &HookAnswer::Option(&options[index]));
    assert_eq!(given(0), json!({ "behavior": "allow" }));
    assert_eq!(given(1)["updatedPermissions"], json!([payload["permission_suggestions"][0]]));
    assert_eq!(given(2)["behavior"], "deny");
    assert_eq!(decision(&payload, &HookAnswer::Rejected)["behavior"], "deny");
}

#[test]
fn the_end_of_a_tool_settles_its_own_request_only() {
    for name in ["Bash", QUESTION_TOOL] {
        let key = asked(&recorded("PermissionRequest", name)).key;
        let settled = HookMeaning::Settled { key: key.clone() };
        let ends: Vec<bool> = calls()
            .iter()
            .filter(|(event, _)| event == "PostToolUse")
            .map(|(event, payload)| read(event, payload).contains(&settled))
            .collect();
        assert_eq!(ends.iter().filter(|it| **it).count(), 1, "{key:?}");
    }
}

#[test]
fn a_question_is_answered_by_its_text() {
    let payload = recorded("PermissionRequest", QUESTION_TOOL);
    let HookRequestBody::Question { questions } = asked(&payload).body else { panic!("{payload}") };
    assert_eq!((questions.len(), questions[0].prompt.as_str()), (1, "Which database?"));
    assert_eq!(questions[0].options[1].label, "Postgres");
    let chosen = QuestionAnswer { selected_option: Some("Postgres".to_owned()), ..QuestionAnswer::default() };
    let given = decision(&payload, &HookAnswer::Answers(&[chosen]));
    // Claude ran the tool with this input when the answer was recorded.
    let mut used = recorded("PostToolUse", QUESTION_TOOL)["tool_input"].clone();
    assert_eq!(given["updatedInput"], used.take());
}

#[test]
fn a_subagent_is_only_observed() {
    let payload: Value = serde_json::from_str(SUBAGENT).expect("a recorded call");
    assert!(!asked(&payload).is_answerable);
}

#[test]
fn calls_that_are_not_understood_mean_nothing() {
    assert_eq!(read("Stop", &Value::Null).len(), 2);
    assert_eq!(read("NewEvent", &json!({ "x": 1 })), []);
    assert!(matches!(asked(&Value::Null).body, HookRequestBody::Permission { .. }));
}

#[test]
fn screens_and_titles_are_recognised() {
    use RuleMeaning::{Limited, Permission, Question, Resting, Working};
    let rules = RuleSet::parse(include_str!("../screen.toml")).expect("valid rules");
    let found = |on, lines: &[&str]| rules.find(&Evidence { on, lines }).map(|found| found.rule.means);
    for (screen, expected) in [
        (include_str!("../../../../tests/claude/permission.txt"), Some(Permission)),
        (include_str!("../../../../tests/claude/question.txt"), Some(Question)),
        (include_str!("../../../../tests/claude/settings.txt"), Some(Question)),
        (include_str!("../../../../tests/claude/limit.txt"), Some(Limited)),
        (include_str!("../../../../tests/claude/retrying.txt"), Some(Limited)),
        (include_str!("../../../../tests/claude/idle.txt"), None),
    ] {
        let lines: Vec<&str> = screen.lines().collect();
        assert_eq!(found(RuleInput::Screen, &lines), expected, "{screen}");
    }
    assert_eq!(found(RuleInput::Title, &["◑ Claude Code"]), Some(Working));
    assert_eq!(found(RuleInput::Title, &["✳ Claude Code"]), Some(Resting));
    assert_eq!(found(RuleInput::Title, &["shop"]), None);
}
