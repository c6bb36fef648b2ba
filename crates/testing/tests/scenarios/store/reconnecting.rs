//! A client that maintains its state from the event feed while its connection breaks repeatedly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use coven_testing::events::Message;
use coven_testing::{EventFeed, TestHome, check_invariants};
use serde_json::{Map, Value, json};

const RECONNECTIONS: usize = 1000;
/// On a slow machine, each snapshot would otherwise have more tasks than the one before.
const MAX_TASKS_PER_WRITER: usize = 300;
const NOUNS: [&str; 4] = ["task", "agent", "workflow", "session"];

/// The state of a client: every task, agent, run and session with the fields it has received.
#[derive(Debug, Default, PartialEq)]
struct ClientState {
    rows: BTreeMap<(String, String), Map<String, Value>>,
    cursor: u64,
    gaps: usize,
}

impl ClientState {
    fn load(&mut self, state: &Value) {
        self.rows.clear();
        self.cursor = state["event_number"].as_u64().expect("a number");
        for noun in NOUNS {
            for row in state[format!("{noun}s")].as_array().expect("rows") {
                self.put(noun, row);
            }
        }
    }

    fn put(&mut self, noun: &str, row: &Value) {
        let id = row["id"].as_str().expect("an id").to_owned();
        let fields = row.as_object().expect("fields").clone();
        // Fields that are not in the event are unchanged.
        self.rows.entry((noun.to_owned(), id)).or_default().extend(fields);
    }

    fn apply(&mut self, message: &Message) {
        match message.event.as_str() {
            "gap" => return self.gaps += 1,
            "snapshot" => return self.load(&message.value()),
            _ => {}
        }
        let number = message.id.expect("an event has a number");
        assert_eq!(number, self.cursor + 1, "no event is missing or duplicated");
        self.cursor = number;
        let record = message.record();
        let noun = record.kind.split('.').next().unwrap_or_default().to_owned();
        match record.kind.as_str() {
            "task.deleted" | "session.sacrificed" => drop(self.rows.remove(&(noun, record.subject))),
            _ => {
                let row = &record.payload[&noun];
                if NOUNS.contains(&noun.as_str()) && !row["id"].is_null() {
                    self.put(&noun, row);
                }
            }
        }
    }
}

/// Creates, changes, starts and deletes tasks until it is stopped.
fn load(home: &TestHome, nth: usize, is_over: &AtomicBool, written: &AtomicUsize) {
    let (mut count, mut edited) = (0, String::new());
    while !is_over.load(Ordering::Relaxed) {
        count += 1;
        let edit = json!({ "body": format!("longer {count}"), "priority": count % 5, "tags": ["x"] });
        let edit = edit.to_string().into_bytes();
        if count > MAX_TASKS_PER_WRITER {
            home.request(hyper::Method::PATCH, &edited, Some(edit));
            continue;
        }
        let made: Value = home.post("/api/v1/tasks", &json!({ "title": format!("{nth}-{count}") })).json();
        let path = format!("/api/v1/tasks/{}", made["id"].as_str().expect("an id"));
        match count % 3 {
            0 => drop(home.request(hyper::Method::DELETE, &path, None)),
            1 => drop(home.post(&format!("{path}/close"), &json!({}))),
            _ => {
                home.request(hyper::Method::PATCH, &path, Some(edit));
                edited = path;
            }
        }
        if count % 40 == 1 {
            let more = json!({ "title": "worked on", "workflow": "quick" });
            let made: Value = home.post("/api/v1/tasks", &more).json();
            home.post(&format!("/api/v1/tasks/{}/start", made["id"].as_str().expect("an id")), &json!({}));
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

fn reconnect_under_load(config: Value) -> (TestHome, ClientState) {
    let home = TestHome::in_repository(config);
    home.write_workflow("quick", "steps:\n  - { name: a, type: script, command: 'true' }\n");
    home.start();
    let mut known = ClientState::default();
    known.load(&home.read("/state"));
    let (is_over, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for nth in 0..2 {
            let (home, is_over, written) = (&home, &is_over, &written);
            scope.spawn(move || load(home, nth, is_over, written));
        }
        for nth in 0..RECONNECTIONS {
            let mut feed = EventFeed::after(&home, known.cursor);
            // Sometimes the client disconnects before the first event.
            for _ in 0..nth % 4 {
                known.apply(&feed.next_message());
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(written.load(Ordering::Relaxed) > 20, "too little load");
    let mut feed = EventFeed::after(&home, known.cursor);
    coven_testing::wait_until("no agent is running", || {
        home.read::<Value>("/api/v1/agents")["items"].as_array().is_some_and(Vec::is_empty)
    });
    while known.cursor < home.health().last_event {
        known.apply(&feed.next_message());
    }
    (home, known)
}

fn assert_same(home: &TestHome, known: &ClientState) {
    let mut servers = ClientState::default();
    servers.load(&home.read("/state"));
    assert!(servers.rows.keys().any(|(noun, _)| noun == "agent") && servers.rows.len() > 20);
    let differing: Vec<_> = servers
        .rows
        .keys()
        .chain(known.rows.keys())
        .filter(|key| !is_same(known.rows.get(*key), servers.rows.get(*key)))
        .map(|key| (key, known.rows.get(key), servers.rows.get(key)))
        .collect();
    assert!(differing.is_empty(), "{} differ, the first: {:?}", differing.len(), differing.first());
}

/// Fields of a session that are derived from its status.
const DERIVED: [&str; 2] = ["kind", "actions"];

/// Returns whether the client has all fields of the server.
fn is_same(known: Option<&Map<String, Value>>, servers: Option<&Map<String, Value>>) -> bool {
    let (Some(known), Some(servers)) = (known, servers) else { return false };
    servers.iter().all(|(name, value)| DERIVED.contains(&name.as_str()) || known.get(name) == Some(value))
}

#[test]
fn store_11_a_client_that_reconnects_a_thousand_times_has_the_state_of_the_server() {
    let (home, known) = reconnect_under_load(json!({}));
    assert_eq!(known.gaps, 0);
    assert_same(&home, &known);
    check_invariants(&home);
}

#[test]
fn store_11_a_client_that_is_repeatedly_too_late_has_the_state_of_the_server() {
    // Events expire after a third of a second.
    let (home, known) = reconnect_under_load(json!({ "store": { "eventRetentionHours": 0.0001 } }));
    assert_same(&home, &known);
}
