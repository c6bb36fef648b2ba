//! The harness's own session: read from its output or chosen by coven, and resumed.

use std::path::PathBuf;

use coven_harness::print_mode::{OwnAgents, Usage};
use coven_host::agent_definitions::AgentDefinition;
use coven_host::print_mode::{PrintHarness, TurnDone, run_turn};

use crate::fixture::{Fixture, format_of, never};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn turn(fixture: &Fixture, harness: &PrintHarness, session: Option<&str>, agent: Option<&AgentDefinition>) -> TurnDone {
    let mut spec = fixture.spec(harness, "hello");
    (spec.session, spec.agent) = (session, agent);
    run_turn(&spec, |_| {}, &never()).expect("an answer")
}

#[test]
fn the_session_id_and_usage_are_read_from_the_output() {
    let fixture = Fixture::new();
    let lines = [
        r#"{"type":"system","session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"answer"}]},"session_id":"s-1"}"#,
        r#"{"type":"result","session_id":"s-1","usage":{"input_tokens":11,"output_tokens":7}}"#,
    ];
    let mut harness = fixture.harness(&format!("cat >/dev/null; echo '{}'", lines.join("'; echo '")));
    harness.mode.format = format_of("claude");
    let done = turn(&fixture, &harness, None, None);
    assert_eq!(done.text, "answer");
    assert_eq!(done.harness_session.as_deref(), Some("s-1"));
    assert_eq!(done.usage, Some(Usage { input: 11, output: 7 }));
}

#[test]
fn a_later_turn_passes_the_session_id_and_only_the_new_message() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("unused");
    harness.mode.args = words(&["-c", "echo first $(cat)"]);
    harness.mode.resume = Some(words(&["-c", "echo $1 $(cat)", "sh", "{session}"]));
    assert_eq!(turn(&fixture, &harness, None, None).text, "first hello");
    assert_eq!(turn(&fixture, &harness, Some("s-1"), None).text, "s-1 hello");
}

#[test]
fn an_id_chosen_by_coven_is_unique_and_kept_for_later_turns() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("unused");
    harness.mode.args = words(&["-c", "echo $1", "sh", "{session}"]);
    harness.mode.resume = Some(words(&["-c", "echo again $1", "sh", "{session}"]));
    let (first, other) = (turn(&fixture, &harness, None, None), turn(&fixture, &harness, None, None));
    assert_eq!(first.harness_session.as_deref(), Some(first.text.as_str()));
    assert_ne!(first.text, other.text);
    let id = first.text;
    let resumed = turn(&fixture, &harness, Some(&id), None);
    assert_eq!((resumed.text, resumed.harness_session), (format!("again {id}"), Some(id)));
}

#[test]
fn a_session_id_that_looks_like_a_flag_is_refused() {
    let fixture = Fixture::new();
    let harness = fixture.harness("echo answer");
    let mut spec = fixture.spec(&harness, "hello");
    spec.session = Some("--allow-all");
    let error = run_turn(&spec, |_| {}, &never()).expect_err("an invalid id");
    assert_eq!(error.to_string(), "invalid session id \"--allow-all\"");
}

#[test]
fn an_agent_is_passed_by_name_or_by_its_instructions() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("unused");
    harness.mode.args = words(&["-c", "echo \"[$*]\" $(cat)", "sh"]);
    harness.mode.own_agents =
        Some(OwnAgents { folder: ".own/agents".to_owned(), args: words(&["--agent", "{agent}"]) });
    let agent = |folder: &str| AgentDefinition {
        id: "qa-test".to_owned(),
        name: "QA-Test".to_owned(),
        role: "Tester".to_owned(),
        goal: "Tests".to_owned(),
        instructions: "You test.".to_owned(),
        file: PathBuf::from("/home/u").join(folder).join("qa.md"),
        folder: Some(PathBuf::from(folder)),
    };
    assert_eq!(turn(&fixture, &harness, None, Some(&agent(".own/agents"))).text, "[--agent QA-Test] hello");
    assert_eq!(turn(&fixture, &harness, None, Some(&agent(".claude/agents"))).text, "[] You test. hello");
    harness.mode.instructions = Some(words(&["--system", "{instructions}"]));
    assert_eq!(turn(&fixture, &harness, None, Some(&agent(".claude/agents"))).text, "[--system You test.] hello");
}
