//! Tasks without runs: `/api/v1/tasks` and `coven task`.

use coven_testing::TestHome;
use hyper::Method;
use serde_json::json;

use super::names::MISSING;
use super::snapshot::{Snapshot, id};

fn path(id: &str, rest: &str) -> String {
    format!("/api/v1/tasks/{id}{rest}")
}

#[test]
fn tasks() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let mut wire = Snapshot::of("tasks", &home);
    wire.note("none yet").get("/api/v1/tasks");

    let epic = id(&wire.post("/api/v1/tasks", &json!({ "title": "The epic", "type": "epic", "priority": 0 })));
    let whole = json!({
        "title": "Open", "body": "What to do.", "type": "bug", "priority": 1, "parent": epic, "tags": ["core", "ui"],
        "harness": "claude", "args": ["--verbose"], "workflow": "careful", "base_branch": "main", "by": "me",
    });
    let open = id(&wire.note("every field").post("/api/v1/tasks", &whole));
    let bulk = json!({ "tasks": [
        { "title": "Waits", "depends_on": [open], "ref": "a", "priority": 3 },
        { "title": "Waits for that", "depends_on": ["a"], "priority": 4 },
    ] });
    let adding = id(&wire.post("/api/v1/tasks/bulk", &bulk));
    let made = wire.get(&format!("/api/v1/operations/{adding}?wait=true"));
    let waits = id(&made["result"]["items"][0]);
    let closed = id(&wire.note("to be closed").post("/api/v1/tasks", &json!({ "title": "Closed" })));
    wire.post(&path(&closed, "/close"), &json!({ "reason": "done", "by": "me" }));
    let deleted = id(&wire.note("to be deleted").post("/api/v1/tasks", &json!({ "title": "Deleted" })));
    wire.delete(&path(&deleted, "?by=me"));
    let edit = json!({ "title": "Open still", "priority": 2, "parent": null, "tags": ["core"], "by": "me" });
    wire.patch(&path(&open, ""), &edit);

    refusals(&mut wire, &epic, &open, &waits, &closed);
    for id in [&open, &waits, &closed] {
        wire.get(&path(id, ""));
    }
    wire.get(&path(&open, "/history"));
    wire.get(&path(&open, "/history?limit=1"));
    for id in [&open, &waits] {
        wire.get(&path(id, "/readiness"));
    }
    wire.get(&path(MISSING, "/readiness"));
    wire.note("none yet").get(&path(&open, "/runs"));
    wire.get(&path(MISSING, "/runs"));
    wire.get("/api/v1/tasks");
    wire.get("/api/v1/tasks?limit=1");
    wire.get("/api/v1/tasks?status=closed&include_deleted=true");
    wire.get("/api/v1/tasks?ready=true&tag=core");
    wire.coven(&["task", "list", "--json"]);
    wire.coven(&["task", "show", &waits, "--json"]);
    wire.coven(&["task", "history", &open, "--json"]);
    wire.coven(&["task", "show", MISSING, "--json"]);
    wire.coven(&["board", "--json"]);
    wire.get("/state");
    wire.get("/state?limit=2");
    wire.get("/state?cursor=nosuch");
    wire.events();
    wire.finish();
}

fn refusals(wire: &mut Snapshot<'_>, epic: &str, open: &str, waits: &str, closed: &str) {
    wire.note("no title").post("/api/v1/tasks", &json!({}));
    wire.note("no such type").post("/api/v1/tasks", &json!({ "title": "x", "type": "wish" }));
    wire.note("no such priority").post("/api/v1/tasks", &json!({ "title": "x", "priority": 9 }));
    wire.note("no such parent").post("/api/v1/tasks", &json!({ "title": "x", "parent": MISSING }));
    wire.note("no such harness").post("/api/v1/tasks", &json!({ "title": "x", "harness": "nosuch" }));
    wire.note("an array").post("/api/v1/tasks", &json!(["x"]));
    wire.note("not JSON").send(Method::POST, "/api/v1/tasks", &[], Some("{".to_owned()));
    let one_is_wrong = json!({ "tasks": [{ "title": "fine" }, { "title": "" }] });
    wire.note("one is wrong").post("/api/v1/tasks/bulk", &one_is_wrong);
    let one_is_missing = json!({ "tasks": [{ "title": "fine", "depends_on": [MISSING] }] });
    wire.note("one is missing").post("/api/v1/tasks/bulk", &one_is_missing);
    wire.note("a dependency cycle").patch(&path(open, ""), &json!({ "depends_on": [waits] }));
    wire.note("its own parent").patch(&path(epic, ""), &json!({ "parent": epic }));
    wire.patch(&path(MISSING, ""), &json!({ "title": "x" }));
    wire.note("closed").post(&path(closed, "/close"), &json!({}));
    wire.note("closed").post(&path(closed, "/start"), &json!({}));
    wire.note("closed").post(&path(closed, "/block"), &json!({}));
    wire.note("not ready").post(&path(waits, "/start"), &json!({}));
    for verb in ["release", "unblock", "approve"] {
        wire.note("open").post(&path(open, &format!("/{verb}")), &json!({}));
    }
    wire.note("without a reason").post(&path(open, "/reject"), &json!({}));
    wire.note("open").post(&path(open, "/reject"), &json!({ "reason": "no" }));
    wire.note("no work yet").get(&path(open, "/diff"));
    wire.note("others depend on it").delete(&path(open, ""));
    for rest in ["", "/history", "/diff"] {
        wire.get(&path(MISSING, rest));
    }
    for verb in ["close", "start", "approve", "reject", "block", "unblock", "release"] {
        wire.post(&path(MISSING, &format!("/{verb}")), &json!({ "reason": "because" }));
    }
    wire.delete(&path(MISSING, ""));
    wire.get("/api/v1/tasks?status=asleep");
    wire.get("/api/v1/tasks?priority=9");
    wire.get("/api/v1/tasks?cursor=x");
}
