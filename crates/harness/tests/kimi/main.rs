//! What the rules say about screens recorded from Kimi Code 2.1.0.

use coven_harness::agents;
use coven_harness::rules::{Evidence, RuleInput, RuleSet};

#[test]
fn every_recorded_screen_has_its_meaning() {
    let agent = agents::ALL.iter().find(|agent| agent.id == "kimi").expect("a built-in agent");
    let rules = RuleSet::parse(agent.rules.expect("rules")).expect("valid rules");
    for (screen, name, detail) in [
        (include_str!("trust.txt"), "trust", Some("asks whether to trust the folder")),
        (include_str!("login.txt"), "login", Some("needs a login: enter /login")),
        (include_str!("start.txt"), "prompt", None),
        (include_str!("working.txt"), "working", None),
        (include_str!("running.txt"), "working", None),
        (include_str!("idle.txt"), "prompt", None),
        (include_str!("permission.txt"), "command", Some("wants to run: $ touch a.txt")),
        (include_str!("question.txt"), "question", Some("asks a question")),
        (include_str!("submit.txt"), "submit", Some("asks whether to submit the answers")),
        (include_str!("retrying.txt"), "retrying", Some("429 · 429 slow down")),
    ] {
        let lines: Vec<&str> = screen.lines().collect();
        let found = rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let found = found.as_ref().map(|it| (it.rule.name.as_str(), it.detail.as_deref()));
        assert_eq!(found, Some((name, detail)), "{screen}");
    }
}
