//! Question sets answered in the app: `coven answer` and the Inbox.

use coven_testing::process::kill_hard;
use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

fn question(title: &str, multi: bool) -> Value {
    json!({
        "title": title, "prompt": "Which **one**?", "multiSelect": multi,
        "options": [{"label": "Alpha"}, {"label": "Beta (recommended)", "description": "二番目"}],
    })
}

fn ask(home: &TestHome, questions: &[Value]) -> String {
    let questions = Value::from(questions).to_string();
    home.coven(&["ask", &questions, "--no-wait"]).expect_success().trim().to_owned()
}

fn set(home: &TestHome, id: &str) -> Value {
    home.json(&["questions", "show", id, "--json"])
}

/// Opens the Inbox with the only set in focus.
fn focused(home: &TestHome) -> TestTerminal {
    let mut terminal = TestTerminal::with_size(home, &["answer"], 24, 120);
    terminal.wait_for_text("[Inbox] 1");
    terminal.wait_until_live();
    terminal.wait_for_text("1 ( ) Alpha");
    terminal.type_keys("\r");
    terminal.wait_for_text("Enter sends");
    terminal
}

#[test]
fn question_sets_are_answered_one_after_the_other_with_keys() {
    // The app starts the daemon.
    let home = TestHome::new();
    let first = ask(&home, &[question("First", false)]);
    let second = ask(&home, &[question("Second", true)]);

    let mut terminal = TestTerminal::with_size(&home, &["answer"], 24, 120);
    terminal.wait_for_text("[Inbox] 2");
    terminal.wait_until_live();
    terminal.wait_for_text("1 ( ) Alpha");
    terminal.wait_for_text("二番目");
    terminal.type_keys("\r\x1b[B\x1b[B");
    terminal.wait_for_text("▌2 ( ) Beta (recommended)");
    terminal.type_keys("\r");
    terminal.wait_for_text("[Inbox] 1");
    terminal.wait_for_text("1 [ ] Alpha");
    terminal.type_keys("\r1\x1b[B\x1b[Bwords of my own");
    terminal.wait_for_text("1 [x] Alpha");
    terminal.wait_for_text("▌other: words of my own");
    terminal.type_keys("\r");
    terminal.wait_for_text("nothing needs you");
    terminal.type_keys("q");

    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
    assert_eq!(set(&home, &first)["answers"][0]["selected_options"], json!(["Beta (recommended)"]));
    let answer = &set(&home, &second)["answers"][0];
    assert_eq!((&answer["selected_options"], &answer["custom_text"]), (&json!(["Alpha"]), &json!("words of my own")));
}

#[test]
fn several_questions_are_reviewed_before_they_are_sent() {
    let home = TestHome::new();
    let id = ask(&home, &[question("First", false), question("Second", false)]);
    let mut terminal = TestTerminal::with_size(&home, &["inbox"], 24, 120);
    terminal.wait_for_text("question 1 of 2");
    terminal.wait_until_live();
    terminal.type_keys("\r");
    terminal.wait_for_text("Enter next");
    terminal.type_keys("1\r");
    terminal.wait_for_text("question 2 of 2");
    terminal.type_keys("2\r");
    terminal.wait_for_text("review");
    terminal.wait_for_text("First: Alpha");
    terminal.wait_for_text("Second: Beta (recommended)");
    assert_eq!(set(&home, &id)["status"], "pending");
    terminal.type_keys("\r");
    terminal.wait_for_text("nothing needs you");
    let answers = &set(&home, &id)["answers"];
    assert_eq!(answers[0]["selected_options"], json!(["Alpha"]));
    assert_eq!(answers[1]["selected_options"], json!(["Beta (recommended)"]));
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_set_answered_elsewhere_leaves_the_inbox_and_new_ones_appear() {
    let home = TestHome::new();
    let id = ask(&home, &[question("First", false)]);
    let mut terminal = focused(&home);
    terminal.type_keys("\x1b[B\x1b[B\x1b[Bhalf");
    terminal.wait_for_text("▌other: half");
    home.coven(&["answer", &id, "--option", "Alpha"]).expect_success();
    terminal.wait_for_text("nothing needs you");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Alpha"]));
    ask(&home, &[question("Second", false)]);
    terminal.wait_for_text("Second");
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    // Keys for the set that is gone are ignored for a moment.
    wait_until("the app ends", || {
        terminal.type_keys("q");
        terminal.has_ended()
    });
}

#[test]
fn a_typed_answer_survives_the_death_of_the_daemon() {
    let home = TestHome::new();
    let id = ask(&home, &[question("First", false)]);
    let mut terminal = focused(&home);
    terminal.type_keys("\x1b[B\x1b[B\x1b[Btyped, not sent");
    terminal.wait_for_text("▌other: typed, not sent");
    let killed = home.health().pid;

    kill_hard(killed);

    wait_until("the app starts a daemon", || !home.daemons().is_empty() && !home.daemons().contains(&killed));
    ask(&home, &[question("Second", false)]);
    terminal.wait_for_text("[Inbox] 2");
    terminal.wait_until_live();
    terminal.wait_for_text("▌other: typed, not sent");
    terminal.type_keys("!\r");
    terminal.wait_for_text("[Inbox] 1");
    assert_eq!(set(&home, &id)["answers"][0]["custom_text"], "typed, not sent!");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_set_is_rejected_with_a_reason_and_a_click_focuses_the_next_one() {
    let home = TestHome::new();
    let (first, second) = (ask(&home, &[question("First", false)]), ask(&home, &[question("Second", false)]));
    let mut terminal = TestTerminal::with_size(&home, &["answer"], 24, 120);
    terminal.wait_for_text("[Inbox] 2");
    terminal.wait_until_live();
    terminal.type_keys("\r");
    terminal.wait_for_text("X reject");
    terminal.type_keys("X");
    terminal.wait_for_text("reject, because (optional):");
    terminal.type_keys("too vague\r");
    terminal.wait_for_text("[Inbox] 1");
    assert_eq!(set(&home, &first)["rejection_reason"], "too vague");
    let screen = terminal.wait_for_text("Second");
    let row = screen.lines().position(|line| line.contains("Alpha")).expect("is shown") + 1;
    terminal.type_keys(&format!("\x1b[<0;60;{row}M\x1b[<0;60;{row}m"));
    terminal.wait_for_text("Enter sends");
    terminal.resize(10, 40);
    // The app has painted the new size: the list has no room beside the pane.
    terminal.wait_until_hidden("needs you");
    terminal.type_keys("1");
    terminal.wait_for_text("1 (•) Alpha");
    terminal.type_keys("\r");
    terminal.wait_for_text("nothing needs you");
    assert_eq!(set(&home, &second)["answers"][0]["selected_options"], json!(["Alpha"]));
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
}

#[test]
fn all_keys_of_one_burst_are_processed() {
    let home = TestHome::new();
    let id = ask(&home, &[question("First", false)]);
    let mut terminal = TestTerminal::with_size(&home, &["answer"], 24, 120);
    terminal.wait_for_text("1 ( ) Alpha");
    terminal.wait_until_live();
    terminal.type_keys("\r\x1b[B\x1b[A\x1b[B\r");
    terminal.wait_for_text("nothing needs you");
    assert_eq!(set(&home, &id)["answers"][0]["selected_options"], json!(["Beta (recommended)"]));
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}
