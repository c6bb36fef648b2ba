//! Question sets in the inbox of a running daemon: one list with permission requests, one way to answer, an event for every change.

mod answering;
mod broken;
mod events;
mod following;
mod form;
mod hook_request;
mod linked;
mod notifying;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use coven_api::event::EventRecord;
use coven_api::inbox::InboxItem;
use coven_testing::{CommandOutput, TestHome, eventually};
use serde_json::{Value, json};

/// A single-choice and a multiple-choice question.
const TWO: &str = r#"{"questions":[
    {"title":"Database","prompt":"Which\n database?","options":[{"label":"SQLite (recommended)","description":"One file"},{"label":"PostgreSQL"}]},
    {"title":"Features","prompt":"Which features?","options":[{"label":"Auth"},{"label":"Logs"}],"multiSelect":true}]}"#;

/// An id that sorts after all others.
const LAST_ID: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";

/// Starts a command that asks and waits for the answers.
fn asker(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(&[&["ask"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven runs")
}

fn end(child: Child) -> CommandOutput {
    child.wait_with_output().expect("child process").into()
}

/// Asks for a choice of A or B without waiting, and returns the id of the set.
fn ask(home: &TestHome, prompt: &str) -> String {
    let line = ["ask", "--prompt", prompt, "--option", "A", "--option", "B", "--no-wait"];
    home.coven(&line).expect_success().trim().to_owned()
}

/// Returns the folder of the question sets.
fn folder(home: &TestHome) -> PathBuf {
    home.user().join(".local/share/auq/sessions")
}

/// Creates a set with this id like another tool, and renames it into place.
fn put_set(home: &TestHome, id: &str, prompt: &str) {
    let aside = home.folder().join(format!("aside-{id}"));
    fs::create_dir_all(&aside).expect("disk has space");
    let question = json!({"title": "T", "prompt": prompt, "options": [{"label": "A"}, {"label": "B"}]});
    let now = coven_holder::clock::now();
    let request = json!({"sessionId": id, "questions": [question], "timestamp": now, "status": "pending"});
    let status =
        json!({"sessionId": id, "status": "pending", "createdAt": now, "lastModified": now, "totalQuestions": 1});
    fs::write(aside.join("request.json"), request.to_string()).expect("disk has space");
    fs::write(aside.join("status.json"), status.to_string()).expect("disk has space");
    fs::create_dir_all(folder(home)).expect("disk has space");
    fs::rename(aside, folder(home).join(id)).expect("the same file system");
}

/// Returns the id of the n-th set created by `put_set`.
fn nth_id(nth: u32) -> String {
    format!("{nth:08x}-0000-4000-8000-{nth:012x}")
}

/// Waits for this number of pending items and returns them.
#[track_caller]
fn waiting(home: &TestHome, count: usize) -> Vec<InboxItem> {
    eventually(&format!("{count} items are pending"), || Some(home.inbox("")).filter(|items| items.len() == count))
}

fn show(home: &TestHome, id: &str) -> InboxItem {
    home.read(&format!("/api/v1/inbox/{id}"))
}

/// Returns the kind and subject of every event of question sets, oldest first.
fn set_events(home: &TestHome) -> Vec<(String, String)> {
    let mut all: Vec<EventRecord> = Vec::new();
    loop {
        let after = all.last().map_or(0, |event| event.number);
        let page = home.events_since(&after.to_string()).items;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let ours = all.into_iter().filter(|event| event.kind.starts_with("question_set."));
    ours.map(|event| (event.kind, event.subject)).collect()
}

/// Returns the kinds of the events of one set.
fn events_of(home: &TestHome, id: &str) -> Vec<String> {
    set_events(home).into_iter().filter(|(_, subject)| subject == id).map(|(kind, _)| kind).collect()
}

/// Waits until the last event of a set is of this kind.
#[track_caller]
fn wait_for_event(home: &TestHome, id: &str, kind: &str) {
    let is_last = || events_of(home, id).last().is_some_and(|last| last == kind);
    coven_testing::wait_until(&format!("{kind} of {id}"), is_last);
}

/// Returns the answer that selects this option of the only question.
fn choosing(label: &str) -> Value {
    json!({ "answers": [{ "questionIndex": 0, "selectedOption": label }] })
}
