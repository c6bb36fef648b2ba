//! Limits of the config that delay launches.

mod attached;
mod queue;
mod resources;
mod tasks;

use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, eventually};
use serde_json::{Value, json};

/// Starts a daemon that allows so many live agents.
fn home_with_room(agents: u64) -> TestHome {
    TestHome::started_with(json!({
        "sessions": { "killGraceSeconds": 2.0 },
        "limits": { "liveAgents": agents },
    }))
}

/// Returns the place and the reason of a session that waits for its launch.
#[track_caller]
fn queued(session: &SessionRecord) -> (u64, String) {
    let queued = &session.metadata["queued"];
    assert_eq!(session.status, "created", "{session:?}");
    let place = queued["place"].as_u64().unwrap_or_else(|| panic!("not queued: {session:?}"));
    (place, queued["reason"].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn wait_for_place(home: &TestHome, id: &str, place: u64) {
    eventually(&format!("{id} has place {place}"), || {
        (home.session(id).metadata["queued"]["place"] == place).then_some(())
    });
}

fn agent(script: &str) -> Value {
    json!({ "harness": "claude", "prompt": script })
}
