//! Questions to a human from the command line: `coven ask`, `coven answer <id>`, `coven questions`. No daemon is running.

use std::fs;
use std::process::{Child, Stdio};

use coven_testing::{CommandOutput, TestHome, eventually, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const TWO: &str = r#"{"questions":[
    {"title":"Database","prompt":"Which database?","options":[{"label":"SQLite (recommended)","description":"One file"},{"label":"PostgreSQL"}]},
    {"title":"Features","prompt":"Which features?","options":[{"label":"Auth","description":"Login"},{"label":"Logs"}],"multiSelect":true}]}"#;

fn ask(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(&[&["ask"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven runs")
}

fn end(child: Child) -> CommandOutput {
    child.wait_with_output().expect("child process").into()
}

/// Waits for a pending set and returns its id.
#[track_caller]
fn waiting(home: &TestHome) -> String {
    eventually("a set is pending", || {
        let sets: Vec<Value> = home.items(&["questions", "list", "--json"]);
        sets.first().map(|set| set["id"].as_str().expect("an id").to_owned())
    })
}

fn status(home: &TestHome, id: &str) -> String {
    let set: Value = home.json(&["questions", "show", id, "--json"]);
    set["status"].as_str().expect("a status").to_owned()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("child process");
}

#[test]
fn ask_25_ask_26_ask_27_the_answers_are_printed_in_the_exact_format() {
    let home = TestHome::new();
    let asker = ask(&home, &[TWO]);
    let id = waiting(&home);

    let given =
        r#"{"0":{"selectedOption":"SQLite (recommended)"},"1":{"selectedOptions":["Auth"],"customText":"it's"}}"#;
    let answered: Value = home.json(&["answer", &id[..8], "--answers", given, "--json"]);

    assert_eq!((&answered["id"], &answered["status"]), (&json!(id), &json!("completed")));
    let ran = end(asker);
    let expected = "Here are the user's answers:\n\n1. Which database?\n→ SQLite (recommended) — One file\n\n\
                    2. Which features?\n→ Auth — Login\n→ Other: 'it\\'s'\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, expected, ""));
    let printed = home.coven(&["questions", "answers", &id]).expect_success();
    assert_eq!(printed, format!("[Session: {} | Questions: 2]\n\n{expected}", &id[..8]));
    let set: Value = home.json(&["questions", "show", &id, "--json"]);
    assert!(set["read_at"].is_string() && set["call_id"].is_string(), "{set}");
    assert_eq!(set["working_directory"], json!(fs::canonicalize(home.project()).expect("there")));
}

#[test]
fn one_question_is_asked_with_flags_and_answered_with_flags() {
    let mut home = TestHome::new();
    home.env.push(("COVEN_SESSION_ID".to_owned(), "0c7e49a2-1111-4222-8333-444455556666".to_owned()));
    let asker = ask(&home, &["--prompt", "Which?", "--option", "A=the first", "--option", "B", "--multi", "--json"]);
    let id = waiting(&home);

    home.coven(&["answer", &id, "--option", "b", "--option", "A", "--text", "more"]).expect_success();

    let ran = end(asker);
    let record: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((ran.code, &record["id"], &record["status"]), (0, &json!(id), &json!("completed")));
    assert_eq!(record["answers"][0]["selectedOptions"], json!(["B", "A"]));
    assert_eq!(record["answers"][0]["customText"], "more");
    let set: Value = home.json(&["questions", "show", &id, "--json"]);
    assert_eq!(set["session_id"], "0c7e49a2-1111-4222-8333-444455556666");
    assert_eq!(set["questions"][0]["options"][0], json!({"label": "A", "description": "the first"}));
}

#[test]
fn the_exit_code_shows_how_a_set_ended() {
    let home = TestHome::new();
    let asker = ask(&home, &[TWO]);
    home.coven(&["answer", &waiting(&home), "--reject", "--reason", "too \"vague\""]).expect_success();
    let rejected = end(asker);
    let expected = "User rejected this question set.\n\nRejection reason: \"too \"vague\"\"\n";
    assert_eq!((rejected.code, rejected.stdout.as_str()), (10, expected));

    let timed_out = home.coven(&["ask", TWO, "--timeout", "30", "--json"]);
    let record: Value = serde_json::from_str(&timed_out.stdout).expect("JSON");
    assert_eq!((timed_out.code, &record["status"], &record["answers"]), (11, &json!("timed_out"), &json!([])));
    assert_eq!(status(&home, record["id"].as_str().expect("an id")), "timed_out");

    let asker = ask(&home, &[TWO]);
    home.coven(&["questions", "dismiss", &waiting(&home), "--yes"]).expect_success();
    assert_eq!(end(asker).code, 12);
    assert_eq!(home.coven(&["ask", "{"]).code, 2);
    assert_eq!(home.coven(&["ask", r#"{"questions":[]}"#]).code, 2);
    let refusal = home.coven(&["ask", "--prompt", "P?", "--option", "only one"]).expect_failure(2);
    assert!(refusal.contains("options has 1 options"), "{refusal}");
}

#[test]
fn the_config_sets_the_timeout_and_the_maximum_of_pending_sets() {
    let home = TestHome::new();
    home.configure(json!({"questions": {"sessionTimeout": 30, "maxSessions": 2}}));
    assert_eq!(home.coven(&["ask", TWO]).code, 11);
    home.coven(&["ask", TWO, "--no-wait"]).expect_success();
    home.coven(&["ask", TWO, "--no-wait"]).expect_success();
    let refusal = home.coven(&["ask", TWO, "--no-wait"]).expect_failure(4);
    assert!(refusal.contains("questions.maxSessions"), "{refusal}");
}

#[test]
fn an_interrupted_ask_leaves_no_pending_set() {
    let home = TestHome::new();
    for ending in [Signal::INT, Signal::TERM, Signal::HUP] {
        let asker = ask(&home, &[TWO]);
        let id = waiting(&home);
        signal(&asker, ending);
        let ran = end(asker);
        assert_eq!((ran.code, status(&home, &id).as_str()), (12, "abandoned"), "{ending:?}: {}", ran.stderr);
    }
}

#[test]
fn ask_prints_the_reason_when_invalid_answers_abandon_the_set() {
    let home = TestHome::new();
    for flags in [&[TWO][..], &[TWO, "--json"]] {
        let asker = ask(&home, flags);
        let id = waiting(&home);
        let set = home.user().join(".local/share/auq/sessions").join(&id);
        // Renamed into place, because a partly written file would be another reason.
        std::fs::write(set.join("new"), r#"{"answers":[{"questionIndex":7,"selectedOption":"A"}]}"#).expect("the set");
        std::fs::rename(set.join("new"), set.join("answers.json")).expect("the set");
        let ran = end(asker);
        assert_eq!((ran.code, status(&home, &id).as_str()), (12, "abandoned"), "{}", ran.stderr);
        let output = format!("{}{}", ran.stdout, ran.stderr);
        assert!(output.contains("invalid question index: 7"), "{output}");
    }
}

#[test]
fn ask_gives_up_when_its_stdout_is_closed() {
    let home = TestHome::new();
    let mut asker = ask(&home, &[TWO]);
    let id = waiting(&home);
    drop(asker.stdout.take());
    wait_until("the set is abandoned", || status(&home, &id) == "abandoned");
    assert_eq!(asker.wait().expect("child process").code(), Some(12));
}

#[test]
fn ask_can_return_without_waiting_for_the_answers() {
    let home = TestHome::new();
    let id = home.coven_with_input(&["ask", "--no-wait"], TWO.as_bytes()).expect_success().trim().to_owned();
    let pending = home.coven(&["questions", "answers", &id]);
    assert_eq!(
        (pending.code, pending.stdout),
        (4, format!("[Session: {} | Status: pending]\n\nNo answers yet.\n", &id[..8]))
    );
    let line = ["answer", &id, "--question", "2", "--text", "none", "--question", "1", "--option", "sqlite"];
    home.coven(&line).expect_success();
    assert!(home.coven(&["questions", "answers", &id]).expect_success().contains("→ Other: 'none'"));
    let history = home.coven(&["questions", "history", "--search", "NONE"]).expect_success();
    assert!(history.contains(&id[..8]) && history.contains("SQLite (recommended); none"), "{history}");
    assert_eq!(home.coven(&["questions", "history", "--search", "nowhere"]).expect_success(), "");
}

#[test]
fn ask_28_no_selection_of_several_options_is_printed_as_an_answer() {
    let home = TestHome::new();
    let asker = ask(&home, &[TWO]);
    let id = waiting(&home);

    let none = r#"{"0":{"selectedOption":"PostgreSQL"},"1":{"selectedOptions":[]}}"#;
    home.coven(&["answer", &id, "--answers", none]).expect_success();

    assert!(end(asker).stdout.ends_with("2. Which features?\n→ (No selection)\n"));
}

#[test]
fn ask_13_a_lock_of_a_dead_process_does_not_block_an_answer() {
    let home = TestHome::new();
    let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
    let mut answerer = home.command(&["--version"]).stdout(Stdio::null()).spawn().expect("coven runs");
    let dead = answerer.id();
    answerer.wait().expect("child process");
    let set = home.user().join(".local/share/auq/sessions").join(&id);
    let lock = set.join("status.json.lock");
    fs::write(&lock, dead.to_string()).expect("disk has space");

    home.coven(&["answer", &id, "--reject", "--reason", "too late"]).expect_success();

    assert_eq!(status(&home, &id), "rejected");
    assert!(!lock.exists());
}

#[test]
fn ask_29_a_wrong_answer_is_refused_with_the_reason_and_the_set_stays_open() {
    let home = TestHome::new();
    let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
    for (answers, reason) in [
        (r#"{"7":{"selectedOption":"A"}}"#, "Answer references invalid question index: 7"),
        (r#"{"0":{"selectedOption":"ZZZ"}}"#, "Answer for question 0 references non-existent option: ZZZ"),
        (r#"{"0":{"selectedOption":"PostgreSQL"}}"#, "Question 1 has no answer"),
        (
            r#"{"0":{"selectedOptions":["PostgreSQL","SQLite (recommended)"]},"1":{"selectedOptions":[]}}"#,
            "several options",
        ),
        (r#"{}"#, "No answers provided"),
        (r#"{"0":{"selected":"A"}}"#, "unknown field `selected`"),
    ] {
        let refusal = home.coven(&["answer", &id, "--answers", answers]).expect_failure(2);
        assert!(refusal.contains(reason), "{answers}: {refusal}");
    }
    assert!(home.coven(&["answer", &id]).expect_failure(2).contains("no answer was given"));
    assert!(home.coven(&["answer", "--option", "A"]).expect_failure(2).contains("no question set id was given"));
    // Without a terminal, the command lists the pending sets.
    assert!(home.coven(&["answer"]).expect_success().contains(&id[..8]));
    assert_eq!(status(&home, &id), "pending");
}

#[test]
fn the_first_answer_wins_and_unknown_sets_have_another_exit_code() {
    let home = TestHome::new();
    let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
    home.coven(&["answer", &id, "--reject"]).expect_success();
    let refusal = home.coven(&["answer", &id, "--reject", "--reason", "again"]).expect_failure(4);
    assert!(refusal.contains("already rejected"), "{refusal}");
    let answers = r#"{"0":{"selectedOption":"PostgreSQL"},"1":{"selectedOptions":[]}}"#;
    home.coven(&["answer", &id, "--answers", answers]).expect_failure(4);
    let unknown = home.coven(&["answer", "deadbeef", "--reject"]).expect_failure(3);
    assert!(unknown.contains("Session not found: deadbeef"), "{unknown}");
    home.coven(&["questions", "show", "../../etc"]).expect_failure(3);
}

#[test]
fn sets_are_listed_despite_broken_ones() {
    let home = TestHome::new();
    assert_eq!(home.coven(&["questions"]).expect_success(), "");
    let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
    let sessions = home.user().join(".local/share/auq/sessions");
    let broken = sessions.join("173b747a-549b-4b6b-ae62-f1b0c3f21b86");
    fs::create_dir(&broken).expect("disk has space");
    fs::write(broken.join("status.json"), "{").expect("disk has space");

    let records: Vec<Value> = home.items(&["questions", "--json"]);

    assert_eq!(records.iter().map(|set| &set["id"]).collect::<Vec<_>>(), [&json!(id)]);
    let table = home.coven(&["questions", "list", "--all"]).expect_success();
    assert!(table.contains("Database, Features") && table.contains("broken"), "{table}");
    home.coven(&["questions", "dismiss", &id]).expect_failure(2);
    home.coven(&["questions", "dismiss", "173b"]).expect_success();
    assert!(!broken.exists() && home.user().join(".local/share/auq/archive").is_dir());
}

#[test]
fn asking_needs_neither_home_nor_daemon() {
    let home = TestHome::new();
    let mut command = home.command(&["ask", TWO, "--no-wait"]);
    let sets = home.folder().join("sets");
    let output = command.env_clear().env("AUQ_SESSION_DIR", &sets).current_dir("/").output().expect("coven runs");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(sets).expect("a folder").count(), 1);
}
