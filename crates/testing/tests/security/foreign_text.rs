//! Text from files, arguments and sessions never acts on the reader's terminal, and a full screen needs a terminal on both sides.

use std::fs;
use std::process::Command;

use coven_testing::{Ran, TestHome, TestTerminal, program};
use serde_json::json;

/// Sets a window's title, and turns the direction of what follows.
const WILD: &str = "owned\u{1b}]0;x\u{7}\u{202e}\u{9b}2Jy";

#[track_caller]
fn is_harmless(ran: &Ran) {
    let acts =
        |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(text.contains("owned"), "the text is not shown at all: {ran:?}");
    assert_eq!(text.chars().find(|c| acts(*c)), None, "{ran:?}");
}

#[test]
fn foreign_text_does_not_act_on_the_terminal() {
    let home = TestHome::started();
    let grimoires = home.path().join("grimoires");
    fs::create_dir_all(&grimoires).expect("room on disk");
    fs::write(grimoires.join(format!("{WILD}.yaml")), "steps: 1\n").expect("room on disk");
    is_harmless(&home.coven(&["workflow", "lint"]));
    is_harmless(&home.coven(&["run", "claude", "--cwd", WILD]));
    is_harmless(&home.coven(&["init", WILD]));

    home.configure(json!({ WILD: 1 }));
    is_harmless(&home.coven(&["config", "check"]));
    is_harmless(&home.coven(&["daemon", "restart"]));
}

#[test]
fn a_preview_in_the_browser_leaves_out_direction_marks() {
    let home = TestHome::started();
    let id = home.launch("say before\u{202e}after ;; hang").id;
    home.wait_for_output(&id, "after");
    let terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.shows("beforeafter");
    let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!shown.contains('\u{202e}'), "{shown:?}");
}

/// The command, with its input from nowhere and its output on the terminal.
fn without_input(home: &TestHome, verb: &str) -> TestTerminal {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" \"$1\" < /dev/null"]).arg(program::coven()).arg(verb);
    shell.env_clear().envs(home.variables()).current_dir(home.project());
    TestTerminal::run(shell, 24, 80)
}

#[test]
fn without_a_terminal_on_both_sides_a_screen_verb_prints_and_exits() {
    let home = TestHome::started();
    for verb in ["sessions", "board", "answer", "inbox"] {
        let mut terminal = without_input(&home, verb);
        assert_eq!(terminal.wait(), 0, "{verb}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains("\u{1b}[?1049h"), "{verb} opened a screen: {shown:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_text_and_no_full_screen() {
    let mut home = TestHome::started();
    home.env.push(("TERM".to_owned(), "dumb".to_owned()));
    for verb in ["sessions", "board", "answer", "inbox"] {
        let mut terminal = TestTerminal::open(&home, &[verb]);
        assert_eq!(terminal.wait(), 0, "{verb}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains('\u{1b}'), "{verb}: {shown:?}");
    }
}
