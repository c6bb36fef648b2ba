//! What the rules say about screens recorded from Goose 1.52.0.

use coven_harness::agents;
use coven_harness::rules::{Evidence, RuleInput, RuleSet};

#[test]
fn every_recorded_screen_has_its_meaning() {
    let agent = agents::ALL.iter().find(|agent| agent.id == "goose").expect("a built-in agent");
    let rules = RuleSet::parse(agent.rules.expect("rules")).expect("valid rules");
    for (screen, name, detail) in [
        (include_str!("usage-data.txt"), "usage-data", Some("asks whether to share usage data")),
        (include_str!("idle.txt"), "prompt", None),
        (include_str!("interrupted.txt"), "prompt", None),
        (include_str!("permission.txt"), "permission", Some("wants to use a tool: command: touch a.txt")),
        (include_str!("running.txt"), "allowed", None),
        (include_str!("thinking.txt"), "working", None),
        (include_str!("limit.txt"), "limit", Some("Ran into this error: Rate limit exceeded: slow down.")),
    ] {
        let lines: Vec<&str> = screen.lines().collect();
        let found = rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let found = found.as_ref().map(|it| (it.rule.name.as_str(), it.detail.as_deref()));
        assert_eq!(found, Some((name, detail)), "{screen}");
    }
}
