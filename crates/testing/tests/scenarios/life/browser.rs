//! LIFE-21, LIFE-25 and LIFE-29: the browser on a terminal.

use coven_testing::{TestHome, TestTerminal, check_invariants, wait_until};
use serde_json::json;

fn titled(home: &TestHome, title: &str, script: &str) -> String {
    home.launch_with(json!({ "harness": "claude", "prompt": script, "title": title })).id
}

#[test]
fn life_21_an_interactive_terminal_opens_the_browser() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "say at work ;; hang");

    let mut terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.wait_for_text("coven sessions");
    terminal.wait_for_text("Fix the parser");
    assert!(terminal.is_alternate());
    terminal.resize(30, 120);
    terminal.wait_for_text("at work");
    terminal.type_keys("q");

    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
}

#[test]
fn life_21_manage_opens_the_browser_even_if_stdout_is_not_a_terminal() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut command = std::process::Command::new("/bin/sh");
    let script = format!("{} sessions --manage > out", coven_testing::program::coven().display());
    command.args(["-c", &script]).env_clear().envs(home.variables()).current_dir(home.project());

    let mut terminal = TestTerminal::run(command, 24, 80);
    terminal.wait_for_text("Fix the parser");
    terminal.type_keys("q");

    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_21_the_browser_updates_live_and_filters_while_typing() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.wait_for_text("Fix the parser");

    let late = titled(&home, "Write the docs", "hang");
    terminal.wait_for_text("Write the docs");
    terminal.type_keys("/docs");
    terminal.wait_until_hidden("Fix the parser");
    home.kill(&late);
    terminal.wait_for_text("killed");
    terminal.type_keys("\x1b");
    terminal.wait_for_text("Fix the parser");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_25_the_browser_offers_only_actions_that_the_selected_session_allows() {
    let home = TestHome::started();
    let done = titled(&home, "Done", "exit 0");
    home.wait_for_end(&done);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("Done");
    for action in ["archive", "open log", "sacrifice"] {
        terminal.wait_for_text(action);
    }
    let screen = terminal.text();
    assert!(!screen.contains("x kill") && !screen.contains("i input"), "{screen}");
    // The key of an unavailable action only shows a message.
    terminal.type_keys("x");
    terminal.wait_for_text("kill is not possible");
    assert_eq!(home.session(&done).status, "completed");

    let live = titled(&home, "Live", "hang");
    terminal.wait_for_text("● running");
    terminal.type_keys("g");
    for action in ["x kill", "attach", "i input"] {
        terminal.wait_for_text(action);
    }
    for action in ["d sacrifice", "a archive"] {
        terminal.wait_until_hidden(action);
    }
    terminal.type_keys("d");
    terminal.wait_for_text("sacrifice is not possible");
    terminal.type_keys("x");
    terminal.wait_for_text("any other key leaves it running");
    terminal.type_keys("y");
    wait_until("the session is killed", || home.session(&live).status == "killed");
}

#[test]
fn life_29_the_browser_deletes_only_after_the_confirmation_was_typed() {
    let home = TestHome::started();
    let id = titled(&home, "Old work", "say something ;; exit 0");
    home.wait_for_end(&id);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("sacrifice");
    terminal.type_keys("d");
    terminal.wait_for_text("Type the word sacrifice");
    terminal.type_keys("yes\r");
    terminal.wait_for_text("nothing was deleted");
    assert_eq!(home.session(&id).status, "completed");
    terminal.type_keys("d");
    terminal.wait_for_text("Type the word sacrifice");
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
