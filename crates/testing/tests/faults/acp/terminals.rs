//! Agents that open too many terminals, or send too many requests about them.

use std::fs;

use coven_testing::wait_until;
use serde_json::json;

use super::{Fixture, answers, gate, kill_and_restart, open_gate};

/// The limit is 32; requests that are processed concurrently may exceed it slightly.
const ALLOWED: std::ops::RangeInclusive<usize> = 32..=40;

fn threads_of_daemon(fixture: &Fixture) -> usize {
    fs::read_dir(format!("/proc/{}/task", fixture.home.health().pid)).expect("is running").count()
}

#[test]
fn the_number_of_terminals_is_limited_and_open_ones_delay_no_other_request() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.prompt(&id, "terminals 600 sleep 1000");
    let text = fixture.home.wait_for_text(&id, "opened:");

    let mut answers = answers(&text, "opened");
    let opened = answers.remove("ok ").unwrap_or_default();
    assert!(ALLOWED.contains(&opened), "{opened} {answers:?}");
    assert_eq!(answers.values().sum::<usize>(), 600 - opened);
    assert!(answers.keys().all(|why| why.contains("terminals are open")), "{answers:?}");
    let threads = threads_of_daemon(&fixture);
    assert!(threads < 100, "{threads} threads for {opened} terminals");
    fixture.home.make_repo("written-meanwhile");
    fixture.home.turn(&fixture.bystander, "say in between");
    kill_and_restart(&fixture.home);
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    fixture.home.wait_for_end(&id);
    wait_until("all terminals have exited", || fixture.home.harness_processes(&id).is_empty());
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_that_releases_its_terminals_may_open_any_number() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.turn(&id, &["terminal true"; 40].join(" ;; "));

    let text = fixture.home.agent_text(&id);
    assert_eq!(text.matches("terminal:exit=0").count(), 40, "{text}");
    fixture.assert_others_unaffected();
}

#[test]
fn every_wait_for_a_terminal_returns_its_exit_status() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");

    // More requests than a holder accepts.
    fixture.home.prompt(&id, &format!("waits 300 until test -e {}; do sleep 0.05; done; exit 7", gate.display()));
    fixture.home.wait_for_text(&id, "waiting ");
    fixture.home.turn(&fixture.bystander, "say in between");
    open_gate(&gate);
    fixture.home.wait_for_rest(&id);

    let waited = answers(&fixture.home.agent_text(&id), "waited");
    assert_eq!(waited.into_iter().collect::<Vec<_>>(), [("ok 7/null".to_owned(), 300)]);
    fixture.assert_others_unaffected();
}

#[test]
fn a_killed_terminal_reports_the_signal_name() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.turn(&id, "terminal_kill sleep 1000");
    fixture.home.turn(&id, "shell kill -9 $$");

    let text = fixture.home.agent_text(&id);
    assert!(text.contains(r#"exit=null signal="SIGTERM""#), "{text}");
    assert!(text.contains(r#"exit=null signal="SIGKILL""#), "{text}");
    fixture.assert_others_unaffected();
}

#[test]
fn a_released_terminal_no_longer_exists() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.turn(&id, "released sleep 1000");

    let text = fixture.home.agent_text(&id);
    for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
        assert!(text.contains(&format!("{method} error -32602: unknown terminal")), "{method}: {text}");
    }
    fixture.assert_others_unaffected();
}

#[test]
fn an_agent_in_a_subfolder_may_access_its_whole_repository() {
    let fixture = Fixture::new(&[]);
    let (repo, outside) = (&fixture.repo.path, fixture.home.project().join("secret.txt"));
    fs::create_dir(format!("{repo}/sub")).expect("disk has space");
    fs::write(format!("{repo}/top.txt"), "at the top").expect("disk has space");
    fs::write(&outside, "secret").expect("disk has space");
    let cwd = format!("{repo}/sub");
    let request = json!({ "harness": "gemini", "channel": "acp", "repo_id": fixture.repo.id, "cwd": cwd });
    let id = fixture.home.launch_with(request).id;

    let outside = outside.display();
    fixture.home.turn(&id, &format!("read {repo}/top.txt ;; write {repo}/new.txt x ;; shell pwd ;; read {outside}"));

    let text = fixture.home.agent_text(&id);
    assert!(text.contains("read:at the top"), "{text}");
    assert!(text.contains(&format!("wrote:{repo}/new.txt")), "{text}");
    assert!(text.contains(&format!("output={:?}", format!("{cwd}\n"))), "the shell runs in the subfolder: {text}");
    assert!(text.contains(&format!("{outside} is outside the repository {repo}")), "{text}");
    fixture.assert_others_unaffected();
}

#[test]
fn terminal_output_is_limited_to_its_end_and_marked_as_truncated() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();

    fixture.home.turn(&id, r"shown 100000000 head -c 5000000 /dev/zero | tr '\0' x");
    fixture.home.turn(&id, "shown 3 printf abcdef");

    let text = fixture.home.agent_text(&id);
    assert_eq!(text, format!("shown:{} trueshown:3 true", 1 << 20));
    fixture.assert_others_unaffected();
}
