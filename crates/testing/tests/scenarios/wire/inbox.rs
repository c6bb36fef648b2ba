//! Question sets in the inbox, and conversations of `coven spawn`.

use std::fs;

use coven_testing::wait_until;
use serde_json::json;

use super::names::MISSING;
use super::snapshot::{Snapshot, wait_for_next_millisecond};
use crate::chat::{ECHO, file, home_with, spawn};

const TWO: &str = r#"{"questions":[
    {"title":"Database","prompt":"Which database?","options":[{"label":"SQLite","description":"One file"},{"label":"PostgreSQL"}]},
    {"title":"Features","prompt":"Which features?","options":[{"label":"Auth"},{"label":"Logs"}],"multiSelect":true}]}"#;

fn path(id: &str, rest: &str) -> String {
    format!("/api/v1/inbox/{id}{rest}")
}

#[test]
fn question_sets() {
    let home = home_with(ECHO);
    home.start();
    let mut wire = Snapshot::of("inbox", &home);
    wire.note("nothing yet").get("/api/v1/inbox");
    let ask = || {
        let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
        wait_until("the set is in the inbox", || home.inbox("").iter().any(|item| item.id == id));
        wait_for_next_millisecond();
        id
    };
    let [answered, rejected, pending] = [ask(), ask(), ask()];

    let answer = path(&answered, "/answer");
    let chosen = json!([
        { "questionIndex": 0, "selectedOption": "SQLite" },
        { "questionIndex": 1, "selectedOptions": ["Auth"], "customText": "and more" },
    ]);
    wire.note("nothing given").post(&answer, &json!({}));
    wire.note("not all are answered").post(&answer, &json!({ "answers": [] }));
    wire.note("options are for permission requests").post(&answer, &json!({ "option": "SQLite" }));
    wire.post(&answer, &json!({ "answers": chosen }));
    wire.note("answered").post(&answer, &json!({ "answers": chosen }));
    wire.post(&path(&rejected, "/answer"), &json!({ "reject": { "reason": "too vague" } }));
    wire.post(&path(MISSING, "/answer"), &json!({ "reject": {} }));
    for id in [answered.as_str(), &rejected, &pending, MISSING] {
        wire.get(&path(id, ""));
    }
    wire.get("/api/v1/inbox");
    wire.get("/api/v1/inbox?all=true");
    wire.get("/api/v1/questions");
    wire.get("/api/v1/questions?all=true&limit=1");
    wire.get(&format!("/api/v1/questions/{answered}"));
    wire.get(&format!("/api/v1/questions/{MISSING}"));
    wire.coven(&["inbox", "--json"]);
    wire.coven(&["inbox", "show", &answered, "--json"]);
    wire.coven(&["inbox", "show", MISSING, "--json"]);
    wire.coven(&["questions", "list", "--json"]);
    wire.coven(&["questions", "list", "--all", "--json"]);
    wire.coven(&["questions", "show", &answered, "--json"]);
    wire.coven(&["questions", "history", "--json"]);
    wire.coven(&["questions", "answers", &answered, "--json"]);

    home.coven(&["run", "--background", "--title", "a shell", "--", "true"]).expect_success();
    home.sessions().iter().for_each(|it| drop(home.wait_for_end(&it.id)));
    spawn(&home, &["-i", "--session", "talk-1"], "hello world\n").expect_success();
    wait_for_next_millisecond();
    spawn(&home, &["-i", "--session", "talk-2"], "").expect_success();
    fs::write(file(&home, "broken"), "not JSON\n").expect("disk has space");
    conversations(&mut wire);
    wire.events();
    wire.finish();
}

fn conversations(wire: &mut Snapshot<'_>) {
    wire.get("/api/v1/conversations");
    wire.get("/api/v1/conversations?limit=1&offset=1&status=completed");
    wire.get("/api/v1/conversations?status=running");
    wire.get("/api/v1/conversations/talk-1");
    wire.note("ambiguous").get("/api/v1/conversations/talk");
    wire.get("/api/v1/conversations/nosuch");
    wire.note("damaged").get("/api/v1/conversations/broken");
    wire.get("/api/v1/conversations/talk-1/turns");
    wire.get("/api/v1/conversations/talk-1/turns?limit=1");
    wire.get("/api/v1/conversations/nosuch/turns");
    wire.note("a conversation is not a session").get("/api/v1/sessions/talk-1");
    wire.coven(&["sessions", "--json"]);
    wire.coven(&["show", "talk-1", "--json"]);
    wire.coven(&["export", "talk-1", "--format", "jsonl"]);
    wire.coven(&["spawn", "--list-sessions", "--json"]);
}
