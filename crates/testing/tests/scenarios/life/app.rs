//! LIFE-21, LIFE-25 and LIFE-29: the app on a terminal.

use std::process::Command;

use coven_testing::{TestHome, TestTerminal, check_invariants, program, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn titled(home: &TestHome, title: &str, script: &str) -> String {
    home.launch_with(json!({ "harness": "claude", "prompt": script, "title": title })).id
}

fn send(terminal: &TestTerminal, signal: Signal) {
    let pid = i32::try_from(terminal.pid()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("child process");
}

/// Asserts that the last change of every mode of the terminal has switched it off.
#[track_caller]
fn assert_modes_are_off(terminal: &TestTerminal) {
    let output = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for mode in [1000, 1002, 1003, 1004, 1006, 1049, 2004] {
        let last = |suffix: &str| output.rfind(&format!("\x1b[?{mode}{suffix}"));
        assert!(last("h") <= last("l"), "mode {mode} is on: {output:?}");
    }
}

#[test]
fn life_21_an_interactive_terminal_opens_the_app() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "say at work ;; hang");

    for args in [&[][..], &["sessions"]] {
        let mut terminal = TestTerminal::open(&home, args);
        terminal.wait_for_text("[Agents]");
        terminal.wait_for_text("working 1");
        terminal.wait_for_text("Fix the parser");
        terminal.wait_until_live();
        assert!(terminal.is_alternate());
        terminal.resize(30, 120);
        terminal.wait_for_text("at work");
        terminal.type_keys("q");

        assert_eq!(terminal.wait(), 0);
        terminal.assert_settings_restored();
        assert_modes_are_off(&terminal);
    }
}

#[test]
fn life_21_other_verbs_open_the_app_on_their_view() {
    let home = TestHome::started();
    for (verb, view) in [("board", "[Board]"), ("inbox", "[Inbox]"), ("answer", "[Inbox]")] {
        let mut terminal = TestTerminal::open(&home, &[verb]);
        terminal.wait_for_text(view);
        terminal.wait_until_live();
        terminal.type_keys("q");
        assert_eq!(terminal.wait(), 0, "{verb}");
    }
}

#[test]
fn life_21_manage_opens_the_app_even_if_stdout_is_not_a_terminal() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut command = Command::new("/bin/sh");
    let script = format!("{} sessions --manage > out", program::coven().display());
    command.args(["-c", &script]).env_clear().envs(home.variables()).current_dir(home.project());

    let mut terminal = TestTerminal::run(command, 24, 80);
    terminal.wait_for_text("Fix the parser");
    terminal.wait_until_live();
    terminal.type_keys("q");

    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_21_the_app_updates_live_and_filters_while_typing() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("Fix the parser");
    terminal.wait_until_live();

    let late = titled(&home, "Write the docs", "hang");
    terminal.wait_for_text("Write the docs");
    terminal.type_keys("/docs");
    terminal.wait_until_hidden("Fix the parser");
    home.kill(&late);
    terminal.wait_for_text("finished 1");
    terminal.wait_for_text("killed");
    terminal.type_keys("\x1b");
    terminal.wait_for_text("Fix the parser");
    terminal.wait_for_text("? help");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_21_filters_of_the_command_line_filter_the_list_of_the_app() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let ended = titled(&home, "Write the docs", "exit 0");
    home.wait_for_end(&ended);

    let mut terminal = TestTerminal::with_size(&home, &["sessions", "--status", "completed"], 24, 120);
    terminal.wait_for_text("finished 1");
    terminal.wait_for_text("Write the docs");
    terminal.wait_until_live();
    terminal.wait_until_hidden("Fix the parser");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_signal_ends_the_app_and_restores_the_terminal() {
    let home = TestHome::started();
    let id = titled(&home, "Fix the parser", "say at work ;; hang");
    let mut terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.wait_for_text("at work");
    terminal.wait_until_live();
    // With the keys of the session's terminal in force.
    terminal.type_keys("\r");
    terminal.wait_for_text("keys go to the agent");

    send(&terminal, Signal::TERM);

    assert_eq!(terminal.wait(), 128 + 15);
    terminal.assert_settings_restored();
    assert_modes_are_off(&terminal);
    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn a_closed_terminal_ends_the_app_and_no_session() {
    let home = TestHome::started();
    let id = titled(&home, "Fix the parser", "hang");
    let terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.wait_for_text("Fix the parser");
    terminal.wait_until_live();

    assert_eq!(terminal.hang_up(), 128 + 1);

    assert_eq!(home.session(&id).status, "running");
}

#[test]
fn the_app_has_no_colours_if_the_environment_asks_for_none() {
    let mut home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let is_colour = |parameter: &str| matches!(parameter.parse(), Ok(30..=38 | 40..=48 | 90..=97 | 100..=107));
    for (value, has_colours) in [("", true), ("1", false)] {
        home.env.push(("NO_COLOR".to_owned(), value.to_owned()));
        let mut terminal = TestTerminal::open(&home, &["sessions"]);
        terminal.wait_for_text("Fix the parser");
        terminal.wait_until_live();
        terminal.type_keys("q");
        assert_eq!(terminal.wait(), 0);
        let output = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        let styles = output.split("\x1b[").skip(1).filter_map(|rest| {
            let (parameters, end) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?);
            end.starts_with('m').then_some(parameters)
        });
        let found = styles.flat_map(|parameters| parameters.split([';', ':'])).any(is_colour);
        assert_eq!(found, has_colours, "{output:?}");
    }
}

