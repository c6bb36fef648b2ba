//! Requests of a terminal agent, reported by its hooks.

use coven_domain::request::SettledFrom;
use coven_testing::{TestHome, process};
use serde_json::json;

/// Asks for a permission like the plugin, whose file contains the path of coven.
const ASKING_AGENT: &str = r#"#!/bin/sh
plugin=$(printf %s "$OPENCODE_CONFIG_CONTENT" | sed 's|.*file://\([^"]*\)".*|\1|')
coven=$(sed -n '1s|^const coven = "\(.*\)"$|\1|p' "$plugin")
request='{"id":"per_1","permission":"bash","patterns":["ls"],"metadata":{"command":"ls"},"always":[]}'
printf %s "$request" | "$coven" hook opencode permission.asked wait &
wait
"#;

#[test]
fn the_end_of_a_session_cancels_the_request_of_its_hook() {
    let home = TestHome::started();
    home.write_agent("opencode", ASKING_AGENT);
    let id = home.launch_with(json!({ "harness": "opencode", "prompt": "x" })).id;
    let request = home.wait_for_request(&id);
    assert_eq!(request.title, "wants to run: ls");

    process::kill_hard(home.session(&id).pid.expect("a live session"));

    home.wait_for_end(&id);
    assert!(home.inbox(&format!("?session={id}")).is_empty());
    assert_eq!(home.wait_for_note(&id, "request settled", &request.id).from, Some(SettledFrom::Session));
    let answer = home.answer_request(&request.id, &json!({ "option": "allow_once" }));
    assert_eq!(answer.status, 409, "{}", String::from_utf8_lossy(&answer.body));
}
