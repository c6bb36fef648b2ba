//! One shape per noun: a record has the same keys wherever it is read, those of its schema.

use std::collections::BTreeSet;

use coven_api::routes::{Endpoint, ReadDocument};
use coven_domain::task::TaskState;
use coven_testing::TestHome;
use serde_json::{Value, json};

use crate::document::misfits;

/// Collects the records of one noun and compares them.
struct Noun<'a> {
    home: &'a TestHome,
    schema: &'static str,
    found: Vec<(String, Value)>,
}

impl<'a> Noun<'a> {
    fn new(home: &'a TestHome, schema: &'static str) -> Self {
        Self { home, schema, found: Vec::new() }
    }

    /// The record at this place of an answer.
    #[track_caller]
    fn get(mut self, path: &str, place: &str) -> Self {
        let answer: Value = self.home.read(path);
        self.take(format!("GET {path}"), &answer, place);
        self
    }

    /// The record at this place of what a verb prints.
    #[track_caller]
    fn verb(mut self, args: &[&str], place: &str) -> Self {
        let printed: Value = self.home.json(&[args, &["--json"]].concat());
        self.take(format!("coven {}", args.join(" ")), &printed, place);
        self
    }

    #[track_caller]
    fn answer(mut self, what: &str, answer: &Value, place: &str) -> Self {
        self.take(what.to_owned(), answer, place);
        self
    }

    /// The record in the newest event of this kind.
    #[track_caller]
    fn event(mut self, kind: &str, place: &str) -> Self {
        let events = self.home.events_since("0").items;
        let event = events.into_iter().rfind(|event| event.kind == kind).unwrap_or_else(|| panic!("no {kind}"));
        self.take(format!("event {kind}"), &event.payload, place);
        self
    }

    #[track_caller]
    fn take(&mut self, what: String, answer: &Value, place: &str) {
        let record = answer.pointer(place).filter(|record| record.is_object());
        self.found.push((what.clone(), record.unwrap_or_else(|| panic!("{what}: no record in {answer}")).clone()));
    }

    #[track_caller]
    fn check(self, surfaces: usize) {
        let document: Value = self.home.read(ReadDocument::ROUTE.path);
        let schema = &document["components"]["schemas"][self.schema];
        let keys: BTreeSet<&String> = schema["properties"].as_object().expect("a documented record").keys().collect();
        assert_eq!(self.found.len(), surfaces);
        for (what, record) in &self.found {
            let own: BTreeSet<&String> = record.as_object().expect("an object").keys().collect();
            assert_eq!(own, keys, "{what}");
            let mut problems = Vec::new();
            misfits(&document, schema, record, what, &mut problems);
            assert_eq!(problems, [""; 0]);
        }
    }
}

