//! The activity of terminal agents: signals, screen rules and hooks of a harness that the config defines.

mod hooks;
mod restart;
mod rules;
mod screen;
mod signals;
mod untouched;

use coven_api::activity::ActivityResponse;
use coven_domain::activity::Activity;
use coven_testing::TestHome;
use serde_json::{Value, json};

/// Rules for every part of the terminal.
fn all_rules() -> Value {
    json!([
        { "name": "spinner", "on": "title", "means": "working", "starts": ["* "], "detail": "{line}" },
        { "name": "still", "on": "title", "means": "resting", "starts": ["- "] },
        { "name": "approval", "on": "notification", "means": "permission", "all": ["Approval"], "detail": "{line}" },
        { "name": "busy", "on": "progress", "means": "working", "any": ["busy", "%"] },
        { "name": "done", "on": "progress", "means": "idle", "any": ["hidden"] },
        { "name": "quota", "on": "bell", "means": "limited" },
        { "name": "trust", "on": "screen", "means": "question", "all": ["Do you trust"], "detail": "asks: {line}" },
        { "name": "refused", "on": "screen", "means": "limited", "all": ["retries in"] },
    ])
}

/// Lets the script continue after `ask`, and waits for the activity.
#[track_caller]
fn step(home: &TestHome, id: &str, activity: Activity) -> ActivityResponse {
    home.type_in(id, "\r");
    home.wait_for_evidence(id, activity)
}

/// Returns source and detail.
fn source_and_detail(evidence: &ActivityResponse) -> (String, Option<&str>) {
    (evidence.source.map(|source| source.to_string()).unwrap_or_default(), evidence.detail.as_deref())
}
