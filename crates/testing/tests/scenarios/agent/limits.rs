//! AGENT-24 and AGENT-25: the limit of concurrent sessions.

use std::sync::Barrier;
use std::thread;

use coven_testing::{TestHome, check_invariants, wait_until};
use serde_json::json;

#[test]
fn agent_24_creation_beyond_the_limit_is_refused_with_retry_after() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let open: Vec<String> = (0..5).map(|_| home.open(&repo).id).collect();

    let answer = home.post("/api/sessions", &json!({ "repoId": repo.id }));

    let message = answer.expect_error(429, "too_many_sessions");
    assert_eq!(answer.header("retry-after"), "60");
    assert!(message.contains('5') && message.to_lowercase().contains("wait"), "{message}");
    assert_eq!(home.agent_sessions("?status=active").total, 5);
    // The limit applies to ACP sessions only, and also to `/api/v1`.
    home.launch("say hello");
    let answer = home.post("/api/v1/sessions", &json!({ "harness": "gemini", "channel": "acp", "repo_id": repo.id }));
    answer.expect_error(429, "too_many_sessions");
    assert_eq!(answer.header("retry-after"), "60");
    assert!(open.iter().all(|id| home.agent_session(id).status == "active"));
    check_invariants(&home);
}

#[test]
fn agent_24_a_hundred_concurrent_creations_never_exceed_the_limit() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let start = Barrier::new(100);

    let statuses: Vec<u16> = thread::scope(|scope| {
        let create = || {
            start.wait();
            home.post("/api/sessions", &json!({ "repoId": repo.id })).status
        };
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(create)).collect();
        threads.into_iter().map(|it| it.join().expect("an answer")).collect()
    });

    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(201), count(429)), (5, 95), "{statuses:?}");
    assert_eq!(home.agent_sessions("").total, 5, "a refused creation leaves no record");
    check_invariants(&home);
}

#[test]
fn agent_24_the_limit_is_in_the_config_and_the_environment_overrides_it() {
    for (config, variable, limit) in [(2, None, 2), (4, Some("1"), 1)] {
        let mut home = TestHome::with_agent(json!({ "agents": { "maxSessions": config } }));
        home.env.extend(variable.map(|value| ("AGENT_MAX_SESSIONS".to_owned(), value.to_owned())));
        home.start();
        let repo = home.make_repo("app");
        (0..limit).for_each(|_| drop(home.open(&repo)));

        let message = home.post("/api/sessions", &json!({ "repoId": repo.id })).expect_error(429, "too_many_sessions");

        assert!(message.contains(&limit.to_string()), "{message}");
    }
    let mut home = TestHome::with_agent(json!({}));
    for bad in ["many", "0", "-1", ""] {
        home.env = vec![("AGENT_MAX_SESSIONS".to_owned(), bad.to_owned())];
        let ran = home.coven(&["daemon", "start"]);
        match bad {
            // An empty value counts as unset.
            "" => drop(ran.expect_success()),
            _ => assert!(ran.expect_failure(2).contains("AGENT_MAX_SESSIONS")),
        }
    }
}

#[test]
fn agent_25_a_session_that_ends_no_longer_counts() {
    let home = TestHome::started_with_agent(json!({ "agents": { "maxSessions": 1 } }));
    let repo = home.make_repo("app");
    let is_full = || home.post("/api/sessions", &json!({ "repoId": repo.id })).status == 429;

    for (end, status) in [("finish", "completed"), ("delete", "cancelled"), ("crash", "error")] {
        let id = home.open(&repo).id;
        assert!(is_full(), "{end}");

        match end {
            "finish" => drop(home.act(&id, "finish")),
            "delete" => drop(home.cancel_session(&id)),
            _ => drop(home.prompt(&id, "crash 1")),
        }
        home.wait_for_agent_status(&id, status);
        home.wait_for_end(&id);
        assert_eq!(home.agent_sessions("?status=active").total, 0);
    }

    let last = home.open(&repo);
    assert_eq!(last.status, "active");
    wait_until("the change of the count is logged", || home.own_log().contains("active"));
    check_invariants(&home);
}