#[test]
fn tasks_with_their_runs_attempts_and_sessions_are_the_same_everywhere() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let made: Value = home.post("/api/v1/tasks", &json!({ "title": "One", "body": "commit a.txt" })).json();
    let task = made["id"].as_str().expect("an id").to_owned();
    let started: Value = home.post(&format!("/api/v1/tasks/{task}/start"), &json!({})).json();
    home.wait_for_task(&task, TaskState::PendingMerge);
    let state = "/state";

    Noun::new(&home, "TaskRecord")
        .answer("POST /api/v1/tasks", &made, "")
        .answer("POST /api/v1/tasks/{id}/start", &started, "/task")
        .get(&format!("/api/v1/tasks/{task}"), "")
        .get("/api/v1/tasks", "/items/0")
        .get(state, "/tasks/0")
        .get(&format!("/api/v1/inbox/{task}"), "/detail/task")
        .event("task.created", "/task")
        .event("task.pending_merge", "/task")
        .verb(&["task", "show", &task], "")
        .verb(&["task", "list"], "/items/0")
        .verb(&["task", "edit", &task, "--title", "Two"], "")
        .verb(&["board"], "/pending_merge/0/task")
        .check(12);

    let run = started["workflow"]["id"].as_str().expect("an id").to_owned();
    Noun::new(&home, "WorkflowRecord")
        .answer("POST /api/v1/tasks/{id}/start", &started, "/workflow")
        .get(&format!("/api/v1/workflows/{run}"), "")
        .get("/api/v1/workflows", "/items/0")
        .get(&format!("/api/v1/tasks/{task}/runs"), "/items/0")
        .get(state, "/workflows/0")
        .event("workflow.started", "/workflow")
        .event("workflow.merge_pending", "/workflow")
        .verb(&["workflow", "show", &run], "")
        .verb(&["workflow", "list"], "/items/0")
        .verb(&["board"], "/pending_merge/0/run")
        .check(10);

    let agent = started["agent"]["id"].as_str().expect("an id").to_owned();
    Noun::new(&home, "AgentRecord")
        .answer("POST /api/v1/tasks/{id}/start", &started, "/agent")
        .get(&format!("/api/v1/agents/{agent}"), "")
        .get("/api/v1/agents?all=true", "/items/0")
        .get(state, "/agents/0")
        .event("agent.starting", "/agent")
        .event("agent.completed", "/agent")
        .check(6);

    let sessions: Value = home.read("/api/v1/sessions");
    let session = sessions["items"][0]["id"].as_str().expect("an id").to_owned();
    let archived: Value = home.post(&format!("/api/v1/sessions/{session}/archive"), &json!({})).json();
    let summoned: Value = home.post(&format!("/api/v1/sessions/{session}/summon"), &json!({})).json();
    Noun::new(&home, "Session")
        .answer("GET /api/v1/sessions", &sessions, "/items/0")
        .answer("POST /api/v1/sessions/{id}/archive", &archived, "")
        .answer("POST /api/v1/sessions/{id}/summon", &summoned, "")
        .get(&format!("/api/v1/sessions/{session}"), "")
        .get(&format!("/api/v1/sessions/{session}/wait"), "")
        .get(state, "/sessions/0")
        .event("session.created", "/session")
        .event("session.completed", "/session")
        .verb(&["show", &session], "")
        .verb(&["sessions"], "/items/0")
        .check(10);

    Noun::new(&home, "InboxItem")
        .get("/api/v1/inbox?all=true", "/items/0")
        .get(&format!("/api/v1/inbox/{task}"), "")
        .verb(&["inbox", "--all"], "/items/0")
        .verb(&["inbox", "show", &task], "")
        .check(4);
    let approval: Value = home.post(&format!("/api/v1/tasks/{task}/approve"), &json!({})).json();
    let operation = approval["id"].as_str().expect("an id").to_owned();
    home.wait_for_task(&task, TaskState::Closed);
    Noun::new(&home, "Operation")
        .answer("POST /api/v1/tasks/{id}/approve", &approval, "")
        .get(&format!("/api/v1/operations/{operation}?wait=true"), "")
        .get("/api/v1/operations", "/items/0")
        .event("operation.started", "/operation")
        .event("operation.completed", "/operation")
        .verb(&["operation", "show", &operation], "")
        .verb(&["operation", "wait", &operation], "")
        .verb(&["operation", "list"], "/items/0")
        .check(8);
}

#[test]
fn questions_repositories_and_harnesses_are_the_same_everywhere() {
    let home = TestHome::started_with_agent(json!({}));
    let question = json!([{"title": "T", "prompt": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]);
    let set = home.coven(&["ask", &question.to_string(), "--no-wait"]).expect_success().trim().to_owned();
    coven_testing::wait_until("the daemon has seen the set", || {
        home.events_since("0").items.iter().any(|event| event.kind == "question_set.asked")
    });
    Noun::new(&home, "QuestionSetRecord")
        .get("/api/v1/questions", "/items/0")
        .get(&format!("/api/v1/questions/{set}"), "")
        .get("/state", "/questions/0")
        .get(&format!("/api/v1/inbox/{set}"), "/detail/question_set")
        .event("question_set.asked", "/question_set")
        .verb(&["questions"], "/items/0")
        .verb(&["questions", "show", &set], "")
        .check(7);

    let repo = home.make_repo("app").id.to_string();
    Noun::new(&home, "Repo")
        .get("/api/v1/repos", "/items/0")
        .get(&format!("/api/v1/repos/{repo}"), "")
        .event("repo.added", "/repo")
        .verb(&["repo", "list"], "/items/0")
        .check(4);

    Noun::new(&home, "Harness")
        .get("/api/v1/harnesses", "/items/0")
        .get("/api/v1/harnesses/claude", "")
        .verb(&["harness", "list"], "/items/0")
        .check(3);

    let session = home.open(&home.make_repo("other")).id;
    home.turn(&session, "say hello");
    Noun::new(&home, "Message")
        .get(&format!("/api/v1/sessions/{session}/messages"), "/items/0")
        .event("message.added", "/message")
        .check(2);
}
