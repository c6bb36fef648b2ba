//! ACP sessions: repositories, the compatibility API, messages of every kind, permission requests.

use coven_api::header::CALLER_SESSION;
use coven_testing::agents::agent_path;
use coven_testing::sessions::path;
use coven_testing::{TestHome, wait_until};
use hyper::Method;
use serde_json::json;

use super::names::MISSING;
use super::snapshot::{Snapshot, id};

/// One message of every kind that the scripted agent can produce.
const EVERY_KIND: &str = "think let me see ;; say hello ;; plan look,change ;; tool shell {\"command\":\"ls\"} ;; \
                          diff src/main.rs ;; unknown_update ;; usage 1234 ;; commands web,test ;; title A title ;; \
                          mode code ;; say done ;; stop max_tokens";

#[test]
fn acp_sessions() {
    let home = TestHome::started_with_agent(json!({ "agents": { "maxSessions": 2 } }));
    // A message gets a new number whenever the daemon stores more of it.
    let mut wire = Snapshot::of("acp", &home).hide(&["id", "next", "number"]);
    let repo = repositories(&mut wire, &home);

    wire.note("none yet").get("/api/sessions");
    let session = id(&wire.post("/api/sessions", &json!({ "repoId": repo, "title": "talk" })));
    home.wait_for_rest(&session);
    wire.note("no prompt yet").get(&path(&session, "/agent"));
    cancelled_turn(&mut wire, &home, &session);
    wire.post(&agent_path(&session, "/prompt"), &json!({ "text": EVERY_KIND }));
    home.wait_for_rest(&session);
    wire.note("empty").post(&agent_path(&session, "/prompt"), &json!({ "text": " " }));
    modes_and_options(&mut wire, &home, &session);
    permission_requests(&mut wire, &home, &session);

    messages(&mut wire, &session);
    wire.get("/api/sessions");
    wire.get("/api/sessions?status=active&limit=1&offset=1");
    wire.coven(&["show", &session, "--json"]);
    wire.coven(&["inbox", "--json"]);
    wire.coven(&["inbox", "--all", "--json"]);
    wire.coven(&["repo", "list", "--json"]);

    another_session(&mut wire, &home, &repo);
    // The turn ends before the session: a killed agent may or may not send more.
    wire.note("withdraws the permission request").post(&path(&session, "/cancel"), &json!({}));
    home.wait_for_rest(&session);
    wire.delete(&agent_path(&session, ""));
    home.wait_for_end(&session);
    ended(&mut wire, &session);
    wire.delete(&format!("/api/repos/{repo}"));
    let again = id(&wire.post("/api/v1/repos", &json!({ "path": home.project().join("app") })));
    wire.delete(&format!("/api/v1/repos/{again}"));
    wire.events();
    wire.finish();
}

/// Registers a repository; returns its id.
fn repositories(wire: &mut Snapshot<'_>, home: &TestHome) -> String {
    let plain = home.make_folder("plain");
    let folder = home.init_repo(&home.project().join("app"));
    wire.note("none yet").get("/api/repos");
    let repo = id(&wire.post("/api/repos", &json!({ "path": folder, "name": "app" })));
    wire.note("again").post("/api/repos", &json!({ "path": folder, "name": "app" }));
    wire.note("without a path").post("/api/repos", &json!({}));
    wire.note("not a repository").post("/api/repos", &json!({ "path": plain }));
    wire.note("outside the project").post("/api/repos", &json!({ "path": home.agents() }));
    wire.get("/api/repos");
    wire.get(&format!("/api/repos/{repo}"));
    wire.get(&format!("/api/repos/{MISSING}"));
    wire.note("not an id").get("/api/repos/nosuch");
    wire.delete(&format!("/api/repos/{MISSING}"));
    wire.note("again").post("/api/v1/repos", &json!({ "path": folder }));
    wire.get("/api/v1/repos?limit=1");
    wire.get(&format!("/api/v1/repos/{repo}"));
    wire.get(&format!("/api/v1/repos/{MISSING}"));
    wire.delete(&format!("/api/v1/repos/{MISSING}"));
    repo
}

/// Runs the first turn, so that the first `message.chunk` event is always the same.
fn cancelled_turn(wire: &mut Snapshot<'_>, home: &TestHome, session: &str) {
    wire.note("to be cancelled").post(&path(session, "/prompt"), &json!({ "text": "say wait ;; hang" }));
    home.wait_for_text(session, "wait");
    wire.note("busy").get(&path(session, "/agent"));
    wire.note("partial").get(&agent_path(session, "/messages"));
    wire.post(&path(session, "/cancel"), &json!({}));
    home.wait_for_rest(session);
    wire.note("cancelled").get(&path(session, "/messages"));
}

