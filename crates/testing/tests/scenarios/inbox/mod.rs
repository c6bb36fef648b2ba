//! Question sets in the inbox of a running daemon: one list with permissions, one way to answer, an event for every change.

mod answering;
mod broken;
mod events;
mod following;
mod linked;
mod notifying;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use coven_api::event::EventRecord;
use coven_api::inbox::InboxItem;
use coven_testing::{Ran, TestHome, eventually};
use serde_json::{Value, json};

/// One single and one multiple choice.
const TWO: &str = r#"{"questions":[
    {"title":"Database","prompt":"Which\n database?","options":[{"label":"SQLite (recommended)","description":"One file"},{"label":"PostgreSQL"}]},
    {"title":"Features","prompt":"Which features?","options":[{"label":"Auth"},{"label":"Logs"}],"multiSelect":true}]}"#;

/// The id that comes after all others.
const LAST_ID: &str = "ffffffff-ffff-4fff-bfff-ffffffffffff";

/// Asks and waits, as an agent's tool would.
fn asker(home: &TestHome, args: &[&str]) -> Child {
    let mut command = home.command(&[&["ask"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven runs")
}

fn end(child: Child) -> Ran {
    child.wait_with_output().expect("our child").into()
}

/// Asks a single choice of A and B and does not wait; gives its id.
fn ask(home: &TestHome, prompt: &str) -> String {
    let line = ["ask", "--prompt", prompt, "--option", "A", "--option", "B", "--no-wait"];
    home.coven(&line).done().trim().to_owned()
}

/// Where the sets are.
fn folder(home: &TestHome) -> PathBuf {
    home.user().join(".local/share/auq/sessions")
}

/// A set as another tool makes it, with an id of one's choice, appearing at once.
fn put_set(home: &TestHome, id: &str, prompt: &str) {
    let aside = home.folder().join(format!("aside-{id}"));
    fs::create_dir_all(&aside).expect("room on disk");
    let question = json!({"title": "T", "prompt": prompt, "options": [{"label": "A"}, {"label": "B"}]});
    let now = coven_holder::clock::now();
    let request = json!({"sessionId": id, "questions": [question], "timestamp": now, "status": "pending"});
    let status =
        json!({"sessionId": id, "status": "pending", "createdAt": now, "lastModified": now, "totalQuestions": 1});
    fs::write(aside.join("request.json"), request.to_string()).expect("room on disk");
    fs::write(aside.join("status.json"), status.to_string()).expect("room on disk");
    fs::create_dir_all(folder(home)).expect("room on disk");
    fs::rename(aside, folder(home).join(id)).expect("the same file system");
}

/// The id of the n-th set that is put there by hand.
fn nth_id(nth: u32) -> String {
    format!("{nth:08x}-0000-4000-8000-{nth:012x}")
}

/// Waits until so many wait, and gives them.
#[track_caller]
fn waiting(home: &TestHome, count: usize) -> Vec<InboxItem> {
    eventually(&format!("{count} wait"), || Some(home.inbox("")).filter(|items| items.len() == count))
}

fn show(home: &TestHome, id: &str) -> InboxItem {
    home.read(&format!("/api/v1/inbox/{id}"))
}

/// Every event of question sets, oldest first: its kind and whose it is.
fn told(home: &TestHome) -> Vec<(String, String)> {
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

/// What was told of one set.
fn told_of(home: &TestHome, id: &str) -> Vec<String> {
    told(home).into_iter().filter(|(_, subject)| subject == id).map(|(kind, _)| kind).collect()
}

/// Waits until the last thing told of a set is this.
#[track_caller]
fn wait_for_event(home: &TestHome, id: &str, kind: &str) {
    let is_it = || told_of(home, id).last().is_some_and(|last| last == kind);
    coven_testing::wait_until(&format!("{kind} of {id}"), is_it);
}

/// The answer that chooses this of the only question.
fn choosing(label: &str) -> Value {
    json!({ "answers": [{ "questionIndex": 0, "selectedOption": label }] })
}
