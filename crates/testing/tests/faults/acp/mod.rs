//! Agents over ACP that misbehave, differ from each other, or lose their daemon. Another session works on meanwhile.

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

use coven_api::repo::RepoRecord;
use coven_testing::agents::{Said, behaving};
use coven_testing::{TestHome, check_invariants};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};

/// A home with a session that has nothing to do with what goes wrong.
struct Scene {
    home: TestHome,
    repo: RepoRecord,
    bystander: String,
}

impl Scene {
    /// With harnesses whose agents have the traits they are named after, joined by dots.
    fn new(traits: &[&str]) -> Self {
        Self::with(traits, json!({}))
    }

    /// The same with settings for agents.
    fn with(traits: &[&str], agents: Value) -> Self {
        let harness = |it: &&str| ((*it).to_owned(), behaving(&it.replace('.', ",")));
        let harnesses: Map<String, Value> = traits.iter().map(harness).collect();
        let mut settings = json!({ "maxSessions": 20 });
        settings.as_object_mut().expect("an object").extend(agents.as_object().cloned().unwrap_or_default());
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

    /// The daemon and the other session are as if nothing had happened.
    #[track_caller]
    fn is_sound(&self) {
        let before = self.home.said(&self.bystander).len();
        let said = self.home.turn(&self.bystander, "say still here");
        assert_eq!(said.len(), before + 2, "{said:?}");
        assert_eq!(said.last().expect("words").text(), "still here");
        check_invariants(&self.home);
    }

    /// What the system said of this type.
    #[track_caller]
    fn of_system(&self, id: &str, kind: &str) -> Vec<Said> {
        let said = self.home.said(id);
        said.into_iter().filter(|it| it.role == "system" && it.kind() == kind).collect()
    }

    /// The one error message of a session.
    #[track_caller]
    fn error_of(&self, id: &str) -> String {
        let errors = self.of_system(id, "error");
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors[0].content["message"].as_str().expect("words").to_owned()
    }

    /// The kinds of a session's turn events, with how each turn ended.
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

    /// The store as any other program sees it.
    fn database(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(self.home.path().join("coven.db"), flags).expect("a database")
    }
}

/// A file that scripts wait for.
fn gate(scene: &Scene, name: &str) -> PathBuf {
    scene.home.project().join(name)
}

fn let_through(gate: &Path) {
    fs::write(gate, "").expect("room on disk");
}

fn kill_and_start(home: &TestHome) {
    home.kill_daemon();
    home.start();
}

/// What the agent tells of many answers: each, and how often it came.
#[track_caller]
fn answers(text: &str, what: &str) -> BTreeMap<String, usize> {
    let (_, told) = text.split_once(&format!("{what}:")).unwrap_or_else(|| panic!("no {what} in {text}"));
    serde_json::from_str(told).unwrap_or_else(|error| panic!("{error}: {told}"))
}
