//! The queue of launches: its order, how sessions leave it, and restarts of the daemon.

use std::sync::Barrier;
use std::thread;

use coven_api::health::HealthResponse;
use coven_api::routes::{Endpoint, Health};
use coven_testing::{TestHome, check_invariants, wait_until};
use serde_json::{Value, json};

use super::{agent, home_with_room, queued, wait_for_place};

fn waiting(home: &TestHome) -> u64 {
    home.call::<Health>(Health::request()).launches_queued
}

#[test]
fn a_launch_beyond_the_limit_waits_and_follows_in_order() {
    let home = home_with_room(1);
    let first = home.launch("hang").id;
    let second = home.launch("say second ;; hang");
    let third = home.launch("say third ;; hang");
    assert_eq!(queued(&second), (1, "the limit of live agents is reached (1 of 1)".to_owned()));
    assert_eq!(queued(&third).0, 2);
    assert_eq!((second.actions.join(" "), waiting(&home)), ("kill archive sacrifice".to_owned(), 2));
    // A plain command is not an agent.
    let command = home.launch_with(json!({ "argv": ["sleep", "1000"] }));
    assert_eq!(command.status, "running");
    // What people read.
    let list = home.coven(&["sessions", "--plain"]).expect_success();
    assert!(list.contains("created, queued 1") && list.contains("created, queued 2"), "{list}");
    let page = home.coven(&["show", &second.id]).expect_success();
    assert!(page.contains("waits     place 1 in the launch queue: the limit of live agents is reached"), "{page}");
    let advice = home.coven(&["doctor"]).stdout;
    assert!(advice.contains("live agents 1; launches that wait: 2 sessions"), "{advice}");

    home.kill(&first);

    home.wait_for_output(&second.id, "second");
    wait_for_place(&home, &third.id, 1);
    assert_eq!(home.session(&second.id).metadata.get("queued"), None);
    home.kill(&second.id);
    home.wait_for_output(&third.id, "third");
    home.wait_for_status(&third.id, "running");
    let events = home.events_since("0").items;
    let of_third = |event: &&coven_api::event::EventRecord| event.subject == third.id;
    let kinds: Vec<&str> = events.iter().filter(of_third).map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds[..5],
        ["session.created", "session.queued", "session.queued", "session.launching", "session.running"]
    );
    assert_eq!(waiting(&home), 0);
    check_invariants(&home);
}

#[test]
fn a_session_that_is_killed_archived_or_deleted_leaves_the_queue() {
    let home = home_with_room(1);
    let first = home.launch("hang").id;
    let ids: Vec<String> = (0..4).map(|_| home.launch("say launched ;; hang").id).collect();

    assert_eq!(home.act(&ids[0], "kill").status, 202);
    let killed = home.wait_for_end(&ids[0]);
    assert_eq!((killed.status.as_str(), killed.pid), ("failed", None));
    assert!(killed.metadata["error"].as_str().is_some_and(|why| why.contains("killed while it waited")), "{killed:?}");
    assert_eq!(home.act(&ids[1], "archive").status, 200);
    assert_eq!(home.sacrifice(&ids[2]).status, 200);
    wait_for_place(&home, &ids[3], 1);
    wait_until("one launch waits", || waiting(&home) == 1);

    home.kill(&first);
    home.wait_for_output(&ids[3], "launched");
    // An archived session is an ordinary record that can be started later.
    let archived = home.session(&ids[1]);
    assert_eq!((archived.status.as_str(), archived.metadata.get("queued")), ("created", None));
    home.kill(&ids[3]);
    home.coven(&["summon", &ids[1]]).expect_success();
    home.coven(&["start", &ids[1]]).expect_success();
    home.wait_for_output(&ids[1], "launched");
    check_invariants(&home);
}

