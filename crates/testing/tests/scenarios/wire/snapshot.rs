//! Records answers of a daemon and compares them with the committed file of their group.

use std::fs;
use std::path::PathBuf;

use coven_client::Client;
use coven_holder::clock;
use coven_testing::http::runtime;
use coven_testing::{DEADLINE, TestHome, wait_until};
use http_body_util::BodyExt;
use hyper::header::{ACCEPT, LOCATION, RETRY_AFTER};
use hyper::{HeaderMap, Method};
use serde_json::Value;

use super::events;
use super::json::Json;
use super::names::Names;

/// The groups. Each has one file, named after the module that records it.
pub const GROUPS: [&str; 7] = ["acp", "daemon", "inbox", "review", "sessions", "tasks", "work"];

const WRITE: &str = "COVEN_WRITE_SNAPSHOTS";
const EVENTS: &str = "accept: application/json; the first event of each kind, sorted by kind";

/// Events that depend on time: they may or may not occur.
pub const TIMED_EVENTS: [&str; 3] = ["operation.progress", "task.lease_renewed", "session.output"];

pub fn is_writing() -> bool {
    std::env::var_os(WRITE).is_some_and(|value| value == "1")
}

pub fn file(group: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/scenarios/wire/{group}.json"))
}

/// The answers of one group, in the order of the requests.
pub struct Snapshot<'a> {
    home: &'a TestHome,
    group: &'static str,
    names: Names,
    note: String,
    /// The ids to keep in the lists of the next answer.
    only: Vec<&'static str>,
    answers: Vec<(String, Json)>,
}

impl<'a> Snapshot<'a> {
    pub fn of(group: &'static str, home: &'a TestHome) -> Self {
        assert!(GROUPS.contains(&group), "add {group} to GROUPS");
        Self { home, group, names: Names::of(home), note: String::new(), only: Vec::new(), answers: Vec::new() }
    }

