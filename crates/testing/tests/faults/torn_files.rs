//! Files damaged by a power failure or a bad disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::sessions::path;
use coven_testing::{TestHome, TestTerminal, check_invariants, wait_until};
use serde_json::{Value, json};

/// Starts a home that does not compress the logs of finished sessions.
fn uncompressed_home() -> TestHome {
    TestHome::started_with(json!({ "sessions": { "compressFinished": false, "killGraceSeconds": 2.0 } }))
}

fn journal(home: &TestHome, id: &str) -> PathBuf {
    home.session_dir(id).join("journal")
}

fn segment(home: &TestHome, id: &str) -> PathBuf {
    home.session_dir(id).join("0000000000000000.log")
}

fn truncate(path: &std::path::Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("file exists");
    let length = file.metadata().expect("file length").len();
    file.set_len(length - bytes).expect("disk has space");
}

/// Runs a session that ends while no daemon is running.
fn run_without_daemon(home: &TestHome, script: &str) -> String {
    let go = home.project().join("go");
    let id = home.launch(&format!("until {} ;; {script}", go.display())).id;
    home.kill_daemon();
    fs::write(&go, "").expect("disk has space");
    wait_until("the session has ended", || home.processes().is_empty());
    id
}

#[test]
fn a_torn_exit_record_counts_as_no_exit() {
    let home = uncompressed_home();
    let id = run_without_daemon(&home, "say hello ;; exit 0");

    truncate(&journal(&home, &id), 3);
    home.start();

    home.wait_for_status(&id, "orphaned");
    assert_eq!(home.log_text(&id), "hello\r\n");
    check_invariants(&home);
}

#[test]
fn garbage_after_the_last_record_is_ignored() {
    let home = uncompressed_home();
    let id = run_without_daemon(&home, "say hello ;; exit 0");

    let mut file = OpenOptions::new().append(true).open(journal(&home, &id)).expect("journal");
    file.write_all(&[0xff; 100]).expect("disk has space");
    home.start();

    home.wait_for_status(&id, "completed");
    assert_eq!(home.log_text(&id), "hello\r\n");
    check_invariants(&home);
}

#[test]
fn an_empty_or_missing_journal_makes_the_session_orphaned() {
    for is_missing in [false, true] {
        let home = uncompressed_home();
        let id = run_without_daemon(&home, "say hello ;; exit 0");

        match is_missing {
            true => fs::remove_file(journal(&home, &id)).expect("existed"),
            false => fs::write(journal(&home, &id), "").expect("disk has space"),
        }
        home.start();

        home.wait_for_status(&id, "orphaned");
        assert_eq!(home.get(&path(&id, "/entries")).status, 200);
        assert_eq!(home.get(&path(&id, "/log")).status, 200);
        assert_eq!(home.get(&path(&id, "/screen?format=text")).status, 200);
    }
}

#[test]
fn an_empty_segment_after_a_rotation_is_not_an_error() {
    let home = uncompressed_home();
    let id = home.run_to_end("flood 100000").id;
    home.stop();

    fs::write(home.session_dir(&id).join(format!("{:016x}.log", 100_000)), "").expect("disk has space");
    home.start();

    assert_bytes("the log", &home.log(&id), &flood(100_000));
    check_invariants(&home);
}

#[test]
fn the_rest_of_a_truncated_segment_is_served() {
    let home = uncompressed_home();
    let id = home.run_to_end("flood 100000").id;
    let entries = home.entries(&id).len();
    home.stop();

    truncate(&segment(&home, &id), 40_000);
    home.start();

    assert_bytes("the log", &home.log(&id), &flood(60_000));
    assert_eq!(home.entries(&id).len(), entries);
    assert_eq!(home.get(&path(&id, "/screen")).status, 200);
    assert_eq!(home.command(&["replay", &id]).output().expect("coven starts").stdout.len(), 60_000);
    assert_reported_as_damaged(&home, &id, "bytes 60000 to 99999 are missing (of 100000 bytes)");
}

