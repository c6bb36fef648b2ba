//! A daemon is replaced by another build while work is under way. `cargo xtask upgrade --from PATH` names the older program; without
//! it the build under test replaces itself, which keeps this test in every run.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use coven_testing::agents::agent_path;
use coven_testing::pattern::assert_bytes;
use coven_testing::{Ran, TestHome, check_invariants, eventually, process, program};
use serde_json::{Value, json};

use crate::daemon_killed::{after_bytes, poured};

fn older_coven() -> PathBuf {
    std::env::var_os("COVEN_OLDER_BIN").map_or_else(program::coven, PathBuf::from)
}

/// The older program's home, and the ids of everything that is under way in it.
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
    /// Answers of the older daemon are read as plain JSON: its shapes may differ from today's.
    fn under_way() -> Self {
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
        let permission =
            eventually("the agent asks", || home.read::<Value>("/api/v1/inbox")["items"].get(0).map(id_of));
        let add = |title: &str, script: &str| {
            let body = format!(";; {script}");
            id_of(
                &serde_json::from_str(&older(
                    &home,
                    &["task", "add", title, "--body", &body, "--harness", "claude", "--json"],
                ))
                .expect("JSON"),
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
        let events = home.read::<Value>("/state")["event_number"].as_u64().expect("a number");
        Self { home, flood, asking, permission, open, running, reviewed, events }
    }

    /// Everything is as it was, and everything can be carried to its end.
    fn continues(self) {
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
        home.coven(&["task", "approve", &reviewed]).done();
        wait_for_task(&home, &reviewed, "closed");
        home.coven(&["task", "release", &running]).done();
        wait_for_task(&home, &running, "open");
        home.coven(&["task", "start", &open]).done();
        wait_for_task(&home, &open, "pending_merge");
        after_bytes(&home, &flood, 100_000);
        home.type_in(&flood, "stop\n");
        home.wait_for_end(&flood);
        let log = home.log(&flood);
        assert_bytes("the flood across the upgrade", &log, &poured(&log));
        assert!(home.read::<Value>("/state")["event_number"].as_u64().expect("a number") > events);
        let feed = home.events_since(&events.to_string());
        assert!(!feed.gap, "a subscriber of the older daemon continues");
        check_invariants(&home);
    }
}

fn older(home: &TestHome, args: &[&str]) -> String {
    let mut command = Command::new(older_coven());
    command.args(args).env_clear().envs(home.variables()).current_dir(home.project()).stdin(Stdio::null());
    Ran::from(command.output().expect("the older coven runs")).done()
}

fn launch(home: &TestHome, request: Value) -> String {
    let answer = home.post("/api/v1/sessions", &request);
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    id_of(&answer.json())
}

fn id_of(record: &Value) -> String {
    record["id"].as_str().expect("a record has an id").to_owned()
}

fn wait_for_task(home: &TestHome, id: &str, status: &str) {
    eventually(&format!("task {id} is {status}"), || {
        (home.read::<Value>(&format!("/api/v1/tasks/{id}"))["status"] == status).then_some(())
    });
}

#[test]
fn a_newer_daemon_takes_over_after_a_kill() {
    let work = Work::under_way();
    process::kill_hard(work.home.daemons().pop().expect("the older daemon runs"));
    work.home.end_daemons();
    work.home.start();
    work.continues();
}

#[test]
fn a_newer_daemon_takes_over_by_restart() {
    let work = Work::under_way();
    work.home.coven(&["daemon", "restart"]).done();
    work.continues();
}
