//! The daemon itself: health, harnesses, retention, migration, the event stream, errors of any route, the stop.

use coven_testing::{TestHome, wait_until};
use hyper::Method;
use serde_json::json;

use super::snapshot::Snapshot;

/// An installed harness, one that is not installed, a built-in one and one from the config.
const HARNESSES: [&str; 4] = ["claude", "codex", "demo", "mine"];

#[test]
fn the_daemon() {
    let mut home = TestHome::new();
    home.configure(json!({
        "harnesses": { "mine": { "program": "claude", "identity": "claude", "print": { "args": ["-p"] } } },
    }));
    home.start();
    // Only the harnesses of the test: the machine may have more.
    home.env.push(("PATH".to_owned(), home.agents().display().to_string()));
    let mut wire = Snapshot::of("daemon", &home);
    wire.get("/api/v1/health");
    wire.note("empty").get("/state");
    let path = home.agents().display().to_string();
    wire.only(&HARNESSES).get(&format!("/api/v1/harnesses?versions=true&path={path}"));
    wire.get(&format!("/api/v1/harnesses/mine?path={path}"));
    wire.get("/api/v1/harnesses/nosuch");
    wire.note("a cursor of no page").get("/api/v1/harnesses?cursor=nosuch");
    wire.only(&HARNESSES).coven(&["harness", "list", "--json"]);
    wire.only(&HARNESSES).coven(&["harness", "doctor", "--json"]);
    wire.coven(&["daemon", "status", "--json"]);
    wire.coven(&["state", "--json"]);
    home.run_to_end("say hello");
    wire.stream("/events?since=0", 4);
    wire.stream("/events?since=999", 2);
    wire.note("ahead of all events").send(Method::GET, "/events?since=999", &[("accept", "application/json")], None);
    wire.send(Method::GET, "/events?since=0&limit=1", &[("accept", "application/json")], None);
    wire.get("/events?since=yesterday");
    wire.coven(&["events", "--json"]);
    wire.coven(&["workflow", "list", "--json"]);

    wire.get("/nosuch");
    wire.send(Method::PUT, "/api/v1/sessions", &[], Some("{}".to_owned()));
    wire.get("/api/v1/health?colour=red");
    // After the events, because the number of events of an operation depends on its duration.
    for (path, verb) in [("/api/v1/retention", "retention"), ("/api/v1/migrate", "migrate")] {
        let started = wire.post(path, &json!({ "dry_run": true }));
        let id = started["id"].as_str().expect("an operation");
        wire.get(&format!("/api/v1/operations/{id}?wait=true"));
        wire.coven(&[verb, "--dry-run", "--json"]);
    }
    wire.post("/api/v1/daemon/stop", &json!({}));
    wait_until("the daemon has exited", || home.daemons().is_empty());
    wire.finish();
}
