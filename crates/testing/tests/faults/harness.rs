//! Harnesses that misbehave.

use std::io::Write;
use std::os::unix::net::UnixStream;

use coven_domain::entry::EntryKind;
use coven_testing::pattern::{INVALID_UTF8, assert_bytes, flood};
use coven_testing::sessions::path;
use coven_testing::{TestHome, TestTerminal, check_invariants, process, wait_until};
use serde_json::json;

#[test]
fn a_killed_harness_fails_with_the_signal() {
    let home = TestHome::started();
    let session = home.launch("say hello ;; hang");
    home.wait_for_output(&session.id, "hello");

    process::kill_hard(session.pid.expect("is running"));

    let ended = home.wait_for_end(&session.id);
    assert_eq!((ended.status.as_str(), ended.exit_code), ("failed", Some(137)));
    assert_eq!(ended.metadata["signal"], 9);
    let exit = home.entries(&session.id).pop().expect("exit entry");
    assert_eq!((exit.kind, exit.detail.signal), (EntryKind::Exit, Some(9)));
    check_invariants(&home);
}

#[test]
fn a_flood_is_recorded_completely_and_can_be_viewed_meanwhile() {
    let home = TestHome::started();
    let id = home.launch("flood 20000000").id;

    let mut terminal = TestTerminal::open(&home, &["attach", &id]);
    // The daemon answers other requests during the flood.
    while home.session(&id).status == "running" {
        assert_eq!(home.get(&path(&id, "/screen?format=text")).status, 200);
    }

    assert_eq!(home.session(&id).status, "completed");
    assert_bytes("the log", &home.log(&id), &flood(20_000_000));
    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
    check_invariants(&home);
}

/// Requests a stream and never reads it.
fn stalled(home: &TestHome, path: &str) -> UnixStream {
    let mut stream = UnixStream::connect(home.socket()).expect("daemon answers");
    let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(text.as_bytes()).expect("peer reads");
    stream
}

#[test]
fn stalled_readers_delay_no_other_reader_and_a_follower_gets_everything() {
    let home = TestHome::started();
    let go = home.project().join("go");
    let id = home.launch(&format!("until {} ;; flood 12000000", go.display())).id;
    let _stalled = [stalled(&home, &path(&id, "/log?follow")), stalled(&home, "/events?since=0")];
    let mut viewer = coven_holder::client::HolderClient::connect(&home.session_dir(&id)).expect("holder answers");
    viewer.send(&coven_holder::wire::Request::Follow { from: 0 }).expect("holder is listening");

    let followed = std::thread::scope(|scope| {
        let follower = scope.spawn(|| home.get(&path(&id, "/log?follow")).body);
        std::fs::write(&go, "").expect("disk has space");
        assert_eq!(home.wait_for_end(&id).status, "completed");
        follower.join().expect("no panic")
    });

    assert_bytes("the followed log", &followed, &flood(12_000_000));
    assert_bytes("the log", &home.log(&id), &flood(12_000_000));
    drop(viewer);
    check_invariants(&home);
}

#[test]
fn a_session_over_its_limit_drops_and_reports_the_oldest_segments() {
    let home = TestHome::started_with(json!({ "sessions": { "maxOutputBytes": 4 << 20 } }));

    let id = home.run_to_end("flood 20000000").id;

    let answer = home.get(&path(&id, "/log"));
    let first: usize = answer.header("x-coven-offset").parse().expect("offset");
    assert!(first > 0 && answer.body.len() <= 5 << 20, "{first} and {} bytes", answer.body.len());
    assert_bytes("the remaining log", &answer.body, &flood(20_000_000)[first..]);
    assert!(home.entries(&id).iter().any(|it| it.kind == EntryKind::Truncated));
    check_invariants(&home);
}

#[test]
fn a_harness_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 0.3 } }));
    let session = home.launch("ignore_sigterm ;; say stubborn ;; hang");
    home.wait_for_output(&session.id, "stubborn");

    let ended = home.kill(&session.id);

    assert_eq!((ended.status.as_str(), ended.exit_code), ("killed", Some(137)));
    check_invariants(&home);
}

#[test]
fn finish_sends_sigterm_then_sigkill_and_completes_the_session() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 0.3 } }));
    let session = home.launch("ignore_sigterm ;; say stubborn ;; hang");
    home.wait_for_output(&session.id, "stubborn");

    assert_eq!(home.act(&session.id, "finish").status, 200);
    let ended = home.wait_for_end(&session.id);

    assert_eq!(ended.status, "completed");
    assert_eq!(ended.metadata["reason"], "finished");
    check_invariants(&home);
}

#[test]
fn a_kill_also_ends_the_children_of_the_harness() {
    let home = TestHome::started_with(json!({ "sessions": { "killGraceSeconds": 0.3 } }));
    let session = home.launch("fork_children ;; hang");
    home.wait_for_output(&session.id, "children are there");
    assert_eq!(home.harness_processes(&session.id).len(), 4);

    home.kill(&session.id);

    wait_until("all descendants have exited", || home.harness_processes(&session.id).is_empty());
    check_invariants(&home);
}

