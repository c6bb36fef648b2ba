//! Text from files, arguments and sessions is shown without control characters. A full screen requires a terminal for
//! input and output.

use std::fs;
use std::process::Command;

use coven_testing::{CommandOutput, TestHome, TestTerminal, program};
use serde_json::json;

/// Sets the window title, reverses the text direction and clears the screen.
const CONTROL_TEXT: &str = "owned\u{1b}]0;x\u{7}\u{202e}\u{9b}2Jy";

#[track_caller]
fn assert_harmless(ran: &CommandOutput) {
    let is_control =
        |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(text.contains("owned"), "the text is missing: {ran:?}");
    assert_eq!(text.chars().find(|c| is_control(*c)), None, "{ran:?}");
}

#[test]
fn foreign_text_is_shown_without_control_characters() {
    let home = TestHome::started();
    let grimoires = home.path().join("grimoires");
    fs::create_dir_all(&grimoires).expect("disk has space");
    fs::write(grimoires.join(format!("{CONTROL_TEXT}.yaml")), "steps: 1\n").expect("disk has space");
    assert_harmless(&home.coven(&["workflow", "lint"]));
    assert_harmless(&home.coven(&["run", "claude", "--cwd", CONTROL_TEXT]));
    assert_harmless(&home.coven(&["init", CONTROL_TEXT]));

    home.configure(json!({ CONTROL_TEXT: 1 }));
    assert_harmless(&home.coven(&["config", "check"]));
    assert_harmless(&home.coven(&["daemon", "restart"]));
}

#[test]
fn the_preview_in_the_session_browser_omits_direction_marks() {
    let home = TestHome::started();
    let id = home.launch("say before\u{202e}after ;; hang").id;
    home.wait_for_output(&id, "after");
    let terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("beforeafter");
    let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!shown.contains('\u{202e}'), "{shown:?}");
}

/// Runs the command with input from /dev/null and output to the terminal.
fn without_input(home: &TestHome, verb: &str) -> TestTerminal {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" \"$1\" < /dev/null"]).arg(program::coven()).arg(verb);
    shell.env_clear().envs(home.variables()).current_dir(home.project());
    TestTerminal::run(shell, 24, 80)
}

#[test]
fn screen_commands_print_and_exit_if_stdin_is_not_a_terminal() {
    let home = TestHome::started();
    for verb in ["sessions", "board", "answer", "inbox"] {
        let mut terminal = without_input(&home, verb);
        assert_eq!(terminal.wait(), 0, "{verb}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains("\u{1b}[?1049h"), "{verb} opened a screen: {shown:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let mut home = TestHome::started();
    home.env.push(("TERM".to_owned(), "dumb".to_owned()));
    for verb in ["sessions", "board", "answer", "inbox"] {
        let mut terminal = TestTerminal::open(&home, &[verb]);
        assert_eq!(terminal.wait(), 0, "{verb}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains('\u{1b}'), "{verb}: {shown:?}");
    }
}
