//! LIFE-17 to LIFE-20: live input and kill.

use coven_domain::entry::EntryKind;
use coven_testing::sessions::path;
use coven_testing::{TestHome, check_invariants, process, wait_until};
use serde_json::{Value, json};

#[test]
fn life_17_input_to_a_running_session_is_accepted_forwarded_and_recorded() {
    let home = TestHome::started();
    let session = home.launch("echo");
    home.wait_for_output(&session.id, "ready");

    let answer = home.post(&path(&session.id, "/input"), &json!({ "data": "hello\r" }));

    assert_eq!(answer.status, 202);
    assert_eq!(answer.json::<Value>(), json!({ "ok": true, "accepted": true }));
    home.wait_for_output(&session.id, "got:hello");
    let entries = home.entries(&session.id);
    let inputs: Vec<_> = entries.iter().filter(|it| it.kind == EntryKind::Input).map(|it| it.data.as_deref()).collect();
    assert_eq!(inputs, [Some("hello\r")]);
    // The same from the command line.
    home.coven(&["input", &session.id, "again", "--enter"]).expect_success();
    home.wait_for_output(&session.id, "got:again");
    check_invariants(&home);
}

#[test]
fn life_18_a_kill_of_a_running_session_is_accepted_and_recorded_and_ends_it() {
    let home = TestHome::started();
    let session = home.launch("fork_children ;; hang");
    home.wait_for_output(&session.id, "children are there");
    assert_eq!(home.harness_processes(&session.id).len(), 4);

    let answer = home.act(&session.id, "kill");

    assert_eq!(answer.status, 202);
    assert_eq!(answer.json::<Value>(), json!({ "ok": true, "accepted": true }));
    assert_eq!(home.session(&session.id).status, "killed");
    home.wait_for_end(&session.id);
    wait_until("all descendants have exited", || home.harness_processes(&session.id).is_empty());
    assert!(home.entries(&session.id).iter().any(|it| it.kind == EntryKind::Kill && it.detail.signal == Some(15)));
    assert!(!process::is_alive(session.pid.expect("was running")));
    check_invariants(&home);
}

#[test]
fn kill_waits_until_the_process_has_exited() {
    let home = TestHome::started();
    let stubborn = home.launch("ignore_sigterm ;; fork_children ;; hang");
    home.wait_for_output(&stubborn.id, "children are there");

    let output = home.coven(&["kill", &stubborn.id]).expect_success();

    assert!(!process::is_alive(stubborn.pid.expect("was running")), "{output}");
    assert_eq!(home.harness_processes(&stubborn.id), Vec::<u32>::new());
    assert!(output.starts_with("killed: ") && output.contains("ended by SIGKILL"), "{output}");
    assert!(output.trim_end().ends_with(&stubborn.id), "{output}");

    let polite = home.launch("say hello ;; hang");
    home.wait_for_output(&polite.id, "hello");
    let record: coven_testing::records::SessionRecord = home.json(&["kill", &polite.id, "--json"]);
    assert_eq!((record.status.as_str(), record.exit_code), ("killed", Some(143)));

    let accepted = home.launch("say hello ;; hang");
    home.wait_for_output(&accepted.id, "hello");
    let answer: Value = home.json(&["kill", &accepted.id, "--no-wait", "--json"]);
    assert_eq!(answer, json!({ "ok": true, "accepted": true }));
    home.wait_for_end(&accepted.id);
    check_invariants(&home);
}

#[test]
fn life_19_an_unknown_session_is_not_found() {
    let home = TestHome::started();
    let unknown = "00000000-0000-4000-8000-000000000000";

    for verb in ["input", "kill"] {
        let answer = home.post(&path(unknown, &format!("/{verb}")), &json!({ "data": "x" }));
        answer.expect_error(404, "session_not_found");
    }
    home.get(&path(unknown, "")).expect_error(404, "session_not_found");

    home.coven(&["input", unknown, "x"]).expect_failure(3);
    home.coven(&["kill", unknown]).expect_failure(3);
}

#[test]
fn life_20_a_session_that_is_not_live_refuses_input_and_kill() {
    let home = TestHome::started();
    let completed = home.run_to_end("exit 0").id;
    let failed = home.run_to_end("exit 1").id;
    let archived = home.run_to_end("exit 0").id;
    assert_eq!(home.act(&archived, "archive").status, 200);
    let killed = home.launch("hang").id;
    home.kill(&killed);
    let orphaned = home.launch("hang").id;
    process::kill_hard(home.holder_of(&orphaned).expect("has a holder"));
    home.wait_for_status(&orphaned, "orphaned");
    let created = home.launch_with(json!({ "harness": "claude", "detach": true })).id;

    let all = [completed, failed, archived, killed, orphaned, created];
    for id in &all {
        let before = (home.session(id), home.entries(id));
        let message = home.post(&path(id, "/input"), &json!({ "data": "x" })).expect_error(409, "session_not_live");
        assert!(message.contains(id.as_str()), "{message}");
        home.act(id, "kill").expect_error(409, "session_not_live");
        home.coven(&["input", id, "x"]).expect_failure(4);
        home.coven(&["kill", id]).expect_failure(4);
        assert_eq!((home.session(id), home.entries(id)), before, "nothing was written");
    }
    check_invariants(&home);
}