/// Asserts that every way to view a finished session fails and reports the damage.
fn assert_reported_as_damaged(home: &TestHome, id: &str, what: &str) {
    for args in [
        &["replay", id][..],
        &["attach", id],
        &["export", id, "--format", "text"],
        &["export", id, "--format", "asciicast"],
        &["export", id, "--format", "jsonl"],
    ] {
        let message = home.coven(args).expect_failure(1);
        assert!(message.contains(what), "{args:?}: {message}");
    }
    let mut terminal = TestTerminal::open(home, &["replay", id, "--speed", "max"]);
    assert_eq!(terminal.wait(), 1);
}

/// Returns the exit code of `coven doctor` and its finding about logs.
fn doctor(home: &TestHome) -> (i32, String) {
    let ran = home.coven(&["doctor"]);
    let line = ran.stdout.lines().find(|line| line.contains(" logs ")).unwrap_or_default();
    (ran.code, line.to_owned())
}

#[test]
fn a_deleted_log_is_reported_as_missing_everywhere() {
    let home = uncompressed_home();
    let id = home.run_to_end("flood 100000").id;
    let (_, sound) = doctor(&home);
    assert!(sound.starts_with("ok"), "{sound}");

    fs::remove_file(segment(&home, &id)).expect("existed");

    assert_eq!(home.log(&id), b"");
    assert_reported_as_damaged(&home, &id, "bytes 0 to 99999 are missing (of 100000 bytes)");
    let (code, found) = doctor(&home);
    assert!(code == 1 && found.contains("bytes 0 to 99999 are missing"), "{code}: {found}");
}

#[test]
fn checksums_detect_changed_bytes_of_a_log() {
    let home = uncompressed_home();
    let id = home.run_to_end("flood 100000").id;
    home.coven(&["replay", &id]).expect_success();

    let mut bytes = flood(100_000);
    bytes[70_000] ^= 1;
    fs::write(segment(&home, &id), &bytes).expect("disk has space");

    assert_reported_as_damaged(&home, &id, "are changed (of 100000 bytes)");
    let check = home.get(&path(&id, "/log/check")).json::<Value>();
    let (from, to) = (&check["changed"][0]["from"], &check["changed"][0]["to"]);
    assert!(from.as_u64() <= Some(70_000) && to.as_u64() > Some(70_000), "{check}");
    assert_eq!(check["missing"], json!([]));
}

#[test]
fn a_compressed_log_has_checksums_and_counts_as_missing_if_it_cannot_be_unpacked() {
    let home = TestHome::started();
    let id = home.run_to_end("flood 600000").id;
    let packed = home.session_dir(&id).join("0000000000000000.log.zst");
    wait_until("the log is compressed", || packed.exists() && !segment(&home, &id).exists());
    home.coven(&["replay", &id]).expect_success();

    let mut bytes = fs::read(&packed).expect("exists");
    bytes[..64].fill(0);
    fs::write(&packed, &bytes).expect("disk has space");

    let check = home.get(&path(&id, "/log/check")).json::<Value>();
    assert_eq!(check["missing"][0]["from"], 0, "{check}");
    assert_eq!((&check["changed"], &check["end"]), (&json!([]), &json!(600_000)));
    home.coven(&["replay", &id]).expect_failure(1);
}

#[test]
fn a_lost_segment_is_missing_but_output_dropped_by_the_limit_is_not() {
    let home = TestHome::started_with(json!({
        "sessions": { "compressFinished": false, "maxOutputBytes": 1 << 20 }
    }));
    let id = home.run_to_end("flood 3000000").id;
    assert!(home.entry_kinds(&id).contains(&"truncated".to_owned()));

    home.coven(&["replay", &id]).expect_success();
    assert_eq!(doctor(&home).0, 0);

    let mut segments: Vec<PathBuf> = fs::read_dir(home.session_dir(&id))
        .expect("readable folder")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|it| it == "log"))
        .collect();
    segments.sort();
    let lost = &segments[segments.len() / 2];
    let length = fs::metadata(lost).expect("exists").len();
    let name = lost.file_stem().and_then(|name| name.to_str()).expect("name");
    let start = u64::from_str_radix(name, 16).expect("offset");
    fs::remove_file(lost).expect("existed");

    let all = home.command(&["replay", &id]).output().expect("coven starts");
    let expected = format!("bytes {start} to {} are missing", start + length - 1);
    let message = String::from_utf8_lossy(&all.stderr).into_owned();
    assert!(all.status.code() == Some(1) && message.contains(&expected), "{message}");
    assert!(all.stdout.ends_with(&flood(3_000_000)[2_990_000..]), "the output after the gap is shown");
}