#[test]
fn now_overrides_the_limit() {
    let home = home_with_room(1);
    home.launch("hang");
    let mut request = agent("hang");
    request["now"] = json!(true);
    assert_eq!(home.launch_with(request).status, "running");
    let forced = home.coven(&["run", "claude", "hang", "--now", "--background"]).expect_success();
    assert!(forced.starts_with("started: "), "{forced}");
    let waits = home.coven(&["run", "claude", "hang", "--background"]).expect_success();
    assert!(waits.starts_with("waits for its launch, place 1 in the launch queue: "), "{waits}");
    let detached: Value = home.json(&["run", "claude", "hang", "--detach", "--json"]);
    let detached = detached["id"].as_str().expect("an id");
    assert_eq!(home.session(detached).metadata.get("queued"), None, "a detached record does not wait");
    let started = home.coven(&["start", detached]).expect_success();
    assert!(started.starts_with("waits for its launch, place 2"), "{started}");

    let refused = home.coven(&["start", detached]).expect_failure(4);
    assert!(refused.contains("already waits") && refused.contains("coven start --now"), "{refused}");
    let started = home.coven(&["start", "--now", detached]).expect_success();
    assert!(started.starts_with("started: "), "{started}");
    wait_until("one launch waits", || waiting(&home) == 1);
    assert_eq!(home.session(detached).status, "running");
    check_invariants(&home);
}

#[test]
fn the_queue_survives_restarts_of_the_daemon() {
    let home = home_with_room(1);
    let first = home.launch("hang").id;
    let second = home.launch("say second ;; hang").id;
    let third = home.launch("say third ;; hang").id;

    home.restart();
    assert_eq!((queued(&home.session(&second)).0, queued(&home.session(&third)).0), (1, 2));
    home.kill_daemon();
    home.start();
    assert_eq!(waiting(&home), 2);
    home.kill(&first);
    home.wait_for_output(&second, "second");
    wait_for_place(&home, &third, 1);

    // Without the limit nothing waits.
    home.configure(json!({ "sessions": { "killGraceSeconds": 2.0 } }));
    home.restart();
    home.wait_for_output(&third, "third");
    check_invariants(&home);
}

#[test]
fn stopping_the_daemon_with_its_sessions_empties_the_queue() {
    let home = home_with_room(1);
    home.launch("hang");
    let second = home.launch("hang").id;
    home.coven(&["daemon", "stop", "--kill-sessions"]).expect_success();
    home.start();
    assert_eq!((home.session(&second).status.as_str(), waiting(&home)), ("failed", 0));
    check_invariants(&home);
}

#[test]
fn clients_that_race_never_exceed_the_limit() {
    let home = home_with_room(3);
    let start = Barrier::new(20);
    let statuses: Vec<String> = thread::scope(|scope| {
        let launch = || {
            start.wait();
            home.launch("hang").status
        };
        let threads: Vec<_> = (0..20).map(|_| scope.spawn(launch)).collect();
        threads.into_iter().map(|it| it.join().expect("a session")).collect()
    });

    let running = statuses.iter().filter(|status| *status == "running").count();
    assert_eq!(running, 3, "{statuses:?}");
    let mut places: Vec<u64> =
        home.sessions().iter().filter_map(|session| session.metadata.get("queued")?["place"].as_u64()).collect();
    places.sort_unstable();
    assert_eq!(places, (1..=17).collect::<Vec<u64>>());
    check_invariants(&home);
}

#[test]
fn acp_sessions_count_and_wait_too_and_keep_their_own_limit() {
    let home = TestHome::started_with_agent(json!({ "limits": { "liveAgents": 1 }, "agents": { "maxSessions": 2 } }));
    let repo = home.make_repo("app");
    let request = json!({ "harness": "gemini", "channel": "acp", "repo_id": repo.id, "prompt": "say hello" });
    let first = home.launch_with(request.clone());
    let second = home.launch_with(request.clone());
    assert_eq!((first.status.as_str(), queued(&second).0), ("running", 1));
    // A session that waits keeps its place among the ACP sessions.
    home.post("/api/v1/sessions", &request).expect_error(429, "too_many_sessions");
    assert_eq!(queued(&home.launch("hang")).0, 2, "a terminal agent waits for the ACP session");

    home.kill(&first.id);

    home.wait_for_text(&second.id, "hello");
    check_invariants(&home);
}

#[test]
fn a_health_report_of_an_older_daemon_has_no_queue() {
    let home = home_with_room(1);
    let mut health: Value = home.read(Health::request().target());
    health.as_object_mut().expect("an object").remove("launches_queued");
    let health: HealthResponse = serde_json::from_value(health).expect("a report");
    assert_eq!(health.launches_queued, 0);
}
