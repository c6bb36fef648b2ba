//! The answer screen in a real terminal: `coven answer`. No daemon is running.

use std::fs;

use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

fn ask(home: &TestHome, title: &str, multi: bool) -> String {
    let question = json!({
        "title": title, "prompt": "Which **one**?", "multiSelect": multi,
        "options": [{"label": "Alpha"}, {"label": "Beta (recommended)", "description": "二番目"}],
    });
    home.coven(&["ask", &json!([question]).to_string(), "--no-wait"]).expect_success().trim().to_owned()
}

fn set(home: &TestHome, id: &str) -> Value {
    home.json(&["questions", "show", id, "--json"])
}

fn drafts(home: &TestHome) -> usize {
    fs::read_dir(home.user().join(".local/state/coven/answer-drafts")).map_or(0, Iterator::count)
}

#[test]
fn question_sets_are_answered_one_after_the_other_with_keys() {
    let home = TestHome::new();
    let (first, second) = (ask(&home, "First", false), ask(&home, "Second", true));

    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("set 1 of 2");
    terminal.type_keys("\x1b[B\r");
    terminal.wait_for_text("→ Beta (recommended) — 二番目");
    terminal.type_keys("\r");
    terminal.wait_for_text("sent: “First”; 1 more to answer");
    terminal.type_keys("1owords\nof my own\r");
    terminal.wait_for_text("→ Other: words");
    terminal.type_keys("\r");
    terminal.wait_for_text("No questions wait.");
    terminal.type_keys("q");

    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
    assert_eq!(set(&home, &first)["answers"][0]["selected_options"], json!(["Beta (recommended)"]));
    let answer = &set(&home, &second)["answers"][0];
    assert_eq!((&answer["selected_options"], &answer["custom_text"]), (&json!(["Alpha"]), &json!("words\nof my own")));
    assert_eq!(drafts(&home), 0);
}

#[test]
fn a_set_answered_elsewhere_leaves_the_screen_immediately_and_new_ones_appear() {
    let home = TestHome::new();
    let id = ask(&home, "First", false);
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("○ First");
    terminal.type_keys("ohalf");
    terminal.wait_for_text("› half");
    home.coven(&["answer", &id, "--option", "Alpha"]).expect_success();
    terminal.wait_for_text("“First” was answered elsewhere");
    terminal.wait_for_text("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Alpha"]));
    ask(&home, "Second", false);
    terminal.wait_for_text("○ Second");
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 0);
    wait_until("the draft is removed", || drafts(&home) == 0);
}

#[test]
fn drafts_survive_an_exit_and_a_closed_terminal() {
    let home = TestHome::new();
    let id = ask(&home, "First", false);
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("○ First");
    terminal.type_keys("otyped, not sent");
    terminal.wait_for_text("› typed, not sent");
    terminal.type_keys("\x1b");
    terminal.wait_until_hidden("›");
    terminal.type_keys("\x1b");
    terminal.wait_for_text("`coven answer` comes back to it");
    terminal.type_keys("y");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();

    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("typed, not sent");
    terminal.type_keys("o");
    terminal.wait_for_text("› typed, not sent");
    terminal.type_keys("!");
    terminal.wait_for_text("not sent!");
    // Dropping the terminal kills the process.
    drop(terminal);

    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("typed, not sent!");
    terminal.type_keys("o\r");
    terminal.wait_for_text("Enter sends the answers");
    terminal.type_keys("\r");
    terminal.wait_for_text("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["custom_text"], "typed, not sent!");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_set_is_rejected_with_a_reason_and_a_click_selects_an_option() {
    let home = TestHome::new();
    let (first, second) = (ask(&home, "First", false), ask(&home, "Second", false));
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("set 1 of 2");
    terminal.type_keys("xtoo vague\r");
    terminal.wait_for_text("rejected: “First”");
    assert_eq!(set(&home, &first)["rejection_reason"], "too vague");
    let screen = terminal.wait_for_text("1 Alpha");
    let row = screen.lines().position(|line| line.contains("1 Alpha")).expect("is shown") + 1;
    terminal.type_keys(&format!("\x1b[<0;12;{row}M\x1b[<0;12;{row}m"));
    terminal.wait_for_text("(•) 1 Alpha");
    let painted = terminal.bytes().len();
    terminal.resize(10, 40);
    // The screen has handled the new size before it reads keys.
    wait_until("the new size is painted", || terminal.bytes().len() > painted);
    terminal.wait_for_text("✓ Second");
    terminal.type_keys("v\r");
    terminal.wait_for_text("No questions wait.");
    assert_eq!(set(&home, &second)["answers"][0]["selected_options"], json!(["Alpha"]));
    terminal.type_keys("\x1b\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
}

#[test]
fn all_keys_of_one_burst_are_processed() {
    let home = TestHome::new();
    let id = ask(&home, "First", false);
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.wait_for_text("○ First");
    terminal.type_keys("\x1b[B\x1b[A\x1b[B\r\r");
    terminal.wait_for_text("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Beta (recommended)"]));
}
