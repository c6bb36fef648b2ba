//! `coven inbox --follow`, and the bells of programs on a terminal.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use coven_api::inbox::InboxItem;
use coven_testing::process::kill_hard;
use coven_testing::{DEADLINE, TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

use super::{ask, choosing, folder, wait_for_event};

/// A running `coven inbox --follow --json`.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(home: &TestHome, args: &[&str]) -> Self {
        let mut command = home.command(&[&["inbox", "--follow", "--json"], args].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("coven runs");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Returns the next event with the id and status of its item.
    #[track_caller]
    fn next(&self) -> (String, String, String) {
        let line = self.lines.recv_timeout(DEADLINE).expect("line before the deadline");
        let line: Value = serde_json::from_str(&line).expect("one object per line");
        let item: InboxItem = serde_json::from_value(line["item"].clone()).expect("an item");
        (line["event"].as_str().expect("event").to_owned(), item.id, item.status.to_string())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        kill_hard(self.child.id());
        let _ = self.child.wait();
    }
}

fn line(event: &str, id: &str, status: &str) -> (String, String, String) {
    (event.to_owned(), id.to_owned(), status.to_owned())
}

#[test]
fn new_and_resolved_items_are_printed_across_a_crash_of_the_daemon() {
    let home = TestHome::started();
    let first = ask(&home, "First?");
    let follower = Follower::start(&home, &[]);
    assert_eq!(follower.next(), line("came", &first, "pending"), "an item that is already pending");

    let second = ask(&home, "Second?");
    assert_eq!(follower.next(), line("came", &second, "pending"));
    home.answer_request(&first, &choosing("A"));
    assert_eq!(follower.next(), line("went", &first, "completed"));
    home.kill_daemon();
    home.coven(&["answer", &second, "--reject"]).expect_success();
    let third = ask(&home, "Third?");
    home.start();

    let mut next = [follower.next(), follower.next()];
    next.sort();
    assert_eq!(next, [line("came", &third, "pending"), line("went", &second, "rejected")]);
    std::fs::rename(folder(&home).join(&third), home.folder().join("elsewhere")).expect("the same file system");
    assert_eq!(follower.next(), line("went", &third, "dismissed"));
}

#[test]
fn only_items_of_the_given_session_are_followed() {
    let home = TestHome::started_with_agent(json!({}));
    let session = home.open(&home.make_repo("app")).id;
    home.prompt(&session, "permit touch x");
    let permission = home.wait_for_request(&session).id;
    let follower = Follower::start(&home, &["--session", &session[..8]]);
    assert_eq!(follower.next(), line("came", &permission, "pending"));
    let other = ask(&home, "Of no session?");
    wait_for_event(&home, &other, "question_set.asked");

    home.coven(&["inbox", "answer", &permission, "deny"]).expect_success();

    assert_eq!(follower.next(), line("went", &permission, "answered"));
}

#[test]
fn following_rings_for_new_items_and_not_for_pending_ones() {
    let home = TestHome::started();
    let first = ask(&home, "First?");
    let terminal = TestTerminal::open(&home, &["inbox", "--follow"]);
    terminal.wait_for_text(&format!("+ {}", &first[..8]));
    assert!(!terminal.bytes().contains(&0x07));

    let second = ask(&home, "Second?");

    terminal.wait_for_text(&format!("+ {}  -  Second?", &second[..8]));
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    home.coven(&["answer", &second, "--option", "A"]).expect_success();
    terminal.wait_for_text("Second?  answered: A");
}

#[test]
fn the_app_rings_for_new_items_and_not_for_pending_ones() {
    let home = TestHome::started();
    home.launch_with(json!({ "harness": "claude", "prompt": "hang", "title": "Fix the parser" }));
    ask(&home, "First?");
    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("Fix the parser");
    terminal.wait_for_text("Inbox 1");
    terminal.wait_until_live();
    assert!(!terminal.bytes().contains(&0x07));

    ask(&home, "Which one?");

    terminal.wait_for_text("needs you 2");
    terminal.wait_for_text("Inbox 2");
    terminal.wait_for_text("Which one?");
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn no_terminal_rings_if_the_bell_is_disabled() {
    let home = TestHome::started_with(json!({ "notifications": { "bell": false } }));
    let first = ask(&home, "First?");
    let following = TestTerminal::open(&home, &["inbox", "--follow"]);
    following.wait_for_text(&format!("+ {}", &first[..8]));
    let mut app = TestTerminal::with_size(&home, &["answer"], 24, 120);
    app.wait_for_text("[Inbox] 1");
    app.wait_until_live();

    let second = ask(&home, "Second?");

    following.wait_for_text(&format!("+ {}", &second[..8]));
    app.wait_for_text("[Inbox] 2");
    home.coven(&["answer", &second, "--option", "A"]).expect_success();
    // A bell would precede these.
    following.wait_for_text("Second?  answered: A");
    app.wait_for_text("[Inbox] 1");
    app.type_keys("q");
    assert_eq!(app.wait(), 0);
    for terminal in [&following, &app] {
        assert!(!terminal.bytes().contains(&0x07), "{}", terminal.text());
    }
}
