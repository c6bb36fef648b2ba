//! The task board: in the app, as text and as JSON.

use std::fs;
use std::process::Command;

use coven_testing::process::kill_hard;
use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::Value;

const WORKFLOW: &str = "steps:
  - name: build
    type: script
    command: echo made > made.txt; echo it is built
  - name: merge
    type: merge
";
const WAITING: &str = "steps:
  - name: grind
    type: script
    command: echo still grinding; exec sleep 1000
  - name: merge
    type: merge
";
const ASKING: &str = "steps:
  - name: greet
    type: script
    command: 'printf \"name? \"; read name; echo hello $name > made.txt'
  - name: merge
    type: merge
";

/// Starts a home in a project with a commit and three workflows.
fn home() -> TestHome {
    let home = TestHome::started();
    let folder = home.project();
    home.init_repo(&folder);
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Test", "-c", "user.email=test@example.org"]).args(args);
        git.current_dir(&folder).env_clear().envs(home.variables()).env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    git(&["config", "user.name", "Test"]);
    git(&["config", "user.email", "test@example.org"]);
    let grimoires = home.path().join("grimoires");
    fs::create_dir_all(&grimoires).expect("a folder");
    fs::write(grimoires.join("quick.yaml"), WORKFLOW).expect("a file");
    fs::write(grimoires.join("waiting.yaml"), WAITING).expect("a file");
    fs::write(grimoires.join("asking.yaml"), ASKING).expect("a file");
    home
}

fn add(home: &TestHome, args: &[&str]) -> String {
    let made: Value = home.json(&[&["task", "add", "--json"], args].concat());
    made["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_task_is_started_reviewed_and_merged_with_keys() {
    let home = home();
    let first = add(&home, &["Fix the parser", "--workflow", "quick", "--priority", "0"]);
    let second = add(&home, &["Write docs", "--depends-on", &first]);

    let mut terminal = TestTerminal::with_size(&home, &["board"], 35, 130);
    for text in ["[Board]", "open 2", "Fix the parser", &second[..8], "waits for a task"] {
        terminal.wait_for_text(text);
    }
    terminal.wait_until_live();
    terminal.type_keys("s");
    terminal.wait_for_text("pending merge 1");
    terminal.wait_for_text("to review");
    terminal.wait_for_text("Inbox 1");
    terminal.type_keys("\r");
    terminal.wait_for_text("+made");
    terminal.type_keys("p");
    terminal.wait_for_text("approve and merge?");
    terminal.type_keys("y");
    terminal.wait_for_text("merged into");
    terminal.type_keys("q");
    terminal.wait_for_text("closed 1");
    terminal.wait_for_text("open 1");
    // The dependent task can be started now.
    terminal.wait_until_hidden("waits for a task");
    terminal.wait_until_hidden("Inbox 1");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
    let task: Value = home.json(&["task", "show", &first, "--json"]);
    assert_eq!(task["status"], "closed");
    assert_eq!(fs::read_to_string(home.project().join("made.txt")).expect("is merged"), "made\n");
}

#[test]
fn a_task_is_created_started_blocked_and_unblocked_with_keys() {
    let home = home();
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 80);
    terminal.wait_for_text("no tasks yet; o makes one");
    terminal.wait_until_live();
    terminal.type_keys("o");
    terminal.wait_for_text("new task");
    terminal.type_keys("Read it\r");
    terminal.wait_for_text("made the task Read it");
    terminal.wait_for_text("open 1");
    add(&home, &["Grind it", "--workflow", "waiting"]);
    terminal.wait_for_text("open 2");
    terminal.type_keys("G");
    terminal.wait_for_text("▌Grind it");
    terminal.type_keys("s");
    terminal.wait_for_text("in progress 1");
    terminal.resize(15, 50);
    // A narrow board is one list.
    terminal.wait_for_text("[Board]");
    terminal.wait_until_hidden("Inbox");
    terminal.wait_until_live();
    terminal.type_keys("\r");
    terminal.wait_for_text("in progress ·");
    terminal.type_keys("\x1b");
    terminal.wait_until_hidden("in progress ·");
    terminal.type_keys("b");
    terminal.wait_for_text("block the task, because");
    terminal.type_keys("too loud\r");
    terminal.wait_for_text("blocked 1");
    terminal.type_keys("u");
    terminal.wait_for_text("open 2");
    terminal.type_keys("/nothing\r");
    terminal.wait_for_text("no task matches the filter");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
    let tasks: Value = home.json(&["board", "--json"]);
    let reasons = tasks["open"].as_array().expect("a list").iter().map(|card| card["task"]["reason"].clone());
    assert_eq!(reasons.collect::<Vec<_>>(), [Value::Null, Value::Null]);
}

