//! Repositories that are removed, and folders that are not repositories.

use std::thread;

use coven_testing::{TestHome, check_invariants, program, wait_until};
use hyper::Method;
use serde_json::json;

use super::open_gate;

#[test]
fn a_repo_removed_during_session_creation_gets_no_session() {
    let home = TestHome::new();
    home.configure(json!({ "sessions": { "killGraceSeconds": 1.0 } }));
    let (help_started, gate) = (home.project().join("help-started"), home.project().join("gate"));
    // Before a launch, the daemon runs the agent with --help. This agent blocks then.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--help*) touch {}; until test -e {}; do sleep 0.05; done;; esac\nexec {} \"$@\"\n",
        help_started.display(),
        gate.display(),
        program::fake_agent().display()
    );
    home.write_agent("gemini", &script);
    home.start();
    let repo = home.make_repo("app");

    let answer = thread::scope(|scope| {
        let creating = scope.spawn(|| home.post("/api/sessions", &json!({ "repoId": repo.id })));
        wait_until("the session is being created", || help_started.exists());
        assert_eq!(home.request(Method::DELETE, &format!("/api/repos/{}", repo.id), None).status, 200);
        open_gate(&gate);
        creating.join().expect("response")
    });

    assert!(answer.expect_error(404, "repo_not_found").contains(&repo.id));
    assert_eq!(home.agent_sessions("").total, 0);
    check_invariants(&home);
}

#[test]
fn a_folder_outside_the_root_is_refused_and_logged() {
    let home = TestHome::started_with_agent(json!({}));
    let folder = home.folder().join("outside");
    std::fs::create_dir(&folder).expect("disk has space");
    let up = format!("{}/../../../../../../etc", home.project().display());

    for path in ["/etc", up.as_str(), folder.to_str().expect("valid UTF-8"), "/"] {
        home.post("/api/repos", &json!({ "path": path })).expect_error(400, "repo_outside_root");
        let quoted = format!("{path:?}");
        wait_until(&format!("{path} is in the log"), || {
            home.own_log().lines().any(|line| line.contains("WARN") && (line.contains(&quoted) || line.contains(path)))
        });
    }
    let inside = home.make_folder("plain");
    home.post("/api/repos", &json!({ "path": inside })).expect_error(400, "not_a_repository");
}
