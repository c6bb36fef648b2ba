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

/// Puts a question of another tool whose texts have control characters into the folder of question sets.
fn put_question(home: &TestHome) {
    let id = "00000001-0000-4000-8000-000000000001";
    let now = coven_holder::clock::now();
    let question = json!({"title": CONTROL_TEXT, "prompt": CONTROL_TEXT, "options": [{"label": CONTROL_TEXT}]});
    let request = json!({"sessionId": id, "questions": [question], "timestamp": now, "status": "pending"});
    let status =
        json!({"sessionId": id, "status": "pending", "createdAt": now, "lastModified": now, "totalQuestions": 1});
    let folder = home.user().join(".local/share/auq/sessions").join(id);
    fs::create_dir_all(&folder).expect("disk has space");
    fs::write(folder.join("request.json"), request.to_string()).expect("disk has space");
    fs::write(folder.join("status.json"), status.to_string()).expect("disk has space");
}

#[test]
fn the_app_shows_output_and_questions_without_control_characters() {
    let home = TestHome::new();
    put_question(&home);
    home.start();
    let id = home.launch("say before\u{202e}after ;; raw \\e]0;owned-title\\a ;; say done ;; hang").id;
    home.wait_for_output(&id, "done");
    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("Inbox 1");
    terminal.wait_until_live();
    terminal.wait_for_text("beforeafter");
    terminal.type_keys("I");
    terminal.wait_for_text("[Inbox] 1");
    terminal.wait_for_text("1 ( ) owned");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for unwanted in ["\u{202e}", "\u{9b}", "\u{1b}]0;"] {
        assert!(!shown.contains(unwanted), "{unwanted:?} in {shown:?}");
    }
}

/// Runs the command with input from /dev/null and output to the terminal.
fn without_input(home: &TestHome, args: &[&str]) -> TestTerminal {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" \"$@\" < /dev/null"]).arg(program::coven()).args(args);
    shell.env_clear().envs(home.variables()).current_dir(home.project());
    TestTerminal::run(shell, 24, 80)
}

#[test]
fn screen_commands_print_and_exit_if_stdin_is_not_a_terminal() {
    let home = TestHome::started();
    for args in [&[][..], &["sessions"], &["board"], &["answer"], &["inbox"]] {
        let mut terminal = without_input(&home, args);
        assert_eq!(terminal.wait(), 0, "{args:?}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains("\u{1b}[?1049h"), "{args:?} opened a screen: {shown:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let mut home = TestHome::started();
    home.env.push(("TERM".to_owned(), "dumb".to_owned()));
    for args in [&[][..], &["sessions"], &["board"], &["answer"], &["inbox"]] {
        let mut terminal = TestTerminal::open(&home, args);
        assert_eq!(terminal.wait(), 0, "{args:?}: {}", terminal.text());
        let shown = String::from_utf8_lossy(&terminal.bytes()).into_owned();
        assert!(!shown.contains('\u{1b}'), "{args:?}: {shown:?}");
    }
}
