//! LIFE-08 to LIFE-13: the launch path.

use std::fs;
use std::os::unix::fs::symlink;

use coven_domain::entry::EntryKind;
use coven_testing::pattern::assert_bytes;
use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, check_invariants};
use serde_json::json;

#[test]
fn life_08_root_and_working_folder_are_resolved_and_canonical() {
    let home = TestHome::started();
    let project = fs::canonicalize(home.project()).expect("exists");
    let real = home.make_folder("real");
    symlink(&real, home.project().join("link")).expect("a link");

    for given in ["link", "real", "link/../real/."] {
        let cwd = format!("{}/{given}", home.project().display());
        let session = home.launch_with(json!({ "harness": "claude", "prompt": "cwd", "cwd": cwd }));

        assert_eq!(session.project_root, project.display().to_string());
        assert_eq!(session.cwd, project.join("real").display().to_string(), "{given}");
        home.wait_for_output(&session.id, &format!("cwd={}", session.cwd));
        home.wait_for_end(&session.id);
    }
    // The command line resolves relative paths before it calls the daemon.
    let session: SessionRecord = home.json(&["run", "claude", "cwd", "--cwd", "link", "--json"]);
    assert_eq!(session.cwd, project.join("real").display().to_string());
    let session = home.launch_with(json!({ "harness": "claude", "prompt": "cwd" }));
    assert_eq!(session.cwd, session.project_root);
}

#[test]
fn life_09_a_working_folder_outside_the_root_is_rejected_by_the_daemon() {
    let home = TestHome::started();
    let outside = home.folder().join("outside");
    fs::create_dir(&outside).expect("a folder");
    symlink(&outside, home.project().join("link")).expect("a link");
    home.make_folder("sub");

    for escape in ["link", "sub/../..", "..", "../outside"] {
        let cwd = home.project().join(escape);
        let answer = home.post("/api/v1/sessions", &json!({ "harness": "claude", "cwd": cwd }));
        let message = answer.expect_error(400, "cwd_outside_root");
        assert!(message.contains("outside the project root"), "{message}");
    }
    // A project root in the request does not override the root of the home.
    let answer =
        home.post("/api/v1/sessions", &json!({ "harness": "claude", "cwd": outside, "project_root": outside }));
    answer.expect_error(400, "cwd_outside_root");
    home.post("/api/v1/sessions", &json!({ "harness": "claude", "cwd": "/" })).expect_error(400, "cwd_outside_root");
    home.post("/api/v1/sessions", &json!({ "harness": "claude", "cwd": "sub" })).expect_error(400, "invalid_request");
    home.coven(&["run", "claude", "hang", "--cwd", "link", "--background"]).expect_failure(2);

    assert_eq!(home.sessions(), []);
    check_invariants(&home);
}

#[test]
fn life_10_an_unsupported_harness_is_rejected_before_any_record_exists() {
    let home = TestHome::started();
    let before = home.health().last_event;

    let message = home.post("/api/v1/sessions", &json!({ "harness": "hal9000" })).expect_error(400, "unknown_harness");

    assert!(message.contains("hal9000") && message.contains("claude"), "{message}");
    assert_eq!(home.sessions(), []);
    assert_eq!(home.health().last_event, before);
}

#[test]
fn life_11_the_record_is_in_the_store_before_the_spawn() {
    let home = TestHome::started();
    let coven = coven_testing::program::coven();
    let asks = format!("exec {} show \"$COVEN_SESSION_ID\" --json", coven.display());

    // The harness reads its own record as soon as it runs.
    let session = home.launch_with(json!({ "argv": ["/bin/sh", "-c", asks] }));
    let ended = home.wait_for_end(&session.id);

    assert_eq!(ended.exit_code, Some(0), "{}", home.log_text(&session.id));
    let seen: SessionRecord = serde_json::from_slice(&home.log(&session.id)).expect("a record");
    assert_eq!((seen.id, seen.created_at), (session.id, session.created_at));
}

#[test]
fn life_12_the_harness_runs_on_a_terminal_from_argv_without_shell_expansion() {
    let home = TestHome::started();
    let text = "$(touch pwned) `id` ; rm -rf . | cat > pwned & \"quoted\" 'single' * ~ \\ $HOME <pwned";
    let prompt = format!("size ;; say {text}");

    let session = home.launch(&prompt);
    home.wait_for_end(&session.id);

    assert_eq!(home.log_text(&session.id), format!("size:24x80\r\n{text}\r\n"));
    assert!(!home.project().join("pwned").exists());
    let session = home.run_to_end("args ;; say two\nlines");
    assert!(home.log_text(&session.id).contains(r#""--", "args ;; say two\nlines"]"#));
}

#[test]
fn life_13_output_and_exit_are_written_to_the_ledger_and_the_record() {
    let home = TestHome::started();
    let session = home.launch("ask name? ;; say done ;; exit 7");
    home.wait_for_output(&session.id, "name?");
    home.type_in(&session.id, "Ada\r");

    let session = home.wait_for_end(&session.id);

    assert_eq!((session.status.as_str(), session.exit_code), ("failed", Some(7)));
    assert_eq!(home.entry_kinds(&session.id), ["start", "output", "input", "output", "exit"]);
    let entries = home.entries(&session.id);
    assert_eq!(entries.last().expect("an exit").detail.code, Some(7));
    let written: Vec<u8> = entries.iter().filter(|it| it.kind == EntryKind::Output).flat_map(|it| it.bytes()).collect();
    assert_bytes("the ledger's output", &written, &home.log(&session.id));
    assert!(home.log_text(&session.id).ends_with("answer:Ada\r\ndone\r\n"));
    check_invariants(&home);
}
