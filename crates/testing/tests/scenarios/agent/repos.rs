//! AGENT-11 to AGENT-13: a session belongs to one repository inside the allowed root.

use std::fs;
use std::os::unix::fs::symlink;

use coven_testing::records::{RepoList, RepoRecord};
use coven_testing::{TestHome, check_invariants, wait_until};
use hyper::Method;
use serde_json::json;

use super::{is_iso_time, is_uuid};

const UNKNOWN_ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

#[test]
fn agent_11_a_session_needs_a_repository_that_is_registered_and_inside_the_root() {
    let mut home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");

    let unknown = home.post("/api/sessions", &json!({ "repoId": UNKNOWN_ID }));
    assert!(unknown.expect_error(404, "repo_not_found").contains(UNKNOWN_ID));
    home.post("/api/sessions", &json!({ "repoId": "../app" })).expect_error(400, "invalid_request");
    home.post("/api/sessions", &json!({})).expect_error(400, "invalid_request");

    // The repository was inside the root when it was registered.
    let other_root = home.project().join("elsewhere");
    fs::create_dir(&other_root).expect("a folder");
    home.stop();
    home.env.push(("AGENT_WORKSPACE_ROOT".to_owned(), other_root.display().to_string()));
    home.start();
    let outside = home.post("/api/sessions", &json!({ "repoId": repo.id }));
    outside.expect_error(400, "repo_outside_root");
    home.stop();
    home.env.pop();
    home.start();

    // The folder is now a link to a folder outside the root.
    let (path, aside) = (home.project().join("app"), home.folder().join("app-outside"));
    fs::rename(&path, &aside).expect("one file system");
    symlink(&aside, &path).expect("a link");
    home.post("/api/sessions", &json!({ "repoId": repo.id })).expect_error(400, "repo_outside_root");
    fs::remove_file(&path).expect("writable");
    let gone = home.post("/api/sessions", &json!({ "repoId": repo.id }));
    assert_eq!(gone.status, 400, "{}", String::from_utf8_lossy(&gone.body));
    fs::rename(&aside, &path).expect("one file system");

    assert_eq!(home.agent_sessions("").total, 0, "no session was created");
    assert_eq!(home.open(&repo).status, "active");
    check_invariants(&home);
}

#[test]
fn agent_11_repos_are_registered_listed_and_removed() {
    let home = TestHome::started_with_agent(json!({}));
    let folder = home.init_repo(&home.project().join("app"));
    fs::create_dir_all(folder.join("src/deep")).expect("a folder");

    let added = home.post("/api/repos", &json!({ "path": folder.join("src/deep") }));
    assert_eq!(added.status, 201);
    let repo: RepoRecord = added.json();
    let path = folder.display().to_string();
    assert_eq!((repo.name.as_str(), &repo.path), ("app", &path));
    assert!(is_uuid(&repo.id) && is_iso_time(&repo.created_at), "{repo:?}");
    let again = home.post("/api/repos", &json!({ "path": folder, "name": "other" }));
    let renamed: RepoRecord = again.json();
    assert_eq!((again.status, renamed.id.as_str(), renamed.name.as_str()), (200, repo.id.as_str(), "other"));
    let unchanged: RepoRecord = home.post("/api/repos", &json!({ "path": folder })).json();
    assert_eq!(unchanged.name, "other", "without a name it stays");
    assert_eq!(home.events_since("0").items.iter().filter(|it| it.kind == "repo.renamed").count(), 1);
    let shown = home.coven(&["repo", "add", &path, "--name", "third"]).expect_success();
    assert!(shown.starts_with("already registered, name set: third ("), "{shown}");
    assert_eq!(home.read::<RepoRecord>(&format!("/api/repos/{}", repo.id)).id, repo.id);
    assert_eq!(home.read::<RepoList>("/api/repos").repos.len(), 1);

    let session = home.open(&repo);
    let remove = || home.request(Method::DELETE, &format!("/api/repos/{}", repo.id), None);
    remove().expect_error(409, "repo_in_use");
    let message = home.coven(&["repo", "remove", &path]).expect_failure(4);
    assert_eq!(message.matches("first").count(), 1, "the advice is given once: {message}");
    home.cancel_session(&session.id);
    home.wait_for_end(&session.id);
    assert_eq!(remove().status, 200);

    home.get(&format!("/api/repos/{UNKNOWN_ID}")).expect_error(404, "repo_not_found");
    assert_eq!(home.read::<RepoList>("/api/repos").repos, []);
    home.post("/api/sessions", &json!({ "repoId": repo.id })).expect_error(404, "repo_not_found");
    assert_eq!(home.agent_session(&session.id).repo_id, Some(repo.id), "an ended session keeps its repo");
}

