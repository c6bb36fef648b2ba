//! Finished work: diff, review and merge.

use coven_domain::task::TaskState;
use coven_testing::{TestHome, wait_until};
use serde_json::{Value, json};

use super::snapshot::Snapshot;

const WHOLE: &str = "\
steps:
  - { name: prepare, type: script, command: 'echo prepared' }
  - { name: work, type: agent, harness: plain, prompt: '{{ task.body }}' }
  - name: again
    type: loop
    max_iterations: 2
    steps:
      - { name: check, type: script, command: 'echo checked' }
  - { name: land, type: merge }
";

fn id(operation: &Value) -> String {
    operation["id"].as_str().expect("an operation").to_owned()
}

fn path(id: &str, rest: &str) -> String {
    format!("/api/v1/tasks/{id}{rest}")
}

#[test]
fn reviews() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.write_workflow("whole", WHOLE);
    let mut wire = Snapshot::of("review", &home).hide(&["event_number"]);
    let finish_task = |title: &str, script: &str| {
        let id = home.add_task(title, script, &["--workflow", "whole"]);
        home.start_task(&id);
        home.wait_for_task(&id, TaskState::PendingMerge);
        id
    };

    let merged =
        finish_task("Merged", "commit new.txt ;; append a.txt 4 ;; say {\"success\":true,\"outputs\":{\"a\":1}}");
    wire.note("in review").get(&path(&merged, ""));
    wire.note("in review").get(&format!("/api/v1/workflows/{merged}"));
    wire.note("in review").get(&path(&merged, "/diff"));
    wire.note("in review").get(&format!("/api/v1/inbox/{merged}"));
    wire.note("in review").get("/api/v1/inbox");
    wire.coven(&["task", "list", "--json"]);
    wire.coven(&["task", "diff", &merged, "--json"]);
    wire.coven(&["board", "--json"]);
    wire.note("without a reason").post(&path(&merged, "/reject"), &json!({}));
    wire.note("in review").post(&path(&merged, "/unblock"), &json!({}));
    let merging = id(&wire.post(&path(&merged, "/approve"), &json!({ "by": "me" })));
    wire.get(&format!("/api/v1/operations/{merging}?wait=true"));
    wire.note("merged").get(&path(&merged, ""));
    wire.note("merged").get(&path(&merged, "/diff"));
    wire.note("merged").get(&format!("/api/v1/workflows/{merged}"));
    wire.note("merged").post(&path(&merged, "/approve"), &json!({}));

    let conflict = finish_task("Conflict", "leave_dirty a.txt");
    home.git("echo ours > a.txt; git commit -qam ours");
    let merging = id(&wire.note("a conflict").post(&path(&conflict, "/approve"), &json!({})));
    wire.note("a conflict").get(&format!("/api/v1/operations/{merging}?wait=true"));
    wire.get("/api/v1/operations");
    wire.get("/api/v1/operations/nosuch");
    wire.coven(&["operation", "list", "--status", "failed", "--json"]);
    wire.note("a conflict").get(&format!("/api/v1/inbox/{conflict}"));
    wire.post(&path(&conflict, "/reject"), &json!({ "reason": "not like this", "by": "me" }));
    wire.note("rejected").get(&path(&conflict, ""));
    wire.post(&format!("/api/v1/inbox/{conflict}/answer"), &json!({ "decision": "deny", "reason": "not needed" }));
    wait_until("the rescue has an event", || home.events_since("0").items.iter().any(|it| it.kind == "task.rescued"));
    wire.coven(&["rescue", "list", "--json"]);
    home.sessions().iter().for_each(|it| drop(home.wait_for_end(&it.id)));
    wire.get("/state");
    wire.events();
    wire.finish();
}