#[test]
fn life_25_the_app_refuses_actions_that_the_selected_session_does_not_allow() {
    let home = TestHome::started();
    let done = titled(&home, "Done", "exit 0");
    home.wait_for_end(&done);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("finished 1");
    terminal.wait_until_live();
    // The key of an unavailable action only shows a message, with what is possible.
    terminal.type_keys("x");
    terminal.wait_for_text("cannot kill: the session is completed");
    terminal.wait_for_text("possible now: replay, archive, export, sacrifice");
    assert_eq!(home.session(&done).status, "completed");

    let live = titled(&home, "Live", "hang");
    terminal.wait_for_text("working 1");
    terminal.type_keys("g");
    terminal.wait_for_text("claude Live  running");
    terminal.type_keys("d");
    terminal.wait_for_text("cannot sacrifice: the session is running");
    terminal.type_keys("a");
    terminal.wait_for_text("cannot archive: the session is running");
    terminal.type_keys("x");
    terminal.wait_for_text("Kill Live?");
    terminal.type_keys("n");
    terminal.wait_until_hidden("Kill Live?");
    assert_eq!(home.session(&live).status, "running");
    terminal.type_keys("x");
    terminal.wait_for_text("Kill Live?");
    terminal.type_keys("y");
    wait_until("the session is killed", || home.session(&live).status == "killed");
    terminal.wait_for_text("finished 2");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    check_invariants(&home);
}

#[test]
fn life_29_the_app_deletes_only_after_the_word_sacrifice_was_typed() {
    let home = TestHome::started();
    let id = titled(&home, "Old work", "say something ;; exit 0");
    home.wait_for_end(&id);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("Old work");
    terminal.wait_until_live();
    terminal.type_keys("d");
    terminal.wait_for_text("type sacrifice:");
    terminal.type_keys("yes\r");
    terminal.wait_for_text("type sacrifice to go on, or press Esc");
    assert_eq!(home.session(&id).status, "completed");
    terminal.type_keys("\x1b");
    terminal.wait_until_hidden("type sacrifice:");
    terminal.type_keys("d");
    terminal.wait_for_text("type sacrifice:");
    terminal.type_keys("sacrifice\r");
    wait_until("the session is deleted", || home.sessions().is_empty());

    terminal.wait_until_hidden("Old work");
    wait_until("the folder is removed", || !home.session_dir(&id).exists());
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    check_invariants(&home);
}

#[test]
fn life_29_the_command_without_yes_asks_for_confirmation() {
    let home = TestHome::started();
    let id = titled(&home, "Old work", "exit 0");
    home.wait_for_end(&id);

    // Without a terminal, the command is refused with advice.
    let message = home.coven(&["sacrifice", &id]).expect_failure(2);
    assert!(message.contains("--yes"), "{message}");
    let mut terminal = TestTerminal::open(&home, &["sacrifice", &id]);
    terminal.wait_for_text("Type sacrifice");
    terminal.type_keys("no\r");
    assert_eq!(terminal.wait(), 4);
    assert_eq!(home.session(&id).status, "completed");

    let mut terminal = TestTerminal::open(&home, &["sacrifice", &id]);
    terminal.wait_for_text("Type sacrifice");
    terminal.type_keys("sacrifice\r");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(home.sessions(), []);
}
