//! What users see of agents' activity: `why`, lists, `wait --for`, `attach --needs-me`, and notifications.

mod answering;
mod lists;
mod notified;
mod waiting;

use coven_api::activity::ActivityResponse;
use coven_api::routes::{Endpoint, ReadActivity};
use coven_domain::activity::Activity;
use coven_testing::{TestHome, eventually};
use serde_json::json;

/// Starts a conversation with the scripted agent. Returns the id of its session.
fn converse(home: &TestHome, title: &str, script: &str) -> String {
    if !home.project().join(".git").exists() {
        home.init_repo(&home.project());
    }
    home.launch_with(json!({ "harness": "gemini", "channel": "acp", "title": title, "prompt": script })).id
}

fn activity(home: &TestHome, id: &str) -> ActivityResponse {
    home.call(ReadActivity::of(id))
}

/// Waits until the session's record has the activity.
#[track_caller]
fn wait_for(home: &TestHome, id: &str, wanted: Activity) {
    eventually(&format!("{id} is {wanted}"), || {
        Some(home.session(id)).filter(|it| it.activity.as_deref() == Some(wanted.as_str()))
    });
}
