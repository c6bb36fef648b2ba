//! The task board: `coven board` on a terminal, as text and as JSON.

use std::fs;
use std::process::Command;

use coven_testing::{TestHome, TestTerminal};
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
    for text in ["Fix the parser", &second[..8], "waits", "1 ready"] {
        terminal.shows(text);
    }
    terminal.shows("open 2");
    terminal.types("a");
    terminal.shows("approve is not possible: the task is open");
    terminal.types("s");
    terminal.shows("pending merge 1");
    terminal.shows("waits for review");
    terminal.types("d");
    terminal.shows("+made");
    terminal.types("q");
    terminal.hides("+made");
    terminal.types("a");
    terminal.shows("closed 1");
    terminal.shows("open 1");
    terminal.shows("pending merge 0");
    // The dependent task can be started now.
    terminal.hides("waits");
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();
    let task: Value = home.json(&["task", "show", &first, "--json"]);
    assert_eq!(task["status"], "closed");
    assert_eq!(fs::read_to_string(home.project().join("made.txt")).expect("is merged"), "made\n");
}

#[test]
fn a_task_is_created_started_blocked_and_unblocked_with_keys() {
    let home = home();
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 80);
    terminal.shows("No tasks yet.");
    terminal.types("nGrind it");
    terminal.shows("Grind it");
    // Six fields down to the workflow.
    terminal.types("\t\t\t\t\t\twaiting\r");
    terminal.shows("open 1");
    terminal.types("s");
    terminal.shows("› still grinding");
    terminal.resize(15, 50);
    // A narrow board is one list without empty columns.
    terminal.hides("pending merge");
    terminal.types("\r");
    terminal.shows("status      in_progress");
    terminal.types("\x1b");
    terminal.hides("status      in_progress");
    terminal.types("b");
    terminal.shows("Why?");
    terminal.types("too loud\r");
    terminal.shows("blocked 1");
    terminal.shows("too loud");
    terminal.types("u");
    terminal.shows("open 1");
    terminal.types("/nothing\r");
    terminal.shows("Nothing matches");
    terminal.types("\x03");
    assert_eq!(terminal.wait(), 0);
    terminal.is_as_it_was();
}

#[test]
fn a_terminal_is_answered_and_its_work_rejected_and_closed_in_the_inbox() {
    let home = home();
    let id = add(&home, &["Greet", "--workflow", "asking"]);
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 80);
    terminal.shows("open 1");
    terminal.types("s");
    terminal.shows("?1 asked");
    terminal.types("i\r");
    terminal.shows("types the line into its terminal");
    terminal.types("me\r");
    terminal.shows("review: Greet");
    let made = home.path().join("worktrees").join(&id).join("made.txt");
    assert_eq!(fs::read_to_string(made).expect("file exists"), "hello me\n");
    // The board ignores a digit right after the list has changed, unless the user moves the selection.
    terminal.types("k2");
    terminal.shows("What is wrong?");
    terminal.types("too short\r");
    terminal.shows("blocked: Greet · too short");
    terminal.types("3");
    terminal.shows("Why, if there is a reason?");
    terminal.types("never mind\r");
    terminal.shows("Nothing waits for you.");
    terminal.types("\x1b");
    terminal.hides("Nothing waits for you.");
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
    let task: Value = home.json(&["task", "show", &id, "--json"]);
    assert_eq!((&task["status"], &task["reason"]), (&"closed".into(), &"never mind".into()));
}

#[test]
fn a_key_restarts_a_dead_daemon() {
    let home = home();
    add(&home, &["Greet", "--workflow", "asking"]);
    let mut terminal = TestTerminal::with_size(&home, &["board"], 24, 100);
    terminal.shows("open 1");
    home.kill_daemon();
    terminal.shows("retrying");
    terminal.types("s");
    terminal.shows("?1 asked");
    terminal.shows("live");
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn the_board_is_text_in_a_pipe_and_json_with_a_flag() {
    let home = home();
    let first = add(&home, &["Fix the parser", "--workflow", "quick"]);
    let second = add(&home, &["Write docs", "--depends-on", &first]);
    let gone = add(&home, &["Set up"]);
    home.coven(&["task", "close", &gone, "--reason", "by hand"]).done();
    for args in [&["board"][..], &["board", "--once"]] {
        let text = home.coven(args).done();
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
    assert_eq!(states.len(), 5);
    assert_eq!((&board["open"][1]["task"]["id"], &board["open"][1]["ready"]), (&second.as_str().into(), &false.into()));
    for field in ["agent", "run", "last_line"] {
        assert!(board["open"][0][field].is_null(), "{field}");
    }
    assert_eq!(board["open"][0]["questions"], Value::Array(Vec::new()));
    let less: Value = home.json(&["board", "--json", "--no-closed"]);
    assert!(less.get("closed").is_none());
}
