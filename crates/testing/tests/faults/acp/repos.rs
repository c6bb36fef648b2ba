//! Repositories that are taken away, or that are none.

use std::thread;

use coven_testing::{TestHome, check_invariants, program, wait_until};
use hyper::Method;
use serde_json::json;

use super::let_through;

#[test]
fn a_repo_that_is_removed_while_a_session_is_made_gets_none() {
    let home = TestHome::new();
    home.configure(json!({ "sessions": { "killGraceSeconds": 1.0 } }));
    let (asked, gate) = (home.project().join("asked"), home.project().join("gate"));
    // Before anything is launched it is asked for its flags; that may take its time.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--help*) touch {}; until test -e {}; do sleep 0.05; done;; esac\nexec {} \"$@\"\n",
        asked.display(),
        gate.display(),
        program::fake_agent().display()
    );
    home.write_agent("gemini", &script);
    home.start();
    let repo = home.make_repo("app");

    let answer = thread::scope(|scope| {
        let creating = scope.spawn(|| home.post("/api/sessions", &json!({ "repoId": repo.id })));
        wait_until("it is being made", || asked.exists());
        assert_eq!(home.request(Method::DELETE, &format!("/api/repos/{}", repo.id), None).status, 200);
        let_through(&gate);
        creating.join().expect("an answer")
    });

    assert!(answer.refused(404, "repo_not_found").contains(&repo.id));
    assert_eq!(home.agent_sessions("").total, 0);
    check_invariants(&home);
}

#[test]
fn a_folder_outside_the_root_is_refused_and_logged_whether_it_is_a_repository_or_not() {
    let home = TestHome::started_with_agent(json!({}));
    let folder = home.folder().join("outside");
    std::fs::create_dir(&folder).expect("room on disk");
    let up = format!("{}/../../../../../../etc", home.project().display());

    for asked in ["/etc", up.as_str(), folder.to_str().expect("text"), "/"] {
        home.post("/api/repos", &json!({ "path": asked })).refused(400, "repo_outside_root");
        let quoted = format!("{asked:?}");
        wait_until(&format!("{asked} is in the log"), || {
            home.own_log().lines().any(|line| line.contains("WARN") && (line.contains(&quoted) || line.contains(asked)))
        });
    }
    let inside = home.make_folder("plain");
    home.post("/api/repos", &json!({ "path": inside })).refused(400, "not_a_repository");
}