    /// Hides the numbers of these keys, because they depend on how often the daemon wrote to the store.
    pub fn hide(mut self, keys: &[&'static str]) -> Self {
        self.names.hide(keys);
        self
    }

    /// Adds a note to the next request. Two equal requests need different notes.
    pub fn note(&mut self, note: &str) -> &mut Self {
        note.clone_into(&mut self.note);
        self
    }

    /// Keeps only the records with these ids of the next answer.
    pub fn only(&mut self, ids: &[&'static str]) -> &mut Self {
        ids.clone_into(&mut self.only);
        let note = format!("only {}", ids.join(", "));
        self.note(&note)
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Value {
        self.send(Method::GET, path, &[], None)
    }

    #[track_caller]
    pub fn post(&mut self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, &[], Some(body.to_string()))
    }

    #[track_caller]
    pub fn patch(&mut self, path: &str, body: &Value) -> Value {
        self.send(Method::PATCH, path, &[], Some(body.to_string()))
    }

    #[track_caller]
    pub fn delete(&mut self, path: &str) -> Value {
        self.send(Method::DELETE, path, &[], None)
    }

    /// Sends a request and records its answer. Returns the body, or null if it is not JSON.
    #[track_caller]
    pub fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<String>) -> Value {
        let request = body.as_deref().map(|text| serde_json::from_str(text).unwrap_or_else(|_| Json::text(text)));
        let (status, received, body) = self.answer(&method, path, headers, body);
        let mut answer = Vec::new();
        answer.extend(request.map(|body| ("request".to_owned(), body)));
        answer.push(("status".to_owned(), Json::Number(status.into())));
        answer.extend(shown_headers(&received).map(|headers| ("headers".to_owned(), headers)));
        let shown = serde_json::from_slice(&body).unwrap_or_else(|_| Json::text(String::from_utf8_lossy(&body)));
        answer.push(("body".to_owned(), shown));
        self.record(&format!("{method} {path}"), Json::Object(answer));
        if method != Method::GET {
            wait_for_next_millisecond();
        }
        serde_json::from_slice(&body).unwrap_or_default()
    }

    #[track_caller]
    fn answer(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> (u16, HeaderMap, Vec<u8>) {
        runtime().block_on(async {
            let answer = async {
                let mut client = Client::connect(&self.home.socket()).await.expect("the daemon answers");
                let body = body.map(String::into_bytes);
                let response = client.send_raw(method.clone(), path, headers, body).await.expect("an answer");
                let (parts, body) = response.into_parts();
                let body = body.collect().await.expect("complete response").to_bytes().to_vec();
                (parts.status.as_u16(), parts.headers, body)
            };
            tokio::time::timeout(DEADLINE, answer).await.unwrap_or_else(|_| panic!("no answer in time: {path}"))
        })
    }

    /// Records the first frames of an event stream.
    #[track_caller]
    pub fn stream(&mut self, path: &str, count: usize) {
        let accept = [(ACCEPT.as_str(), "text/event-stream")];
        let text = runtime().block_on(async {
            let mut client = Client::connect(&self.home.socket()).await.expect("the daemon answers");
            let mut body = client.send_raw(Method::GET, path, &accept, None).await.expect("an answer").into_body();
            let mut text = String::new();
            while text.matches("\n\n").count() < count {
                let frame = tokio::time::timeout(DEADLINE, body.frame()).await.expect("a frame in time");
                let frame = frame.unwrap_or_else(|| panic!("the stream ended: {text}")).expect("a frame");
                text.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
            }
            text
        });
        let frames: Vec<Json> = text.split("\n\n").take(count).map(frame).collect();
        self.note("accept: text/event-stream");
        self.record(
            &format!("GET {path}"),
            Json::object([("status", Json::Number(200.into())), ("frames", Json::List(frames))]),
        );
    }

    /// Records the events of the home. Their order may differ, so one of each kind is kept, without its number.
    #[track_caller]
    pub fn events(&mut self) {
        events::check(self.home);
        let path = "/events?since=0";
        let (status, _, body) = self.answer(&Method::GET, path, &[(ACCEPT.as_str(), "application/json")], None);
        let mut body: Json = serde_json::from_slice(&body).expect("JSON");
        if let Json::Object(fields) = &mut body {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("items", value) => *value = first_of_each_kind(value),
                    ("next", value) => *value = Json::text("<number>"),
                    _ => {}
                }
            }
        }
        self.note(EVENTS);
        self.record(&format!("GET {path}"), Json::object([("status", Json::Number(status.into())), ("body", body)]));
    }

    /// Runs a command and records its output: one JSON value, or one per line.
    #[track_caller]
    pub fn coven(&mut self, args: &[&str]) {
        let ran = self.home.coven(args);
        let output = match serde_json::from_str(&ran.stdout) {
            Ok(value) => value,
            Err(_) => Json::List(ran.stdout.lines().map(line).collect()),
        };
        let mut answer = vec![("exit_code".to_owned(), Json::Number(ran.code.into()))];
        if !ran.stdout.is_empty() {
            answer.push(("stdout".to_owned(), output));
        }
        if ran.code != 0 && !ran.stderr.is_empty() {
            answer.push(("stderr".to_owned(), Json::text(ran.stderr.trim_end())));
        }
        self.record(&format!("coven {}", args.join(" ")), Json::Object(answer));
    }

    /// Records an answer under its request, followed by the note.
    #[track_caller]
    pub fn record(&mut self, request: &str, answer: Json) {
        let note = std::mem::take(&mut self.note);
        let key = if note.is_empty() { request.to_owned() } else { format!("{request} # {note}") };
        let key = self.names.replace_in(&key);
        assert!(!self.answers.iter().any(|(known, _)| *known == key), "recorded twice, add a note: {key}");
        let only = std::mem::take(&mut self.only);
        let answer = if only.is_empty() { answer } else { cut_down(answer, &only) };
        let answer = self.names.replace(answer);
        self.answers.push((key, answer));
    }

