//! Limits on the data that an agent can make the daemon store.

use std::fs;
use std::time::{Duration, Instant};

use coven_api::entry::EntryRecord;
use coven_holder::JOURNAL;
use coven_testing::{eventually, process, program, wait_until};
use rustix::process::Signal;
use serde_json::json;

use super::{Fixture, answers, gate, kill_and_restart, open_gate};

const MB: u64 = 1 << 20;
/// A read that takes less time is too short to measure delays of other requests.
const MIN_READ_TIME: Duration = Duration::from_secs(1);

fn size(path: &std::path::Path) -> u64 {
    fs::metadata(path).map_or(0, |it| it.len())
}

impl Fixture {
    /// Returns the size of the session's stored protocol state.
    fn state_bytes(&self, id: &str) -> u64 {
        let sql =
            "SELECT length(conversations.state) FROM conversations JOIN sessions ON key = session_key WHERE id = ?1";
        self.number(sql, id)
    }

    fn tool_messages(&self, id: &str) -> u64 {
        let sql = "SELECT count(*) FROM messages JOIN sessions ON key = session_key WHERE sessions.id = ?1 AND role = 'system'";
        self.number(sql, id)
    }

    /// Returns the number of bytes queued for the agent.
    fn outbox_bytes(&self, id: &str) -> u64 {
        let sql = "SELECT coalesce(sum(length(line)), 0) FROM outbox JOIN sessions ON key = session_key WHERE id = ?1";
        self.number(sql, id)
    }

    fn number(&self, sql: &str, id: &str) -> u64 {
        self.database().query_row(sql, [id], |row| row.get::<_, i64>(0)).expect("row").cast_unsigned()
    }

    fn store_bytes(&self) -> u64 {
        ["coven.db", "coven.db-wal"].iter().map(|name| size(&self.home.path().join(name))).sum()
    }
}

#[test]
fn other_requests_are_not_delayed_by_the_remaining_output_of_an_exited_agent() {
    const LINES: usize = 45_000;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    let line = "w".repeat(1000);
    fixture.home.prompt(&id, &format!("say so much: ;; until {} ;; chunks {LINES} {line} ;; exit_mid", gate.display()));
    fixture.home.wait_for_text(&id, "so much:");

    // The agent writes while the daemon is stopped, so that much output remains after its exit.
    let daemon = fixture.home.health().pid;
    process::signal(daemon, Signal::STOP);
    open_gate(&gate);
    wait_until("the agent has exited", || fixture.home.harness_processes(&id).is_empty());
    process::signal(daemon, Signal::CONT);
    let (started, mut longest, mut written) = (Instant::now(), Duration::ZERO, 0);
    while fixture.home.session(&id).status == "running" {
        let folder = fixture.home.init_repo(&fixture.home.project().join(format!("other-{written}")));
        let sent = Instant::now();
        assert_eq!(fixture.home.post("/api/repos", &json!({ "path": folder })).status, 201);
        longest = longest.max(sent.elapsed());
        written += 1;
    }

    // No write may have waited for most of the read.
    let total = started.elapsed();
    if total < MIN_READ_TIME {
        program::skip(
            "other_requests_are_not_delayed_by_the_remaining_output_of_an_exited_agent",
            "the output was read too fast",
        );
    } else {
        assert!(longest * 2 < total, "one of {written} writes took {longest:?} of {total:?}");
    }
    assert_eq!(fixture.home.agent_text(&id).len(), "so much:".len() + LINES * line.len());
    fixture.assert_others_unaffected();
}

#[test]
fn the_content_of_tool_calls_is_stored_once_and_not_in_the_state() {
    const CALLS: usize = 200;
    const SHOWN: usize = 50_000;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");

    let script = format!("tools {CALLS} {SHOWN} ;; say all started ;; until {} ;; tools_done {CALLS}", gate.display());
    fixture.home.prompt(&id, &script);
    wait_until("all calls are stored", || fixture.tool_messages(&id) == CALLS as u64);
    let state = fixture.state_bytes(&id);
    assert!(state < 100_000, "{state} bytes of state for {CALLS} calls");

    // After a restart, all calls are known. Their content stays when an update only has the status.
    kill_and_restart(&fixture.home);
    open_gate(&gate);
    fixture.home.wait_for_rest(&id);
    let tools = fixture.system_messages(&id, "tool");
    assert_eq!(tools.len(), CALLS);
    for tool in &tools {
        assert_eq!(tool.content["status"], "completed");
        let shown = tool.content["result"]["content"][0]["content"]["text"].as_str().expect("valid UTF-8");
        assert_eq!(shown.len(), SHOWN);
    }
    fixture.assert_others_unaffected();
}

#[test]
fn the_state_of_thousands_of_unfinished_calls_is_limited() {
    const CALLS: u64 = 5000;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");

    fixture.home.prompt(&id, &format!("tools {CALLS} 1 ;; until {}", gate.display()));
    fixture.home.turn(&fixture.bystander, "say in between");
    wait_until("all calls are stored", || fixture.tool_messages(&id) == CALLS);
    let state = fixture.state_bytes(&id);
    assert!(state < 200_000, "{state} bytes of state for {CALLS} calls");
    open_gate(&gate);
    fixture.home.wait_for_rest(&id);

    let tools = fixture.system_messages(&id, "tool");
    assert_eq!(tools.len() as u64, CALLS);
    assert!(tools.iter().all(|it| it.content["status"] == "cancelled"), "their end was not reported");
    fixture.assert_others_unaffected();
}

