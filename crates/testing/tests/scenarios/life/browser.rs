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
    terminal.shows("coven sessions");
    terminal.shows("Fix the parser");
    assert!(terminal.is_alternate());
    terminal.resize(30, 120);
    terminal.shows("at work");
    terminal.types("q");

    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();
}

#[test]
fn life_21_manage_opens_the_browser_even_if_stdout_is_not_a_terminal() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut command = std::process::Command::new("/bin/sh");
    let script = format!("{} sessions --manage > out", coven_testing::program::coven().display());
    command.args(["-c", &script]).env_clear().envs(home.variables()).current_dir(home.project());

    let mut terminal = TestTerminal::run(command, 24, 80);
    terminal.shows("Fix the parser");
    terminal.types("q");

    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_21_the_browser_updates_live_and_filters_while_typing() {
    let home = TestHome::started();
    titled(&home, "Fix the parser", "hang");
    let mut terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.shows("Fix the parser");

    let late = titled(&home, "Write the docs", "hang");
    terminal.shows("Write the docs");
    terminal.types("/docs");
    terminal.hides("Fix the parser");
    home.kill(&late);
    terminal.shows("killed");
    terminal.types("\x1b");
    terminal.shows("Fix the parser");
    terminal.types("\x03");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn life_25_the_browser_offers_only_actions_that_the_selected_session_allows() {
    let home = TestHome::started();
    let done = titled(&home, "Done", "exit 0");
    home.wait_for_end(&done);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.shows("Done");
    for action in ["archive", "open log", "sacrifice"] {
        terminal.shows(action);
    }
    let screen = terminal.text();
    assert!(!screen.contains("x kill") && !screen.contains("i input"), "{screen}");
    // The key of an unavailable action only shows a message.
    terminal.types("x");
    terminal.shows("kill is not possible");
    assert_eq!(home.session(&done).status, "completed");

    let live = titled(&home, "Live", "hang");
    terminal.shows("● running");
    terminal.types("g");
    for action in ["x kill", "attach", "i input"] {
        terminal.shows(action);
    }
    for action in ["d sacrifice", "a archive"] {
        terminal.hides(action);
    }
    terminal.types("d");
    terminal.shows("sacrifice is not possible");
    terminal.types("x");
    terminal.shows("any other key leaves it running");
    terminal.types("y");
    wait_until("the session is killed", || home.session(&live).status == "killed");
}

#[test]
fn life_29_the_browser_deletes_only_after_the_confirmation_was_typed() {
    let home = TestHome::started();
    let id = titled(&home, "Old work", "say something ;; exit 0");
    home.wait_for_end(&id);

    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.shows("sacrifice");
    terminal.types("d");
    terminal.shows("Type the word sacrifice");
    terminal.types("yes\r");
    terminal.shows("nothing was deleted");
    assert_eq!(home.session(&id).status, "completed");
    terminal.types("d");
    terminal.shows("Type the word sacrifice");
    terminal.types("sacrifice\r");
    wait_until("the session is deleted", || home.sessions().is_empty());

    terminal.hides("Old work");
    wait_until("its folder is removed", || !home.session_dir(&id).exists());
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
    check_invariants(&home);
}

#[test]
fn life_29_the_command_without_yes_asks_for_confirmation() {
    let home = TestHome::started();
    let id = titled(&home, "Old work", "exit 0");
    home.wait_for_end(&id);

    // Without a terminal, the command is refused with advice.
    let message = home.coven(&["sacrifice", &id]).refused(2);
    assert!(message.contains("--yes"), "{message}");
    let mut terminal = TestTerminal::open(&home, &["sacrifice", &id]);
    terminal.shows("Type sacrifice");
    terminal.types("no\r");
    assert_eq!(terminal.wait(), 4);
    assert_eq!(home.session(&id).status, "completed");

    let mut terminal = TestTerminal::open(&home, &["sacrifice", &id]);
    terminal.shows("Type sacrifice");
    terminal.types("sacrifice\r");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(home.sessions(), []);
}
