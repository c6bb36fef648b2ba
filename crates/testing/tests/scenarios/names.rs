//! Sessions by title, several at once, and renamed.

use coven_api::SessionRecord;
use coven_testing::TestHome;
use serde_json::{Value, json};

/// A session that runs until it is ended.
fn running(home: &TestHome, title: &str) -> String {
    home.json::<SessionRecord>(&["run", "claude", "hang", "--title", title, "--json"]).id
}

#[test]
fn a_session_is_named_by_its_title_as_by_its_id() {
    let home = TestHome::started();
    let id = running(&home, "fix the parser");
    assert_eq!(home.json::<SessionRecord>(&["show", "fix the parser", "--json"]).id, id);
    home.coven(&["kill", "fix the parser"]).done();
    assert_eq!(home.coven(&["wait", "fix the parser"]).code, 1);
    // Of several with one title, the one that has not ended is meant.
    let again = running(&home, "fix the parser");
    assert_eq!(home.json::<SessionRecord>(&["show", "fix the parser", "--json"]).id, again);
    running(&home, "fix the parser");
    let told = home.coven(&["show", "fix the parser"]).refused(2);
    assert!(told.contains("several sessions have the title") && told.contains(&again), "{told}");
    home.coven(&["show", "fix the"]).refused(3);
}

#[test]
fn several_sessions_are_named_in_one_command() {
    let home = TestHome::started();
    let (first, second) = (running(&home, "first"), running(&home, "second"));
    let ran = home.coven(&["kill", "first", "no such session", &second]);
    assert!(ran.stderr.contains("no such session: no session has the id or title"), "{}", ran.stderr);
    ran.refused(3);
    assert_eq!(home.coven(&["wait", &first, &second]).code, 1);
    let shown = home.coven(&["show", &first, &second]).done();
    assert!(shown.contains(&first) && shown.contains(&second), "{shown}");
    home.coven(&["archive", "first", "second"]).done();
    home.coven(&["rm", "first", "second", "--yes"]).done();
    assert!(home.json::<Vec<Value>>(&["ls", "--all", "--json"]).is_empty());
}

#[test]
fn a_renamed_session_has_the_new_title_and_an_event_says_so() {
    let home = TestHome::started();
    let id = running(&home, "before");
    let told = home.coven(&["rename", "before", "the", "parser"]).done();
    assert!(told.starts_with("renamed: the parser "), "{told}");
    assert_eq!(home.session(&id).title, "the parser");
    home.coven(&["show", "before"]).refused(3);
    let renamed = home.events_since("0").events.into_iter().find(|event| event.kind == "session.renamed");
    assert_eq!(renamed.expect("an event").subject, id);
    let answer = home.post(&format!("/api/v1/sessions/{id}/rename"), &json!({ "title": " " }));
    assert_eq!(answer.status, 400);
    home.coven(&["kill", &id]).done();
}