#[test]
fn an_emptied_log_is_reported_as_missing() {
    let home = uncompressed_home();
    let id = home.run_to_end("say hello").id;
    home.stop();

    fs::write(segment(&home, &id), "").expect("disk has space");
    home.start();

    assert_eq!(home.log(&id), b"");
    assert_eq!(home.entry_kinds(&id), ["start", "output", "exit"]);
    assert_reported_as_damaged(&home, &id, "bytes 0 to 6 are missing (of 7 bytes)");
}

#[test]
fn a_damaged_compressed_log_is_reported_and_does_not_affect_other_sessions() {
    let home = TestHome::started();
    let damaged = home.run_to_end("flood 100000").id;
    let fine = home.run_to_end("say fine").id;
    let packed = home.session_dir(&damaged).join("0000000000000000.log.zst");
    wait_until("the log is compressed", || packed.exists() && !segment(&home, &damaged).exists());
    home.stop();

    truncate(&packed, 5);
    home.start();

    let answer = home.get(&path(&damaged, "/log"));
    assert!(answer.status == 500, "{} {:?}", answer.status, String::from_utf8_lossy(&answer.body));
    assert!(!answer.expect_error(500, "internal").is_empty());
    assert_eq!(home.log_text(&fine), "fine\r\n");
    assert_eq!(home.sacrifice(&damaged).status, 200);
    check_invariants(&home);
}

#[test]
fn a_database_of_another_program_is_refused_and_unchanged() {
    let home = TestHome::new();
    let foreign = b"this is not a database of coven".repeat(200);
    fs::write(home.path().join("coven.db"), &foreign).expect("disk has space");

    let message = home.coven(&["daemon", "start"]).expect_failure(1);

    assert!(message.contains("database"), "{message}");
    assert_eq!(fs::read(home.path().join("coven.db")).expect("exists"), foreign);
}

#[test]
fn a_damaged_database_is_reported_with_what_to_do_next() {
    let home = TestHome::started();
    for nth in 0..20 {
        home.coven(&["task", "add", &format!("task {nth}")]).expect_success();
    }
    home.stop();
    let path = home.path().join("coven.db");
    let sound = fs::read(&path).expect("database");
    home.coven(&["db", "status"]).expect_success();

    // Keep the first page, so that the file still looks like a database.
    let mut damaged = sound.clone();
    damaged[8192..].fill(0);
    fs::write(&path, &damaged).expect("disk has space");

    for args in [&["db", "status"][..], &["daemon", "start"]] {
        let message = home.coven(args).expect_failure(1);
        assert!(message.contains("the store is damaged"), "{message}");
        assert!(message.contains("coven.db.bak-") && message.contains("`coven db status`"), "{message}");
    }
    fs::write(&path, &sound).expect("disk has space");
    home.start();
    check_invariants(&home);
}

#[test]
fn a_changed_value_in_the_database_is_reported_and_can_be_accepted() {
    let home = TestHome::started();
    let id = home.run_to_end("say something").id;
    home.stop();
    let path = home.path().join("coven.db");
    let mut bytes = fs::read(&path).expect("database");
    let script = b"say something";
    let at = bytes.windows(script.len()).position(|it| it == script).expect("script is in the file");
    bytes[at + 4] = b'S';
    fs::write(&path, &bytes).expect("disk has space");

    let message = home.coven(&["ls"]).expect_failure(1);
    assert!(message.contains("does not match its checksum"), "{message}");
    let health: Value = home.json(&["daemon", "status", "--json"]);
    assert_eq!(health["ok"], false, "{health}");
    home.stop();
    let accepted = home.coven(&["db", "repair"]).expect_success();
    assert!(accepted.contains("coven.db.damaged-1"), "{accepted}");
    assert!(fs::read(home.path().join("coven.db.damaged-1")).expect("copy") == bytes);
    home.start();
    assert_eq!(home.session(&id).status, "completed");
    check_invariants(&home);
}
