//! Replaces a daemon with another build while work is in progress. `cargo xtask upgrade --from PATH` sets the older
//! program. Without it, the build under test replaces itself, so that the test runs in every test run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use coven_testing::agents::agent_path;
use coven_testing::pattern::assert_bytes;
use coven_testing::{CommandOutput, TestHome, check_invariants, eventually, process, program};
use serde_json::{Value, json};

use crate::daemon_killed::{after_bytes, expected_flood};

fn older_coven() -> PathBuf {
    std::env::var_os("COVEN_OLDER_BIN").map_or_else(program::coven, PathBuf::from)
}

/// The older program's home, and the ids of the work in progress.
struct Work {
    home: TestHome,
    flood: String,
    asking: String,
    permission: String,
    open: String,
    running: String,
    reviewed: String,
    events: u64,
}

impl Work {
    /// Starts all work. Parses responses of the older daemon as plain JSON, because its types may differ.
    fn start() -> Self {
        let home = TestHome::in_repository(json!({ "scheduler": { "maxConcurrentAgents": 8 } }));
        home.install("gemini");
        older(&home, &["daemon", "start"]);
        let flood = launch(&home, json!({ "harness": "claude", "prompt": "flood_until_told" }));
        let repo = home.post("/api/repos", &json!({ "path": home.project() })).json::<Value>();
        let asking: Value = home.post("/api/sessions", &json!({ "repoId": repo["id"] })).json();
        let asking = id_of(&asking);
        let prompt =
            home.post(&agent_path(&asking, "/prompt"), &json!({ "text": "say before ;; permit touch x ;; say after" }));
        assert_eq!(prompt.status, 202);
        let permission = eventually("the agent asks for permission", || {
            home.read::<Value>("/api/v1/inbox")["items"].get(0).map(id_of)
        });
        let add = |title: &str, script: &str| {
            let body = format!(";; {script}");
            id_of(
                &serde_json::from_str(&older(
                    &home,
                    &["task", "add", title, "--body", &body, "--harness", "claude", "--json"],
                ))
                .expect("valid JSON"),
            )
        };
        let (open, running, reviewed) = (
            add("Later", "commit later.txt"),
            add("Now", "commit now.txt ;; hang"),
            add("Before", "commit before.txt"),
        );
        for task in [&running, &reviewed] {
            older(&home, &["task", "start", task]);
        }
        wait_for_task(&home, &reviewed, "pending_merge");
        eventually("the running agent has committed", || {
            home.worktree(&running).join("now.txt").is_file().then_some(())
        });
        after_bytes(&home, &flood, 100_000);
        let events = home.read::<Value>("/state")["event_number"].as_u64().expect("number");
        Self { home, flood, asking, permission, open, running, reviewed, events }
    }

    /// Asserts that all work is unchanged, and completes it.
    fn complete(self) {
        let Self { home, flood, asking, permission, open, running, reviewed, events } = self;
        let status = |path: String| home.read::<Value>(&path)["status"].clone();
        for session in [&flood, &asking] {
            assert_eq!(status(format!("/api/v1/sessions/{session}")), "running");
        }
        for (task, expected) in [(&open, "open"), (&running, "in_progress"), (&reviewed, "pending_merge")] {
            assert_eq!(status(format!("/api/v1/tasks/{task}")), expected, "task {task}");
        }
        assert_eq!(status(format!("/api/v1/inbox/{permission}")), "pending");

        assert_eq!(
            home.post(&format!("/api/v1/inbox/{permission}/answer"), &json!({ "decision": "allow" })).status,
            200
        );
        home.wait_for_rest(&asking);
        assert_eq!(home.agent_text(&asking), "beforechose:o1-allow_onceafter");
        home.coven(&["task", "approve", &reviewed]).expect_success();
        wait_for_task(&home, &reviewed, "closed");
        home.coven(&["task", "release", &running]).expect_success();
        wait_for_task(&home, &running, "open");
        home.coven(&["task", "start", &open]).expect_success();
        wait_for_task(&home, &open, "pending_merge");
        after_bytes(&home, &flood, 100_000);
        home.type_in(&flood, "stop\n");
        home.wait_for_end(&flood);
        let log = home.log(&flood);
        assert_bytes("the flood across the upgrade", &log, &expected_flood(&log));
        assert!(home.read::<Value>("/state")["event_number"].as_u64().expect("number") > events);
        let feed = home.events_since(&events.to_string());
        assert!(!feed.gap, "a subscriber of the older daemon can continue");
        check_invariants(&home);
    }
}

fn older(home: &TestHome, args: &[&str]) -> String {
    let mut command = Command::new(older_coven());
    command.args(args).env_clear().envs(home.variables()).current_dir(home.project()).stdin(Stdio::null());
    CommandOutput::from(command.output().expect("older coven starts")).expect_success()
}

fn launch(home: &TestHome, request: Value) -> String {
    let answer = home.post("/api/v1/sessions", &request);
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    id_of(&answer.json())
}

fn id_of(record: &Value) -> String {
    record["id"].as_str().expect("record has an id").to_owned()
}

fn wait_for_task(home: &TestHome, id: &str, status: &str) {
    eventually(&format!("task {id} is {status}"), || {
        (home.read::<Value>(&format!("/api/v1/tasks/{id}"))["status"] == status).then_some(())
    });
}

#[test]
fn a_newer_daemon_takes_over_after_a_kill() {
    let work = Work::start();
    process::kill_hard(work.home.daemons().pop().expect("older daemon is running"));
    work.home.end_daemons();
    work.home.start();
    work.complete();
}

#[test]
fn a_newer_daemon_takes_over_after_a_restart() {
    let work = Work::start();
    work.home.coven(&["daemon", "restart"]).expect_success();
    work.complete();
}
