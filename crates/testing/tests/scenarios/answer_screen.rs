//! The answer screen in a real terminal: `coven answer`. No daemon is running.

use std::fs;

use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

fn ask(home: &TestHome, title: &str, multi: bool) -> String {
    let question = json!({
        "title": title, "prompt": "Which **one**?", "multiSelect": multi,
        "options": [{"label": "Alpha"}, {"label": "Beta (recommended)", "description": "二番目"}],
    });
    home.coven(&["ask", &json!([question]).to_string(), "--no-wait"]).done().trim().to_owned()
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
    terminal.shows("set 1 of 2");
    terminal.types("\x1b[B\r");
    terminal.shows("→ Beta (recommended) — 二番目");
    terminal.types("\r");
    terminal.shows("sent: “First”; 1 more to answer");
    terminal.types("1owords\nof my own\r");
    terminal.shows("→ Other: words");
    terminal.types("\r");
    terminal.shows("No questions wait.");
    terminal.types("q");

    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();
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
    terminal.shows("○ First");
    terminal.types("ohalf");
    terminal.shows("› half");
    home.coven(&["answer", &id, "--option", "Alpha"]).done();
    terminal.shows("“First” was answered elsewhere");
    terminal.shows("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Alpha"]));
    ask(&home, "Second", false);
    terminal.shows("○ Second");
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    terminal.types("\x03");
    assert_eq!(terminal.wait(), 0);
    wait_until("the draft is removed", || drafts(&home) == 0);
}

#[test]
fn drafts_survive_an_exit_and_a_closed_terminal() {
    let home = TestHome::new();
    let id = ask(&home, "First", false);
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.shows("○ First");
    terminal.types("otyped, not sent");
    terminal.shows("› typed, not sent");
    terminal.types("\x1b");
    terminal.hides("›");
    terminal.types("\x1b");
    terminal.shows("`coven answer` comes back to it");
    terminal.types("y");
    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();

    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.shows("typed, not sent");
    terminal.types("o");
    terminal.shows("› typed, not sent");
    terminal.types("!");
    terminal.shows("not sent!");
    // Dropping the terminal kills the process.
    drop(terminal);

    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.shows("typed, not sent!");
    terminal.types("o\r");
    terminal.shows("Enter sends the answers");
    terminal.types("\r");
    terminal.shows("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["custom_text"], "typed, not sent!");
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_set_is_rejected_with_a_reason_and_a_click_selects_an_option() {
    let home = TestHome::new();
    let (first, second) = (ask(&home, "First", false), ask(&home, "Second", false));
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.shows("set 1 of 2");
    terminal.types("xtoo vague\r");
    terminal.shows("rejected: “First”");
    assert_eq!(set(&home, &first)["rejection_reason"], "too vague");
    let screen = terminal.shows("1 Alpha");
    let row = screen.lines().position(|line| line.contains("1 Alpha")).expect("is shown") + 1;
    terminal.types(&format!("\x1b[<0;12;{row}M\x1b[<0;12;{row}m"));
    terminal.shows("(•) 1 Alpha");
    terminal.resize(10, 40);
    terminal.shows("✓ Second");
    terminal.types("v\r");
    terminal.shows("No questions wait.");
    assert_eq!(set(&home, &second)["answers"][0]["selected_options"], json!(["Alpha"]));
    terminal.types("\x1b\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();
}

#[test]
fn all_keys_of_one_burst_are_processed() {
    let home = TestHome::new();
    let id = ask(&home, "First", false);
    let mut terminal = TestTerminal::open(&home, &["answer"]);
    terminal.shows("○ First");
    terminal.types("\x1b[B\x1b[A\x1b[B\r\r");
    terminal.shows("No questions wait.");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Beta (recommended)"]));
}
