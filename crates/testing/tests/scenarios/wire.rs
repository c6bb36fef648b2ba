//! The JSON of every route and of the main `--json` verbs, pinned in one snapshot file per group.
//!
//! `COVEN_WRITE_SNAPSHOTS=1` writes the files; the diff then shows what changed on the wire.

mod acp;
mod daemon;
mod events;
mod inbox;
mod json;
mod names;
mod review;
mod sessions;
mod snapshot;
mod tasks;
mod work;

use std::fs;

use serde_json::Value;
use snapshot::{GROUPS, file, is_writing};

/// Answers of the OpenAPI document that are in no snapshot, with the reason.
const EXCEPTIONS: [(&str, &str); 8] = [
    (
        "200 GET /api/openapi.json",
        "it is `docs/generated/openapi.json`, as `the_document_is_a_route_of_the_table` checks",
    ),
    ("101 GET /api/v1/live", "the tests in `live` check every message"),
    ("200 POST /api/v1/sessions/{id}/finish", STOPPING),
    ("200 POST /api/v1/sessions/{id}/hook", FROM_INSIDE),
    ("409 POST /api/v1/sessions/{id}/hook", FROM_INSIDE),
    ("200 POST /api/v1/tasks/{id}/block", STOPPING),
    ("200 POST /api/v1/tasks/{id}/release", STOPPING),
    ("200 POST /api/v1/workflows/{id}/cancel", STOPPING),
];
const FROM_INSIDE: &str = "only a process of the session may call it; the tests in `activity` check it";
const STOPPING: &str =
    "the record may have ended or not, depending on how fast the process ends; `work::stopping` checks it";

/// Returns the documented answers, such as `404 GET /api/v1/sessions/{id}`.
fn documented() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/openapi.json");
    let document = fs::read_to_string(path).expect("the document");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut answers = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            // The security tests check for each route that invalid requests are refused.
            let statuses =
                operation["responses"].as_object().expect("responses").keys().filter(|status| *status != "400");
            answers.extend(statuses.map(|status| format!("{status} {} {path}", method.to_uppercase())));
        }
    }
    answers
}

/// Returns the answers of a group, without the queries and notes of their requests.
fn recorded(group: &str) -> Vec<String> {
    let text = fs::read_to_string(file(group)).expect("a snapshot");
    let answers: Value = serde_json::from_str(&text).expect("JSON");
    let answer = |(key, answer): (&String, &Value)| {
        let request: Vec<&str> = key.split([' ', '?']).take(2).collect();
        Some(format!("{} {}", answer["status"].as_u64()?, request.join(" ")))
    };
    answers.as_object().expect("answers").iter().filter_map(answer).collect()
}

/// Returns whether a recorded answer matches this documented one; `{id}` matches any segment.
fn is_one_of(answer: &str, documented: &str) -> bool {
    let (parts, wanted): (Vec<&str>, Vec<&str>) = (answer.split('/').collect(), documented.split('/').collect());
    parts.len() == wanted.len()
        && parts.iter().zip(&wanted).all(|(part, wanted)| wanted.starts_with('{') || part == wanted)
}

#[test]
fn every_documented_answer_is_in_a_snapshot() {
    // The other tests of this module are writing the files.
    if is_writing() {
        return;
    }
    let answers: Vec<String> = GROUPS.iter().flat_map(|group| recorded(group)).collect();
    let is_recorded = |wanted: &String| answers.iter().any(|answer| is_one_of(answer, wanted));
    let is_excepted = |wanted: &String| EXCEPTIONS.iter().any(|(except, _)| except == wanted);

    let missing: Vec<String> = documented().into_iter().filter(|it| !is_recorded(it) && !is_excepted(it)).collect();

    assert_eq!(missing, [""; 0], "record these answers, or add them to EXCEPTIONS with the reason");
}