#[test]
fn agent_12_the_workspace_is_passed_to_an_agent_with_that_flag() {
    for is_supported in [true, false] {
        let mut home = TestHome::with_agent(json!({}));
        home.env.push(("FAKE_HELP_WORKSPACE".to_owned(), if is_supported { "1" } else { "0" }.to_owned()));
        home.start();
        let repo = home.make_repo("app");

        let id = home.open(&repo).id;
        home.turn(&id, "args");
        home.turn(&id, "cwd");
        home.turn(&id, "settings");

        let text = home.agent_text(&id);
        let flag = format!(r#""--workspace", "{}""#, repo.path);
        assert_eq!(text.contains(&flag), is_supported, "{text}");
        // Every agent gets it as its working folder and in the protocol.
        assert_eq!(text.matches(&format!("cwd={}", repo.path)).count(), 2, "{text}");
        wait_until("the repository's path is logged", || home.own_log().contains(&repo.path));
    }
}

#[test]
fn agent_12_files_are_scoped_to_the_repository() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let (outside, far) = (home.project().join("secret.txt"), home.folder().join("secret.txt"));
    for file in [&outside, &far] {
        fs::write(file, "secret").expect("disk has space");
    }
    symlink(&outside, format!("{}/link.txt", repo.path)).expect("a link");
    fs::write(format!("{}/open.txt", repo.path), "open").expect("disk has space");
    let id = home.open(&repo).id;

    home.turn(&id, &format!("read {}/open.txt", repo.path));
    home.wait_for_text(&id, "read:open");
    for path in [
        outside.display().to_string(),
        format!("{}/link.txt", repo.path),
        format!("{}/../secret.txt", repo.path),
        far.display().to_string(),
    ] {
        home.turn(&id, &format!("read {path} ;; write {path} overwritten"));
    }

    let text = home.agent_text(&id);
    assert_eq!(text.matches("read error").count(), 4, "{text}");
    assert_eq!(text.matches("wrote error").count(), 4, "{text}");
    assert!(!text.contains("read:secret"), "{text}");
    for file in [&outside, &far] {
        assert_eq!(fs::read_to_string(file).expect("text"), "secret");
    }
}

#[test]
fn agent_13_a_path_that_leaves_the_root_is_refused_and_logged() {
    let home = TestHome::started_with_agent(json!({}));
    let outside = home.init_repo(&home.folder().join("outside"));
    home.init_repo(&home.project().join("app"));
    symlink(&outside, home.project().join("link")).expect("a link");
    let project = home.project().display().to_string();

    for escape in ["/../outside", "/app/../../outside", "/link", "/./app/.././../outside/."] {
        let asked = format!("{project}{escape}");
        home.post("/api/repos", &json!({ "path": asked })).expect_error(400, "repo_outside_root");
        wait_until(&format!("{asked} is in the log"), || home.own_log().contains(&asked));
    }
    home.post("/api/repos", &json!({ "path": outside })).expect_error(400, "repo_outside_root");
    home.post("/api/repos", &json!({ "path": "app" })).expect_error(400, "invalid_request");
    home.post("/api/repos", &json!({ "path": format!("{project}/nothing") })).expect_error(400, "cwd_missing");
    home.make_folder("plain");
    home.post("/api/repos", &json!({ "path": format!("{project}/plain") })).expect_error(400, "not_a_repository");
    assert_eq!(home.read::<RepoList>("/api/repos").repos, []);

    // A path with dots that stays inside is accepted.
    let inside = home.post("/api/repos", &json!({ "path": format!("{project}/plain/../app/.") }));
    assert_eq!(inside.status, 201);
    let path = fs::canonicalize(home.project().join("app")).expect("exists").display().to_string();
    assert_eq!(inside.json::<RepoRecord>().path, path);
}

#[test]
fn agent_13_the_root_is_read_at_start_and_a_bad_one_is_refused_by_name() {
    let mut home = TestHome::with_agent(json!({}));
    let root = home.make_folder("root");
    let inside = home.init_repo(&root.join("app"));
    let outside = home.init_repo(&home.project().join("other"));

    for bad in ["relative/root", "/does/not/exist/at/all"] {
        home.env = vec![("AGENT_WORKSPACE_ROOT".to_owned(), bad.to_owned())];
        let message = home.coven(&["daemon", "start"]).expect_failure(2);
        assert!(message.contains("AGENT_WORKSPACE_ROOT"), "{message}");
    }
    home.env = vec![("AGENT_WORKSPACE_ROOT".to_owned(), root.display().to_string())];
    home.start();

    assert_eq!(home.post("/api/repos", &json!({ "path": inside })).status, 201);
    home.post("/api/repos", &json!({ "path": outside })).expect_error(400, "repo_outside_root");
}
