//! ACP sessions in the operations for all sessions: list, follow, archive, export, sacrifice.

use coven_testing::records::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{EventFeed, TestHome, check_invariants};
use serde_json::json;

#[test]
fn an_acp_session_is_in_every_list_and_in_the_feed() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let mut feed = EventFeed::open(&home);

    let id = home.open(&repo).id;

    assert_eq!(feed.next_of("session.created").subject, id);
    let session = home.session(&id);
    assert_eq!((session.channel.as_str(), session.repo_id.as_deref()), ("acp", Some(repo.id.as_str())));
    assert_eq!((session.harness.as_str(), session.cwd.as_str()), ("gemini", repo.path.as_str()));
    let listed: Vec<SessionRecord> = home.items(&["sessions", "--json"]);
    assert_eq!(listed.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    assert_eq!(home.sessions().len(), 1);
}

#[test]
fn a_session_created_in_v1_belongs_to_the_repository_of_its_folder() {
    let home = TestHome::started_with_agent(json!({}));
    let folder = home.init_repo(&home.project().join("app"));
    std::fs::create_dir(folder.join("src")).expect("a folder");

    let request = json!({ "harness": "gemini", "channel": "acp", "cwd": folder.join("src"), "prompt": "say hello" });
    let session = home.launch_with(request);
    home.wait_for_text(&session.id, "hello");

    let repos: coven_testing::records::RepoList = home.read("/api/repos");
    assert_eq!(repos.repos.len(), 1);
    assert_eq!(
        (&session.repo_id, &repos.repos[0].path),
        (&Some(repos.repos[0].id.clone()), &folder.display().to_string())
    );
    assert_eq!(home.agent_session(&session.id).status, "active");
    let request = json!({ "harness": "gemini", "channel": "acp", "cwd": home.project() });
    home.post("/api/v1/sessions", &request).expect_error(400, "not_a_repository");
}

#[test]
fn an_ended_acp_session_can_be_archived_summoned_exported_and_sacrificed() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.turn(&id, "say hello");
    home.act(&id, "archive").expect_error(409, "session_running");
    home.cancel_session(&id);
    home.wait_for_end(&id);

    assert_eq!(home.act(&id, "archive").status, 200);
    assert_eq!(home.act(&id, "summon").status, 200);
    assert!(home.coven(&["export", &id, "--format", "jsonl"]).expect_success().contains("hello"));
    assert_eq!(home.messages(&id).iter().filter(|it| it.text() == "hello").count(), 1);
    assert_eq!(home.sacrifice(&id).status, 200);

    home.get(&path(&id, "/messages")).expect_error(404, "session_not_found");
    assert_eq!(home.agent_sessions("").total, 0);
    check_invariants(&home);
}
