//! ACP agents that misbehave, differ from each other, or lose their daemon. Other sessions must not be affected.

mod bounds;
mod daemon_killed;
mod delivery;
mod ending;
mod flooding;
mod following;
mod hostile;
mod misbehaving;
mod opening;
mod repos;
mod terminals;
mod variance;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coven_testing::agents::{AgentMessage, agent_with_traits};
use coven_testing::records::RepoRecord;
use coven_testing::{TestHome, check_invariants};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};

/// A home with a second session that must not be affected by the fault.
struct Fixture {
    home: TestHome,
    repo: RepoRecord,
    bystander: String,
}

impl Fixture {
    /// Starts a home with one harness per name. A name consists of the traits of its agent, joined by dots.
    fn new(traits: &[&str]) -> Self {
        Self::with(traits, json!({}))
    }

    /// Like `new`, with settings for `agents` in the config.
    fn with(traits: &[&str], agents: Value) -> Self {
        let harness = |it: &&str| ((*it).to_owned(), agent_with_traits(&it.replace('.', ",")));
        let harnesses: Map<String, Value> = traits.iter().map(harness).collect();
        let mut settings = json!({ "maxSessions": 20 });
        settings.as_object_mut().expect("JSON object").extend(agents.as_object().cloned().unwrap_or_default());
        let home = TestHome::started_with_agent(json!({ "harnesses": harnesses, "agents": settings }));
        let repo = home.make_repo("app");
        let bystander = home.open(&repo).id;
        home.turn(&bystander, "say hello");
        Self { home, repo, bystander }
    }

    fn open(&self) -> String {
        self.home.open(&self.repo).id
    }

    fn open_as(&self, harness: &str) -> String {
        self.home.open_as(&self.repo, harness).id
    }

    /// Asserts that the daemon and the other session still work.
    #[track_caller]
    fn assert_others_unaffected(&self) {
        let before = self.home.messages(&self.bystander).len();
        let messages = self.home.turn(&self.bystander, "say still here");
        assert_eq!(messages.len(), before + 2, "{messages:?}");
        assert_eq!(messages.last().expect("message").text(), "still here");
        check_invariants(&self.home);
    }

    /// Returns the system messages of this type.
    #[track_caller]
    fn system_messages(&self, id: &str, kind: &str) -> Vec<AgentMessage> {
        let messages = self.home.messages(id);
        messages.into_iter().filter(|it| it.role == "system" && it.kind() == kind).collect()
    }

    /// Returns the error message of a session, which must have exactly one.
    #[track_caller]
    fn error_of(&self, id: &str) -> String {
        let errors = self.system_messages(id, "error");
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors[0].content["message"].as_str().expect("text").to_owned()
    }

    /// Returns the turn events of a session: `started`, or the stop reason.
    #[track_caller]
    fn turns(&self, id: &str) -> Vec<String> {
        let (mut all, mut since) = (Vec::new(), 0);
        loop {
            let page = self.home.events_since(&since.to_string());
            if page.items.is_empty() {
                return all;
            }
            let of_session = page.items.iter().filter(|it| it.payload["session_id"] == id);
            all.extend(of_session.filter_map(|it| match it.kind.as_str() {
                "turn.started" => Some("started".to_owned()),
                "turn.ended" => Some(it.payload["stop_reason"].as_str().unwrap_or_default().to_owned()),
                _ => None,
            }));
            since = page.next;
        }
    }

    /// Opens the store read-only, as another program would.
    fn database(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.home.path().join("coven.db"), flags).expect("database")
    }
}

/// Returns the path of a file that scripts wait for.
fn gate(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.home.project().join(name)
}

fn open_gate(gate: &Path) {
    fs::write(gate, "").expect("disk has space");
}

fn kill_and_restart(home: &TestHome) {
    home.kill_daemon();
    home.start();
}

/// Parses the agent's summary of the responses it got: each response and how often it came.
#[track_caller]
fn answers(text: &str, what: &str) -> BTreeMap<String, usize> {
    let (_, summary) = text.split_once(&format!("{what}:")).unwrap_or_else(|| panic!("no {what} in {text}"));
    serde_json::from_str(summary).unwrap_or_else(|error| panic!("{error}: {summary}"))
}
