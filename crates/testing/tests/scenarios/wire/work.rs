//! Workflow runs: start, failure, retry, cancellation, and an agent with a terminal prompt.

use coven_api::inbox::InboxKind;
use coven_domain::task::TaskState;
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::{Value, json};

use super::names::MISSING;
use super::snapshot::Snapshot;

const FAILING: &str = "steps:\n  - { name: first, type: script, command: 'echo one' }\n  - { name: second, type: script, command: 'echo two; exit 3' }\n";
const HANGING: &str = "steps:\n  - { name: wait, type: script, command: 'echo up; while :; do sleep 1; done' }\n";
const ASKING: &str = "steps:\n  - { name: talk, type: agent, channel: terminal, prompt: 'ask Really? ;; say on' }\n";

fn task_path(id: &str, rest: &str) -> String {
    format!("/api/v1/tasks/{id}{rest}")
}

fn run_path(id: &str, rest: &str) -> String {
    format!("/api/v1/workflows/{id}{rest}")
}

#[test]
fn workflow_runs() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let mut wire = Snapshot::of("work", &home).hide(&["event_number"]);
    wire.note("none yet").get("/api/v1/workflows");
    wire.note("none yet").get("/api/v1/agents");

    let failing = home.add_task_for("failing", FAILING);
    let started = wire.post(&task_path(&failing, "/start"), &json!({ "by": "me" }));
    let run = started["workflow"]["id"].as_str().expect("an id").to_owned();
    home.wait_for_task(&failing, TaskState::Blocked);
    wire.note("blocked").get(&task_path(&failing, ""));
    wire.note("blocked").get(&run_path(&run, ""));
    wire.note("by its task").get(&run_path(&failing, ""));
    wire.note("blocked").get(&run_path(&run, "/steps"));
    wire.get(&run_path(&run, "/definition"));
    wire.get(&task_path(&failing, "/runs"));
    wire.note("blocked").get("/api/v1/inbox");
    wire.post(&run_path(&run, "/retry"), &json!({ "by": "me" }));
    home.wait_for_task(&failing, TaskState::Blocked);
    wire.post(&task_path(&failing, "/unblock"), &json!({ "by": "me" }));

    running(&mut wire, &home);
    asking(&mut wire, &home);

    wire.get("/api/v1/workflows");
    wire.get("/api/v1/workflows?status=cancelled&limit=1");
    wire.get("/api/v1/workflows?status=asleep");
    for rest in ["", "/steps", "/definition"] {
        wire.get(&run_path(MISSING, rest));
    }
    wire.post(&run_path(MISSING, "/cancel"), &json!({}));
    wire.post(&run_path(MISSING, "/retry"), &json!({}));
    wire.get("/api/v1/agents?all=true");
    wire.get(&format!("/api/v1/agents?task={failing}"));
    wire.get(&format!("/api/v1/agents?task={MISSING}"));
    wire.get(&format!("/api/v1/agents/{MISSING}"));
    wire.coven(&["workflow", "list", "--json"]);
    wire.coven(&["workflow", "show", &run, "--json"]);
    wire.coven(&["workflow", "show", MISSING, "--json"]);
    wire.coven(&["workflow", "steps", &run, "--json"]);
    wire.coven(&["task", "show", &failing, "--json"]);
    wire.coven(&["task", "history", &failing, "--json"]);
    home.sessions().iter().for_each(|it| drop(home.wait_for_end(&it.id)));
    wire.get("/state");
    wire.events();
    wire.finish();
}

/// Records every way to stop a running task.
fn running(wire: &mut Snapshot<'_>, home: &TestHome) {
    let id = home.add_task_for("hanging", HANGING);
    let start = |wire: &mut Snapshot<'_>, note: &str| {
        wire.note(note).post(&task_path(&id, "/start"), &json!({}));
        let agent = home.wait_for_agent(&id);
        home.wait_for_output(&agent.session_id.expect("is running").to_string(), "up");
        agent.id
    };
    let rest = || wait_until("the agent has ended", || home.agents_of(&id).iter().all(|it| it.ended_at.is_some()));

    let agent = start(wire, "to be released");
    wire.note("running").get(&task_path(&id, ""));
    wire.note("running").get(&run_path(&id, ""));
    wire.get("/api/v1/agents");
    wire.get(&format!("/api/v1/agents/{agent}"));
    wire.note("running").post(&task_path(&id, "/start"), &json!({}));
    wire.note("running").post(&run_path(&id, "/retry"), &json!({}));
    wire.note("running").delete(&task_path(&id, ""));
    wire.coven(&["task", "release", &id, "--json"]);
    rest();
    start(wire, "to be blocked");
    wire.coven(&["task", "block", &id, "--reason", "wait for me", "--json"]);
    rest();
    wire.note("blocked").post(&task_path(&id, "/start"), &json!({}));
    wire.note("blocked by hand").post(&task_path(&id, "/unblock"), &json!({}));
    start(wire, "to be cancelled");
    wire.coven(&["workflow", "cancel", &id, "--json"]);
    rest();
    wire.note("cancelled").post(&run_path(&id, "/cancel"), &json!({}));
    wire.note("cancelled").get(&run_path(&id, ""));
}

/// Records an agent that waits for input and gets it from the inbox.
fn asking(wire: &mut Snapshot<'_>, home: &TestHome) {
    let id = home.add_task_for("asking", ASKING);
    home.start_task(&id);
    let item = eventually("a terminal prompt is pending", || {
        home.inbox("").into_iter().find(|it| it.kind == InboxKind::Terminal)
    })
    .id;
    let path = format!("/api/v1/inbox/{item}");
    wire.note("a terminal prompt").get(&path);
    wire.note("a terminal prompt").post(&format!("{path}/answer"), &json!({ "option": "yes" }));
    wait_until("the run has ended", || home.run_of(&id).workflow.ended_at.is_some());
    wait_until("the answer is delivered", || home.read::<Value>(&path)["detail"]["question_set"]["delivered"] == true);
    wire.note("an answered terminal prompt").get(&path);
}
