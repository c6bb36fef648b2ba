//! Sessions by title, several in one command, renamed, and completed by the shell.

use std::process::Command;

use coven_testing::TestHome;
use coven_testing::records::SessionRecord;
use serde_json::{Value, json};

/// Launches a session that runs until it is killed.
fn running(home: &TestHome, title: &str) -> String {
    home.json::<SessionRecord>(&["run", "claude", "hang", "--title", title, "--json"]).id
}

#[test]
fn a_session_can_be_addressed_by_its_title() {
    let home = TestHome::started();
    let id = running(&home, "fix the parser");
    assert_eq!(home.json::<SessionRecord>(&["show", "fix the parser", "--json"]).id, id);
    home.coven(&["kill", "fix the parser"]).expect_success();
    assert_eq!(home.coven(&["wait", "fix the parser"]).code, 1);
    // Of several sessions with the same title, the running one is used.
    let again = running(&home, "fix the parser");
    assert_eq!(home.json::<SessionRecord>(&["show", "fix the parser", "--json"]).id, again);
    running(&home, "fix the parser");
    let message = home.coven(&["show", "fix the parser"]).expect_failure(2);
    assert!(message.contains("several sessions have the title") && message.contains(&again), "{message}");
    home.coven(&["show", "fix the"]).expect_failure(3);
}

#[test]
fn one_command_accepts_several_sessions() {
    let home = TestHome::started();
    let (first, second) = (running(&home, "first"), running(&home, "second"));
    let ran = home.coven(&["kill", "first", "no such session", &second]);
    assert!(ran.stderr.contains("no such session: no session has the id or title"), "{}", ran.stderr);
    ran.expect_failure(3);
    assert_eq!(home.coven(&["wait", &first, &second]).code, 1);
    let shown = home.coven(&["show", &first, &second]).expect_success();
    assert!(shown.contains(&first) && shown.contains(&second), "{shown}");
    home.coven(&["archive", "first", "second"]).expect_success();
    home.coven(&["rm", "first", "second", "--yes"]).expect_success();
    assert!(home.items::<Value>(&["ls", "--all", "--json"]).is_empty());
}

#[test]
fn a_renamed_session_has_the_new_title_and_an_event() {
    let home = TestHome::started();
    let id = running(&home, "before");
    let message = home.coven(&["rename", "before", "the", "parser"]).expect_success();
    assert!(message.starts_with("renamed: the parser "), "{message}");
    assert_eq!(home.session(&id).title, "the parser");
    home.coven(&["show", "before"]).expect_failure(3);
    let renamed = home.events_since("0").items.into_iter().find(|event| event.kind == "session.renamed");
    assert_eq!(renamed.expect("an event").subject, id);
    let answer = home.post(&format!("/api/v1/sessions/{id}/rename"), &json!({ "title": " " }));
    assert_eq!(answer.status, 400);
    home.coven(&["kill", &id]).expect_success();
}

#[test]
fn the_shell_completes_sessions_of_the_running_daemon() {
    let home = TestHome::started();
    let (lives, over) = (running(&home, "fix it"), running(&home, "done"));
    home.coven(&["kill", &over]).expect_success();
    assert_eq!(home.coven(&["wait", &over]).code, 1);
    let complete = |words: &[&str]| home.coven(&[&["complete", "bash"], words].concat()).expect_success();
    assert_eq!(complete(&["kill", ""]), format!("{}\n", &lives[..8]));
    assert_eq!(complete(&["kill", "fi"]), "fix\\ it\n");
    assert_eq!(complete(&["run", "cla"]), "claude\n");
    let fish = home.coven(&["complete", "fish", "archive", ""]).expect_success();
    assert_eq!(fish, format!("{}\tdone\n", &over[..8]));
    // Through the completion script.
    let script = home.coven(&["completions", "bash"]).expect_success();
    let script = format!("{script}\nCOMP_WORDS=(coven kill ''); COMP_CWORD=2; _coven; echo \"${{COMPREPLY[*]}}\"");
    let folder = coven_testing::program::coven().parent().expect("a folder").display().to_string();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env_clear().envs(home.variables()).current_dir(home.project());
    let path = home.variables().into_iter().find(|(name, _)| name == "PATH").expect("a PATH").1;
    let ran = bash.env("PATH", format!("{folder}:{path}")).output().expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), format!("{}\n", &lives[..8]), "{ran:?}");
}

#[test]
fn completing_without_a_daemon_is_silent_and_starts_none() {
    let home = TestHome::new();
    let ran = home.coven(&["complete", "bash", "kill", ""]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    ran.expect_success();
    assert!(home.daemons().is_empty());
}