    /// Compares the answers with the committed file, or writes the file.
    #[track_caller]
    pub fn finish(self) {
        let (path, text) = (file(self.group), Json::Object(self.answers).pretty());
        if is_writing() {
            return fs::write(&path, text).expect("disk has space");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        if committed == text {
            return;
        }
        let (mut old, mut new, mut number, mut request) = (committed.lines(), text.lines(), 1, "");
        let (old, new) = loop {
            match (old.next(), new.next()) {
                (Some(old), Some(new)) if old == new => {
                    number += 1;
                    request = if new.starts_with("  \"") { new } else { request };
                }
                (old, new) => break (old.unwrap_or("the end"), new.unwrap_or("the end")),
            }
        };
        panic!(
            "{path}:{number}: the wire format differs from the snapshot\n  \
             below:     {request}\n  committed: {old}\n  sent now:  {new}\n\
             if this change is intended, write the snapshots and review the diff:\n  \
             {WRITE}=1 cargo test -p coven-testing --test scenarios wire::",
            path = path.display(),
        );
    }
}

/// Drops the records of lists that have another id.
fn cut_down(value: Json, only: &[&str]) -> Json {
    let is_kept = |item: &Json| item.get("id").and_then(Json::as_str).is_none_or(|id| only.contains(&id));
    match value {
        Json::List(items) => Json::List(items.into_iter().filter(is_kept).collect()),
        Json::Object(fields) => {
            Json::Object(fields.into_iter().map(|(name, value)| (name, cut_down(value, only))).collect())
        }
        other => other,
    }
}

/// Returns the headers that are part of the interface.
fn shown_headers(headers: &HeaderMap) -> Option<Json> {
    let is_shown = |name: &str, value: &str| match name {
        "content-type" => value != "application/json",
        other => [LOCATION.as_str(), RETRY_AFTER.as_str()].contains(&other) || other.starts_with("x-coven-"),
    };
    let mut shown: Vec<(String, Json)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()))
        .filter(|(name, value)| is_shown(name, value))
        .map(|(name, value)| (name.to_owned(), Json::text(value)))
        .collect();
    shown.sort_by(|one, other| one.0.cmp(&other.0));
    (!shown.is_empty()).then_some(Json::Object(shown))
}

/// Parses one frame of an event stream. `comment` is a line without a name.
fn frame(text: &str) -> Json {
    let field = |text: &str| match text.split_once(": ") {
        Some(("", comment)) => ("comment".to_owned(), Json::text(comment)),
        Some((name, value)) => (name.to_owned(), line(value)),
        None => (text.to_owned(), Json::Null),
    };
    Json::Object(text.lines().map(field).collect())
}

/// Parses a line as JSON, or else returns it as text.
fn line(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| Json::text(text))
}

fn first_of_each_kind(events: &Json) -> Json {
    let Json::List(events) = events else { return events.clone() };
    let kind = |event: &Json| event.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
    let mut events: Vec<Json> =
        events.iter().filter(|event| !TIMED_EVENTS.contains(&kind(event).as_str())).cloned().collect();
    // The sort is stable: the first of a kind stays the first.
    events.sort_by_key(kind);
    events.dedup_by_key(|event| kind(event));
    for event in &mut events {
        let Json::Object(fields) = event else { continue };
        for (_, value) in fields.iter_mut().filter(|(name, _)| name == "number") {
            *value = Json::text("<number>");
        }
    }
    Json::List(events)
}

/// Returns the id of a record.
#[track_caller]
pub fn id(record: &Value) -> String {
    record["id"].as_str().unwrap_or_else(|| panic!("no record: {record}")).to_owned()
}

/// Waits for the next millisecond: lists are sorted by time, so records of the same millisecond have no fixed order.
pub fn wait_for_next_millisecond() {
    let now = clock::now();
    wait_until("the next millisecond", || clock::now() > now);
}
