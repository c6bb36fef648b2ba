//! Conversations in the session list, the API and exports, which only read them.

use std::fs;

use coven_testing::TestHome;
use hyper::Method;
use serde_json::{Value, json};

use crate::chat::{ECHO, file, home_with, lines, spawn};

/// Creates a home with an ended session and a conversation of one exchange.
fn home_with_both() -> TestHome {
    let home = home_with(ECHO);
    home.coven(&["run", "--background", "--title", "a shell", "--", "true"]).expect_success();
    home.sessions().iter().for_each(|it| drop(home.wait_for_end(&it.id)));
    spawn(&home, &["-i", "--session", "talk-1"], "hello world\n").expect_success();
    home
}

fn ids(records: &[Value]) -> Vec<(&str, &str)> {
    records.iter().map(|it| (it["kind"].as_str().expect("a kind"), it["id"].as_str().expect("an id"))).collect()
}

#[test]
fn the_list_has_both_kinds_and_the_command_to_resume() {
    let home = home_with_both();
    let all: Vec<Value> = home.items(&["sessions", "--json"]);
    let [talk, session] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((&talk["kind"], &session["kind"]), (&json!("conversation"), &json!("session")));
    assert_eq!((&talk["id"], &talk["turn_count"]), (&json!("talk-1"), &json!(2)));
    assert_eq!(talk["resume"], "coven spawn --resume talk-1");

    let only = |args: &[&str]| home.items::<Value>(&[&["sessions", "--json"], args].concat());
    assert_eq!(ids(&only(&["--kind", "conversation"])), [("conversation", "talk-1")]);
    assert_eq!(ids(&only(&["--limit", "1"])), [("conversation", "talk-1")]);
    assert_eq!(only(&["--status", "active"]).len(), 0);
    assert_eq!(ids(&only(&["--status", "active,completed", "--kind", "conversation"])), [("conversation", "talk-1")]);
    assert_eq!(only(&["--status", "running"]).len(), 0);
    assert_eq!(only(&["--status", "completed"]).len(), 2);
    assert_eq!(only(&["--kind", "session"]).len(), 1);
    home.coven(&["sessions", "--json", "--status", "asleep"]).expect_failure(2);

    let ran = home.coven(&["sessions", "--plain"]);
    assert!(ran.stdout.contains("conversation, 2 turns") && ran.stdout.contains("a shell"), "{}", ran.stdout);
    assert!(ran.stderr.contains("coven spawn --resume ID"), "{}", ran.stderr);
}

#[test]
fn an_unreadable_conversation_is_reported_and_the_others_are_listed() {
    let home = home_with_both();
    fs::write(file(&home, "broken"), "no JSON\n{}\n").expect("disk has space");
    let ran = home.coven(&["sessions", "--json"]);
    assert!(ran.stderr.contains("skipped conversation broken"), "{}", ran.stderr);
    assert_eq!(
        serde_json::from_str::<Value>(&ran.expect_success()).expect("a page")["items"].as_array().map(Vec::len),
        Some(2)
    );
    let listed: Value = home.read("/api/v1/conversations");
    assert_eq!((&listed["total"], &listed["broken"][0]["id"]), (&json!(1), &json!("broken")));
    home.get("/api/v1/conversations/broken").expect_error(409, "conversation_damaged");
}

#[test]
fn the_api_reads_conversations_and_cannot_change_them() {
    let home = home_with_both();
    spawn(&home, &["-i", "--session", "talk-2"], "").expect_success();
    let listed: Value = home.read("/api/v1/conversations?limit=1");
    assert_eq!((&listed["total"], listed["items"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    assert_eq!(listed["items"][0]["id"], "talk-2");
    let next: Value =
        home.read(&format!("/api/v1/conversations?limit=1&cursor={}", listed["next"].as_str().expect("more")));
    assert_eq!(next["items"][0]["id"], "talk-1");
    home.get("/api/v1/conversations?status=running").expect_error(400, "invalid_request");
    home.get("/api/v1/conversations?limit=0").expect_error(400, "invalid_request");

    let one: Value = home.read("/api/v1/conversations/talk-1");
    assert_eq!((&one["kind"], &one["status"]), (&json!("conversation"), &json!("completed")));
    home.get("/api/v1/conversations/talk").expect_error(400, "ambiguous_id");
    home.get("/api/v1/conversations/unknown").expect_error(404, "conversation_not_found");
    home.get("/api/v1/conversations/..%2Fetc").expect_error(404, "conversation_not_found");
    let last: Value = home.read("/api/v1/conversations/talk-1/turns?limit=1");
    assert_eq!(last["items"][0]["role"], "assistant");
    let next = last["next"].as_str().expect("more");
    let first: Value = home.read(&format!("/api/v1/conversations/talk-1/turns?cursor={next}"));
    assert_eq!((&first["items"][0]["role"], &first["next"]), (&json!("user"), &Value::Null));

    let before = fs::read(file(&home, "talk-1")).expect("a file");
    for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH] {
        for path in ["/api/v1/conversations/talk-1", "/api/v1/conversations/talk-1/turns"] {
            home.request(method.clone(), path, Some(b"{}".to_vec())).expect_error(405, "method_not_allowed");
        }
    }
    assert_eq!(fs::read(file(&home, "talk-1")).expect("a file"), before);
}

#[test]
fn session_commands_refer_to_the_command_that_resumes_a_conversation() {
    let home = home_with_both();
    for verb in [&["attach", "talk-1"][..], &["kill", "talk"], &["show", "talk-1"], &["input", "talk-1", "x"]] {
        let message = home.coven(verb).expect_failure(3);
        assert!(
            message.contains("talk-1 is a conversation") && message.contains("coven spawn --resume talk-1"),
            "{message}"
        );
    }
    let message = home.coven(&["attach", "unknown"]).expect_failure(3);
    assert!(message.contains("no session has the id"), "{message}");
}

#[test]
fn a_conversation_is_exported_without_a_daemon() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "talk-1"], "a <b> & c\n").expect_success();
    let text = home.coven(&["export", "talk-1"]).expect_success();
    assert!(text.contains("- session: talk-1") && text.contains("a <b> & c"), "{text}");
    let page = home.coven(&["export", "talk-1", "--format", "html"]).expect_success();
    assert!(page.contains("a &lt;b&gt; &amp; c") && page.ends_with("</html>\n"), "{page}");
    let out = home.project().join("talk.jsonl");
    home.coven(&["export", "talk-1", "--output", &out.display().to_string()]).expect_success();
    let exported: Vec<Value> = fs::read_to_string(&out)
        .expect("a file")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(exported, lines(&home, "talk-1")[..3]);
    home.coven(&["export", "talk-1", "--format", "asciicast"]).expect_failure(2);
    assert!(home.daemons().is_empty());
    // A prefix may belong to a session, so the daemon is asked first.
    assert_eq!(home.coven(&["export", "tal"]).expect_success(), text);
    home.coven(&["export", "unknown"]).expect_failure(3);
}

#[test]
fn a_damaged_conversation_is_not_exported_in_part() {
    let home = home_with(ECHO);
    spawn(&home, &["-i", "--session", "s"], "one\ntwo\n").expect_success();
    let text = fs::read_to_string(file(&home, "s")).expect("a file").replacen("\"role\"", "\"rol", 1);
    fs::write(file(&home, "s"), text).expect("disk has space");
    let out = home.project().join("s.txt");
    let message = home.coven(&["export", "s", "--output", &out.display().to_string()]).expect_failure(1);
    assert!(message.contains("is damaged") && message.contains("coven spawn --resume s --recover"), "{message}");
    assert!(!out.exists());
}