/// Changes mode and options. The daemon does not wait for the agent, so this waits for the effect.
fn modes_and_options(wire: &mut Snapshot<'_>, home: &TestHome, session: &str) {
    wire.post(&path(session, "/mode"), &json!({ "mode_id": "ask" }));
    wait_until("the mode is set", || {
        home.agent_state(session).modes.is_some_and(|it| it.current_mode_id.as_deref() == Some("ask"))
    });
    wire.post(&path(session, "/config"), &json!({ "config_id": "model", "value": "large" }));
    wait_until("the option is set", || {
        let options = home.agent_state(session).config_options.unwrap_or_default();
        options[0].current_value.as_deref() == Some("large")
    });
    let errors = || home.messages(session).iter().filter(|it| it.kind() == "error").count();
    wire.note("no such mode").post(&path(session, "/mode"), &json!({ "mode_id": "nosuch" }));
    wait_until("the agent refused the mode", || errors() == 1);
    wire.note("no such option").post(&path(session, "/config"), &json!({ "config_id": "nosuch", "value": "x" }));
    wait_until("the agent refused the option", || errors() == 2);
}

/// Sends two permission requests and answers the first.
fn permission_requests(wire: &mut Snapshot<'_>, home: &TestHome, session: &str) {
    wire.note("asks for permission").post(&path(session, "/prompt"), &json!({ "text": "permit touch x" }));
    let request = home.wait_for_request(session).id;
    let (item, answer) = (format!("/api/v1/inbox/{request}"), format!("/api/v1/inbox/{request}/answer"));
    wire.note("pending").get(&item);
    wire.note("no such option").post(&answer, &json!({ "option": "nosuch" }));
    wire.note("answers are for question sets").post(&answer, &json!({ "answers": [] }));
    let from_inside = [(CALLER_SESSION, session)];
    let allow = json!({ "decision": "allow" });
    wire.note("by the session that asks").send(Method::POST, &answer, &from_inside, Some(allow.to_string()));
    wire.post(&answer, &allow);
    wire.note("answered").post(&answer, &json!({ "decision": "deny" }));
    home.wait_for_rest(session);
    wire.note("answered").get(&item);
    wire.note("asks again").post(&path(session, "/prompt"), &json!({ "text": "permit touch y" }));
    home.wait_for_request(session);
    wire.get(&format!("/api/v1/inbox?session={session}"));
    wire.get("/api/v1/inbox?all=true");
}

fn messages(wire: &mut Snapshot<'_>, session: &str) {
    wire.note("waits for an answer").get(&path(session, "/agent"));
    wire.get(&path(session, "/messages"));
    wire.get(&path(session, "/messages?after=0&limit=1"));
    wire.get(&path(session, "/messages?limit=0"));
    wire.get(&path(MISSING, "/messages"));
    wire.get(&agent_path(session, ""));
    wire.get(&agent_path(session, "/messages"));
    wire.get(&agent_path(session, "/messages?since=2100-01-01T00:00:00Z"));
    wire.get(&agent_path(session, "/messages?since=x"));
    wire.get(&agent_path(MISSING, ""));
    wire.get(&agent_path(MISSING, "/messages"));
    wire.post(&agent_path(MISSING, "/prompt"), &json!({ "text": "hello" }));
    wire.delete(&agent_path(MISSING, ""));
    wire.get("/api/sessions?status=asleep");
    wire.stream(&path(session, "/messages"), 3);
    wire.get(&path(session, ""));
    wire.note("not a terminal").get(&path(session, "/screen"));
    wire.note("not a terminal").post(&path(session, "/input"), &json!({ "data": "typed" }));
}

fn another_session(wire: &mut Snapshot<'_>, home: &TestHome, repo: &str) {
    let request =
        json!({ "harness": "gemini", "channel": "acp", "repo_id": repo, "prompt": "say hi", "title": "other" });
    let other = id(&wire.post("/api/v1/sessions", &request));
    home.wait_for_rest(&other);
    wire.note("too many").post("/api/sessions", &json!({ "repoId": repo }));
    wire.note("no such repository").post("/api/sessions", &json!({ "repoId": MISSING }));
    wire.note("not an id").post("/api/sessions", &json!({ "repoId": "nosuch" }));
    wire.note("in use").delete(&format!("/api/repos/{repo}"));
    wire.note("in use").delete(&format!("/api/v1/repos/{repo}"));
    home.kill(&other);
}

fn ended(wire: &mut Snapshot<'_>, session: &str) {
    wire.note("ended").get(&agent_path(session, ""));
    wire.note("ended").delete(&agent_path(session, ""));
    wire.note("ended").post(&agent_path(session, "/prompt"), &json!({ "text": "hello" }));
    wire.note("ended").post(&path(session, "/cancel"), &json!({}));
    wire.note("ended").post(&path(session, "/mode"), &json!({ "mode_id": "ask" }));
    wire.note("ended").post(&path(session, "/config"), &json!({ "config_id": "model", "value": "small" }));
    wire.note("ended").get(&path(session, "/agent"));
}
