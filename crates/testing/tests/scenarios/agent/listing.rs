//! AGENT-08 to AGENT-10: the list, by repository and by status.

use coven_domain::session::{Channel, Session, SessionState};
use coven_testing::records::CompatSessionList;
use coven_testing::records::RepoRecord;
use coven_testing::{TestHome, samples};
use serde_json::{Value, json};

/// Returns a session that ended long ago.
fn old(nth: u32, repo: &RepoRecord, state: SessionState) -> Session {
    let repo_id = Some(repo.id.parse().expect("an id"));
    Session { channel: Channel::Acp, repo_id, state, ..samples::finished(nth) }
}

fn ids(list: &CompatSessionList) -> Vec<String> {
    list.sessions.iter().map(|session| session.id.clone()).collect()
}

fn newest_first(numbers: impl DoubleEndedIterator<Item = u32>) -> Vec<String> {
    numbers.rev().map(|nth| samples::id(nth).to_string()).collect()
}

#[test]
fn agent_08_the_list_is_newest_first_twenty_at_a_time_without_messages() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    home.stop();
    samples::put(&home, (0..25).map(|nth| old(nth, &repo, SessionState::Completed)));
    // A terminal session is not in the list.
    samples::put(&home, [samples::finished(99)]);
    home.start();

    let first = home.agent_sessions("");
    let second = home.agent_sessions("?offset=20");

    assert_eq!((first.total, first.limit, first.offset), (25, 20, 0));
    assert_eq!(ids(&first), newest_first(5..25));
    assert_eq!((second.total, second.limit, second.offset), (25, 20, 20));
    assert_eq!(ids(&second), newest_first(0..5));
    let raw: Value = home.read("/api/sessions");
    let session = raw["sessions"][0].as_object().expect("an object");
    for field in ["id", "repoId", "status", "createdAt", "updatedAt"] {
        assert!(session[field].is_string(), "{field}: {session:?}");
    }
    assert!(!session.contains_key("messages"), "{session:?}");
    let live = home.open(&repo);
    home.wait_for_rest(&live.id);
    assert_eq!(home.agent_sessions("?limit=1").sessions, [home.agent_session(&live.id)]);
}

#[test]
fn agent_09_the_list_of_one_repository_has_the_same_order_and_pages() {
    let home = TestHome::started_with_agent(json!({}));
    let (app, lib) = (home.make_repo("app"), home.make_repo("lib"));
    home.stop();
    samples::put(&home, (0..50).map(|nth| old(nth, if nth % 2 == 0 { &app } else { &lib }, SessionState::Completed)));
    home.start();

    let first = home.agent_sessions(&format!("?repoId={}", lib.id));
    let second = home.agent_sessions(&format!("?repoId={}&limit=10&offset=20", lib.id));

    let of_lib: Vec<String> = newest_first((0..50).filter(|nth| nth % 2 == 1));
    assert_eq!((first.total, ids(&first)), (25, of_lib[..20].to_vec()));
    assert_eq!((second.total, ids(&second)), (25, of_lib[20..].to_vec()));
    assert!(first.sessions.iter().all(|session| session.repo_id.as_ref() == Some(&lib.id)));
    let of_unknown = home.agent_sessions("?repoId=3f2504e0-4f89-41d3-9a0c-0305e82c3301");
    assert_eq!((of_unknown.total, of_unknown.sessions.len()), (0, 0));
    home.get("/api/sessions?repoId=nonsense").expect_error(400, "invalid_request");
}

#[test]
fn agent_10_the_list_of_one_or_several_statuses() {
    let home = TestHome::started_with_agent(json!({}));
    let (app, lib) = (home.make_repo("app"), home.make_repo("lib"));
    home.stop();
    let states = [
        SessionState::Completed,
        SessionState::Killed,
        SessionState::Failed,
        SessionState::Orphaned,
        SessionState::Killed,
    ];
    samples::put(&home, (0..).zip(states).map(|(nth, state)| old(nth, &app, state)));
    home.start();
    let live = home.open(&lib).id;

    let listed = |query: &str| ids(&home.agent_sessions(query));

    assert_eq!(listed("?status=active"), std::slice::from_ref(&live));
    assert_eq!(listed("?status=completed"), newest_first(0..1));
    assert_eq!(listed("?status=cancelled"), newest_first([1, 4].into_iter()));
    assert_eq!(listed("?status=error"), newest_first(2..4));
    assert_eq!(listed("?status=error,completed"), newest_first([0, 2, 3].into_iter()));
    assert_eq!(listed("?status=active,cancelled"), [vec![live], newest_first([1, 4].into_iter())].concat());
    assert_eq!(home.agent_sessions("?status=error,cancelled&limit=1").total, 4);
    assert_eq!(listed(&format!("?repoId={}&status=active", app.id)), Vec::<String>::new());
    assert_eq!(listed("?status=active,completed,cancelled,error").len(), 6);
    let message = home.get("/api/sessions?status=active,asleep").expect_error(400, "invalid_request");
    assert!(message.contains("asleep"), "{message}");
}