#[test]
fn each_of_many_concurrent_calls_is_answered_once() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let file = format!("{}/file.txt", fixture.repo.path);
    fs::write(&file, "r".repeat(10_000)).expect("disk has space");

    fixture.home.turn(&id, &format!("reads 300 {file}"));

    let read = answers(&fixture.home.agent_text(&id), "read");
    assert_eq!(read.into_iter().collect::<Vec<_>>(), [("ok 10000".to_owned(), 300)]);
    let answered = fixture.home.received(&id).iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answered, 300);
    fixture.assert_others_unaffected();
}

#[test]
fn calls_of_an_agent_that_does_not_read_are_queued_up_to_a_limit() {
    const CALLS: u64 = 1800;
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    let file = format!("{}/file.txt", fixture.repo.path);
    fs::write(&file, "r".repeat(40_000)).expect("disk has space");

    fixture.home.prompt(&id, &format!("deaf {} ;; reads {CALLS} {file}", gate.display()));
    // A thousand may be queued, plus the responses to some of the others.
    let refused = "SELECT count(*) FROM outbox JOIN sessions ON key = session_key \
                   WHERE id = ?1 AND line LIKE '%too many requests are pending%'";
    let refused =
        eventually("some requests are refused", || Some(fixture.number(refused, &id)).filter(|count| *count > 0));
    assert!(refused <= CALLS - 1000, "{refused} of {CALLS}");
    fixture.home.turn(&fixture.bystander, "say in between");
    let waiting = "SELECT json_array_length(conversations.state, '$.calls') \
                   FROM conversations JOIN sessions ON key = session_key WHERE id = ?1";
    let waiting = fixture.number(waiting, &id);
    assert!(waiting <= 1000, "{waiting} wait");
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    fixture.home.wait_for_end(&id);
    fixture.assert_others_unaffected();
}

#[test]
fn files_for_an_agent_that_does_not_read_are_queued_up_to_a_limit() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let gate = gate(&fixture, "gate");
    let (file, huge) = (format!("{}/file.txt", fixture.repo.path), format!("{}/huge.txt", fixture.repo.path));
    fs::write(&file, "r".repeat(7_000_000)).expect("disk has space");
    fs::write(&huge, "r".repeat(60_000_000)).expect("disk has space");

    fixture.home.prompt(&id, &format!("deaf {} ;; reads 30 {file}", gate.display()));
    eventually("the outbox has reached its limit", || Some(fixture.outbox_bytes(&id)).filter(|bytes| *bytes > 16 * MB));
    let (mut last, mut unchanged) = (0, 0);
    while unchanged < 10 {
        fixture.home.turn(&fixture.bystander, "say in between");
        let waiting = fixture.outbox_bytes(&id);
        // The limit, plus the files that are processed concurrently.
        assert!(waiting < (16 + 8 * 8) * MB, "{} MB wait", waiting / MB);
        unchanged = if waiting == last { unchanged + 1 } else { 0 };
        last = waiting;
    }
    assert_eq!(fixture.home.cancel_session(&id).status, 200);
    fixture.home.wait_for_end(&id);
    fixture.home.turn(&fixture.bystander, &format!("read {huge}"));
    assert!(
        fixture.home.agent_text(&fixture.bystander).contains("larger than 8 MiB"),
        "a single file may be too large"
    );
    fixture.assert_others_unaffected();
}

#[test]
fn the_first_and_last_lines_of_a_stderr_flood_are_kept() {
    let fixture = Fixture::new(&[]);
    let id = fixture.open();
    let before = fixture.store_bytes();

    fixture.home.prompt(&id, "say here ;; stderr_flood 20000000 ;; crash 9");
    fixture.home.wait_for_end(&id);

    let journal = size(&fixture.home.session_dir(&id).join(JOURNAL));
    assert!(journal < 6 * MB, "{} MB of journal", journal / MB);
    let stored = fixture.store_bytes() - before;
    assert!(stored < 16 * MB, "{} MB in the store", stored / MB);
    let is_stderr = |it: &EntryRecord| it.detail.note.as_deref() == Some("standard error");
    let stderr: Vec<String> =
        fixture.home.entries(&id).into_iter().filter(is_stderr).filter_map(|it| it.data).collect();
    assert!(stderr.first().expect("stderr entries").starts_with("first line\n"));
    let last = stderr.last().expect("stderr entries");
    assert!(last.contains("\nlast line\n"), "{} bytes", last.len());
    let error = fixture.system_messages(&id, "error").pop().expect("message");
    let stderr = error.content["stderr"].as_str().expect("valid UTF-8");
    assert!(stderr.contains("\nlast line\n") && stderr.len() <= 4096, "{} bytes", stderr.len());
    fixture.assert_others_unaffected();
}