#[test]
fn a_terminal_is_answered_and_its_work_rejected_and_closed_with_keys() {
    let home = home();
    let id = add(&home, &["Greet", "--workflow", "asking"]);
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 120);
    terminal.wait_for_text("open 1");
    terminal.wait_until_live();
    terminal.type_keys("s");
    terminal.wait_for_text("Inbox 1");
    terminal.type_keys("I");
    terminal.wait_for_text("[Inbox] 1");
    terminal.wait_for_text("name?");
    terminal.type_keys("\r");
    terminal.wait_for_text("Enter sends");
    terminal.type_keys("me\r");
    terminal.wait_for_text("hello me");
    let made = home.path().join("worktrees").join(&id).join("made.txt");
    assert_eq!(fs::read_to_string(made).expect("file exists"), "hello me\n");
    terminal.type_keys("\r");
    terminal.wait_for_text("R reject");
    terminal.type_keys("R");
    terminal.wait_for_text("reject: what to change?");
    terminal.type_keys("too short\r");
    terminal.wait_for_text("reason: too short");
    terminal.type_keys("q");
    terminal.wait_for_text("? help");
    terminal.type_keys("B");
    terminal.wait_for_text("blocked 1");
    terminal.type_keys("e");
    terminal.wait_for_text("close the task, because");
    terminal.type_keys("never mind\r");
    terminal.wait_for_text("closed 1");
    terminal.type_keys("I");
    terminal.wait_for_text("nothing needs you");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    let task: Value = home.json(&["task", "show", &id, "--json"]);
    assert_eq!((&task["status"], &task["reason"]), (&"closed".into(), &"never mind".into()));
}

#[test]
fn the_app_starts_a_killed_daemon_again_and_shows_what_is_new() {
    let home = home();
    add(&home, &["Greet", "--workflow", "asking"]);
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 120);
    terminal.wait_for_text("open 1");
    terminal.wait_until_live();
    let killed = home.health().pid;

    kill_hard(killed);

    wait_until("the app starts a daemon", || !home.daemons().is_empty() && !home.daemons().contains(&killed));
    add(&home, &["Say bye"]);
    terminal.wait_for_text("open 2");
    terminal.wait_until_live();
    terminal.type_keys("g");
    terminal.wait_for_text("▌Greet");
    terminal.type_keys("s");
    terminal.wait_for_text("Inbox 1");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
}

#[test]
fn the_board_is_text_in_a_pipe_and_json_with_a_flag() {
    let home = home();
    let first = add(&home, &["Fix the parser", "--workflow", "quick"]);
    let second = add(&home, &["Write docs", "--depends-on", &first]);
    let gone = add(&home, &["Set up"]);
    home.coven(&["task", "close", &gone, "--reason", "by hand"]).expect_success();
    for args in [&["board"][..], &["board", "--once"]] {
        let text = home.coven(args).expect_success();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "open 2", "{text}");
        assert!(lines[2].contains("Fix the parser") && lines[2].contains("ready"), "{text}");
        assert!(lines[3].contains("Write docs") && lines[3].contains(&first[..8]), "{text}");
        assert!(
            text.contains("pending merge 0\n") && text.contains("closed 1\n") && text.contains("by hand"),
            "{text}"
        );
    }
    let board: Value = home.json(&["board", "--json"]);
    let states: Vec<&String> = board.as_object().expect("an object").keys().collect();
    assert_eq!(states.len(), 6, "five states, and the next page");
    assert!(board["next"].is_null());
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let mut args = vec!["board".to_owned(), "--json".to_owned(), "--limit".to_owned(), "1".to_owned()];
        args.extend(cursor.iter().flat_map(|cursor: &String| ["--cursor".to_owned(), cursor.clone()]));
        let page: Value = home.json(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let tasks: Vec<String> = ["open", "in_progress", "pending_merge", "blocked", "closed"]
            .iter()
            .flat_map(|state| page[state].as_array().expect("a list"))
            .map(|card| card["task"]["id"].as_str().expect("an id").to_owned())
            .collect();
        assert_eq!(tasks.len(), 1, "{page}");
        found.extend(tasks);
        cursor = page["next"].as_str().map(str::to_owned);
        if let Some(cursor) = &cursor {
            home.coven(&["board", "--json", "--no-closed", "--cursor", cursor]).expect_failure(2);
        } else {
            break;
        }
    }
    assert_eq!(found, [first.clone(), second.clone(), gone.clone()]);
    assert_eq!((&board["open"][1]["task"]["id"], &board["open"][1]["ready"]), (&second.as_str().into(), &false.into()));
    for field in ["agent", "run", "last_line"] {
        assert!(board["open"][0][field].is_null(), "{field}");
    }
    assert_eq!(board["open"][0]["questions"], Value::Array(Vec::new()));
    let less: Value = home.json(&["board", "--json", "--no-closed"]);
    assert!(less.get("closed").is_none());
}
