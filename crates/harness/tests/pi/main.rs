//! What coven learns from Pi, with calls of the extension and screens recorded from version 0.87.1.

use std::collections::BTreeMap;
use std::path::Path;

use coven_domain::activity::ActivityFact;
use coven_harness::agents;
use coven_harness::hooks::{HookMeaning, HookSetup, Hooks, Injection};
use coven_harness::rules::{Evidence, RuleInput, RuleSet};
use serde_json::{Value, json};

const REFUSED: &str = r#"429: {"message":"slow down","type":"stub_error","code":"429"}"#;

fn hooks() -> &'static Hooks {
    let agent = agents::ALL.iter().find(|agent| agent.id == "pi").expect("a built-in agent");
    agent.hooks.expect("hooks")
}

fn inject(args: &[&str]) -> Result<Injection, String> {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    (hooks().inject)(&HookSetup {
        coven: Path::new("/opt/coven"),
        folder: Path::new("/sessions/1/hooks"),
        args: &args,
        env: &BTreeMap::new(),
        cwd: Path::new("/project"),
    })
}

fn activity(event: &str, payload: Value) -> Option<(ActivityFact, Option<String>)> {
    let meanings = (hooks().read)(event, &payload);
    meanings.into_iter().find_map(|meaning| match meaning {
        HookMeaning::Activity { fact, detail } => Some((fact, detail)),
        _ => None,
    })
}

#[test]
fn the_extension_is_added_to_those_of_the_user() {
    let injection = inject(&["-e", "mine.ts"]).expect("an injection");
    assert_eq!(injection.args, ["-e", "/sessions/1/hooks/coven.js", "-e", "mine.ts"]);
    assert_eq!((injection.env.len(), injection.files[0].0.as_str()), (0, "coven.js"));
    assert!(injection.files[0].1.starts_with("const coven = \"/opt/coven\"\n"));
    assert_eq!(inject(&["update"]), Err("pi update runs no agent".to_owned()));
}

#[test]
fn the_start_names_the_conversation_and_its_transcript() {
    let meanings = (hooks().read)("session_start", &json!({"id": "01a1", "file": "/sessions/a.jsonl"}));
    let conversation =
        HookMeaning::Conversation { id: "01a1".to_owned(), transcript: Some("/sessions/a.jsonl".to_owned()) };
    assert_eq!(meanings, [HookMeaning::Started, conversation]);
    assert_eq!((hooks().read)("session_start", &json!({})), [HookMeaning::Started]);
}

#[test]
fn calls_become_the_activity() {
    let detail = |text: &str| Some(text.to_owned());
    let exhausted = format!("Retry failed after 3 attempts: {REFUSED}");
    for (event, payload, expected) in [
        ("working", json!({}), Some((ActivityFact::Worked, None))),
        ("settled", json!({}), Some((ActivityFact::TurnEnded, None))),
        ("failed", json!({"error": REFUSED}), Some((ActivityFact::LimitReached, detail("slow down")))),
        ("settled", json!({"error": exhausted}), Some((ActivityFact::LimitReached, detail("slow down")))),
        ("failed", json!({"error": "503: overloaded"}), None),
        ("settled", json!({"error": "code 1429"}), Some((ActivityFact::TurnEnded, detail("failed: code 1429")))),
        ("prompt_start", json!({"title": "Really?"}), Some((ActivityFact::QuestionAsked, detail("asks: Really?")))),
        ("prompt_end", json!({}), Some((ActivityFact::Settled, None))),
        ("other", json!({}), None),
    ] {
        assert_eq!(activity(event, payload), expected, "{event}");
    }
}

#[test]
fn every_recorded_screen_has_its_meaning() {
    let agent = agents::ALL.iter().find(|agent| agent.id == "pi").expect("a built-in agent");
    let rules = RuleSet::parse(agent.rules.expect("rules")).expect("valid rules");
    for (screen, name, detail) in [
        (include_str!("trust.txt"), "trust", Some("asks whether to trust the folder")),
        (include_str!("dialog.txt"), "dialog", Some("asks to choose")),
        (include_str!("working.txt"), "working", None),
        (include_str!("retrying.txt"), "retrying", Some("the model refuses requests; Pi retries")),
        (include_str!("login.txt"), "login", Some("needs a login: enter /login")),
    ] {
        let lines: Vec<&str> = screen.lines().collect();
        let found = rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let found = found.as_ref().map(|it| (it.rule.name.as_str(), it.detail.as_deref()));
        assert_eq!(found, Some((name, detail)), "{screen}");
    }
}