#[test]
fn a_session_ends_with_its_harness_despite_remaining_children() {
    let home = TestHome::started();

    let session = home.run_to_end("fork_children ;; exit 0");

    assert_eq!((session.status.as_str(), session.exit_code), ("completed", Some(0)));
    check_invariants(&home);
}

#[test]
fn a_harness_that_closes_its_terminal_is_still_supervised() {
    let home = TestHome::started();
    let go = home.project().join("go");
    let script = format!("say bye ;; close_terminal ;; touch closed ;; until {} ;; exit 5", go.display());
    let session = home.launch(&script);
    wait_until("the harness closes its terminal", || home.project().join("closed").exists());

    assert_eq!(home.session(&session.id).status, "running");
    home.restart();
    assert_eq!(home.session(&session.id).status, "running");
    std::fs::write(&go, "").expect("disk has space");

    let ended = home.wait_for_end(&session.id);
    assert_eq!((ended.status.as_str(), ended.exit_code), ("failed", Some(5)));
    assert_eq!(home.log_text(&session.id), "bye\r\n");
    check_invariants(&home);
}

#[test]
fn a_harness_that_closed_its_terminal_can_be_killed() {
    let home = TestHome::started();
    let session = home.launch("close_terminal ;; touch closed ;; hang");
    wait_until("the harness closes its terminal", || home.project().join("closed").exists());

    let ended = home.kill(&session.id);

    assert_eq!(ended.status, "killed");
    check_invariants(&home);
}

#[test]
fn invalid_utf8_is_recorded_and_served_unchanged() {
    let home = TestHome::started();

    let id = home.run_to_end("invalid_utf8").id;

    assert_bytes("the log", &home.log(&id), INVALID_UTF8);
    let entries = home.entries(&id);
    let output = entries.iter().find(|it| it.kind == EntryKind::Output).expect("output entry");
    assert_eq!((output.data.as_ref(), output.bytes()), (None, INVALID_UTF8.to_vec()));
    assert!(home.get(&path(&id, "/screen?format=text")).body.ends_with(b"end"));
    check_invariants(&home);
}

#[test]
fn the_environment_of_the_caller_reaches_the_harness_and_is_not_written_to_disk() {
    let mut home = TestHome::started();
    let secret = "s3cret-value-of-the-callers-shell";
    home.env = vec![
        ("MY_KEY".to_owned(), secret.to_owned()),
        ("LD_PRELOAD".to_owned(), String::new()),
        ("COVEN_TOKEN".to_owned(), "no".to_owned()),
    ];
    let script = "env COVEN_TOKEN ;; env LD_PRELOAD ;; env COVEN_SESSION_ID ;; env COVEN_HOME ;; \
                  env COVEN_TASK_ID ;; until go";
    let session: coven_testing::records::SessionRecord =
        home.json(&["run", "claude", script, "--background", "--json"]);
    let pid = session.pid.expect("is running");
    home.wait_for_output(&session.id, "COVEN_TASK_ID");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("process exists");
    assert!(environment.split(|byte| *byte == 0).any(|it| it == format!("MY_KEY={secret}").as_bytes()));
    std::fs::write(home.project().join("go"), "").expect("disk has space");
    home.wait_for_end(&session.id);

    let path = std::fs::canonicalize(home.path()).expect("exists");
    let expected = format!(
        "COVEN_TOKEN unset\r\nLD_PRELOAD unset\r\nCOVEN_SESSION_ID={}\r\nCOVEN_HOME={}\r\nCOVEN_TASK_ID=\r\n",
        session.id,
        path.display()
    );
    assert_eq!(home.log_text(&session.id), expected);
    home.stop();
    assert_eq!(files_with(&home.path(), secret.as_bytes()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn the_environment_from_the_config_is_not_written_to_other_files() {
    let home = TestHome::new();
    let secret = "s3cret-value-of-the-config";
    let mine = json!({ "program": "claude", "prompt": "afterDashes", "env": { "MY_KEY": secret } });
    home.configure(json!({ "harnesses": { "mine": mine } }));
    home.start();

    let session =
        home.launch_with(json!({ "harness": "mine", "prompt": "env HOME ;; until go", "cwd": home.project() }));
    let environment =
        std::fs::read(format!("/proc/{}/environ", session.pid.expect("is running"))).expect("process exists");
    assert!(environment.split(|byte| *byte == 0).any(|it| it == format!("MY_KEY={secret}").as_bytes()));
    std::fs::write(home.project().join("go"), "").expect("disk has space");
    home.wait_for_end(&session.id);

    home.stop();
    assert_eq!(files_with(&home.path(), secret.as_bytes()), [home.path().join("config.json")]);
}

/// Returns every file under `folder` that contains `needle`.
fn files_with(folder: &std::path::Path, needle: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable folder").flatten() {
        let path = entry.path();
        match entry.file_type().expect("file type") {
            kind if kind.is_dir() => found.extend(files_with(&path, needle)),
            kind if kind.is_file() => {
                let bytes = std::fs::read(&path).expect("readable");
                found.extend(bytes.windows(needle.len()).any(|window| window == needle).then_some(path));
            }
            _ => {}
        }
    }
    found
}
