//! What an agent can make the daemon keep: bounded, whatever it says, asks for, or does not read.

use std::fs;
use std::time::{Duration, Instant};

use coven_api::session::EntryRecord;
use coven_holder::JOURNAL;
use coven_testing::{eventually, process, program, wait_until};
use rustix::process::Signal;

use super::{Scene, answers, gate, kill_and_start, let_through};

const MB: u64 = 1 << 20;
/// A reading that is over sooner says nothing about who waits for it.
const WORTH_MEASURING: Duration = Duration::from_secs(1);

fn size(path: &std::path::Path) -> u64 {
    fs::metadata(path).map_or(0, |it| it.len())
}

impl Scene {
    /// How much the protocol's state of the session takes in the store.
    fn state_bytes(&self, id: &str) -> u64 {
        let sql =
            "SELECT length(conversations.state) FROM conversations JOIN sessions ON key = session_key WHERE id = ?1";
        self.number(sql, id)
    }

    fn tool_messages(&self, id: &str) -> u64 {
        let sql = "SELECT count(*) FROM messages JOIN sessions ON key = session_key WHERE sessions.id = ?1 AND role = 'system'";
        self.number(sql, id)
    }

    /// How much waits for the agent.
    fn outbox_bytes(&self, id: &str) -> u64 {
        let sql = "SELECT coalesce(sum(length(line)), 0) FROM outbox JOIN sessions ON key = session_key WHERE id = ?1";
        self.number(sql, id)
    }

    fn number(&self, sql: &str, id: &str) -> u64 {
        self.database().query_row(sql, [id], |row| row.get::<_, i64>(0)).expect("a row").cast_unsigned()
    }

    fn store_bytes(&self) -> u64 {
        ["coven.db", "coven.db-wal"].iter().map(|name| size(&self.home.path().join(name))).sum()
    }
}

#[test]
fn others_write_while_the_rest_of_an_agent_that_is_gone_is_read() {
    const LINES: usize = 45_000;
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    let line = "w".repeat(1000);
    scene.home.prompt(&id, &format!("say so much: ;; until {} ;; chunks {LINES} {line} ;; exit_mid", gate.display()));
    scene.home.wait_for_text(&id, "so much:");

    // All of it is said while nobody listens: there is much left when it is gone.
    let daemon = scene.home.health().pid;
    process::signal(daemon, Signal::STOP);
    let_through(&gate);
    wait_until("it is gone", || scene.home.harness_processes(&id).is_empty());
    process::signal(daemon, Signal::CONT);
    let (begun, mut longest, mut written) = (Instant::now(), Duration::ZERO, 0);
    while scene.home.session(&id).status == "running" {
        let asked = Instant::now();
        scene.home.make_repo(&format!("other-{written}"));
        longest = longest.max(asked.elapsed());
        written += 1;
    }

    // However long it takes, no one write waited for most of it.
    let whole = begun.elapsed();
    if whole < WORTH_MEASURING {
        program::skip("others_write_while_the_rest_of_an_agent_that_is_gone_is_read", "it was read too soon");
    } else {
        assert!(longest * 2 < whole, "one of {written} writes took {longest:?} of {whole:?}");
    }
    assert_eq!(scene.home.agent_text(&id).len(), "so much:".len() + LINES * line.len());
    scene.is_sound();
}

#[test]
fn what_tool_calls_show_is_kept_once_and_not_with_every_step() {
    const CALLS: usize = 200;
    const SHOWN: usize = 50_000;
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");

    let script = format!("tools {CALLS} {SHOWN} ;; say all begun ;; until {} ;; tools_done {CALLS}", gate.display());
    scene.home.prompt(&id, &script);
    wait_until("all of them are stored", || scene.tool_messages(&id) == CALLS as u64);
    let state = scene.state_bytes(&id);
    assert!(state < 100_000, "{state} bytes of state for {CALLS} calls");

    // Whoever takes it up again knows them all: what was shown stays when only their end is told.
    kill_and_start(&scene.home);
    let_through(&gate);
    scene.home.wait_for_rest(&id);
    let tools = scene.of_system(&id, "tool");
    assert_eq!(tools.len(), CALLS);
    for tool in &tools {
        assert_eq!(tool.content["status"], "completed");
        let shown = tool.content["result"]["content"][0]["content"]["text"].as_str().expect("text");
        assert_eq!(shown.len(), SHOWN);
    }
    scene.is_sound();
}

#[test]
fn an_agent_that_begins_thousands_of_calls_and_ends_none_is_not_remembered_with_all_of_them() {
    const CALLS: u64 = 5000;
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");

    scene.home.prompt(&id, &format!("tools {CALLS} 1 ;; until {}", gate.display()));
    scene.home.turn(&scene.bystander, "say in between");
    wait_until("all of them are stored", || scene.tool_messages(&id) == CALLS);
    let state = scene.state_bytes(&id);
    assert!(state < 200_000, "{state} bytes of state for {CALLS} calls");
    let_through(&gate);
    scene.home.wait_for_rest(&id);

    let tools = scene.of_system(&id, "tool");
    assert_eq!(tools.len() as u64, CALLS);
    assert!(tools.iter().all(|it| it.content["status"] == "cancelled"), "nobody said how they ended");
    scene.is_sound();
}

#[test]
fn every_call_is_answered_once_however_many_come_together() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let file = format!("{}/file.txt", scene.repo.path);
    fs::write(&file, "r".repeat(10_000)).expect("room on disk");

    scene.home.turn(&id, &format!("reads 300 {file}"));

    let read = answers(&scene.home.agent_text(&id), "read");
    assert_eq!(read.into_iter().collect::<Vec<_>>(), [("ok 10000".to_owned(), 300)]);
    let answered = scene.home.received(&id).iter().filter(|it| it.get("result").is_some()).count();
    assert_eq!(answered, 300);
    scene.is_sound();
}

#[test]
fn calls_of_an_agent_that_reads_no_answers_wait_and_more_of_them_are_refused() {
    const ASKED: u64 = 1800;
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    let file = format!("{}/file.txt", scene.repo.path);
    fs::write(&file, "r".repeat(40_000)).expect("room on disk");

    scene.home.prompt(&id, &format!("deaf {} ;; reads {ASKED} {file}", gate.display()));
    // A thousand may wait, and the answers to some of the others.
    let refused = "SELECT count(*) FROM outbox JOIN sessions ON key = session_key \
                   WHERE id = ?1 AND line LIKE '%too many requests are waiting%'";
    let refused = eventually("some are refused", || Some(scene.number(refused, &id)).filter(|count| *count > 0));
    assert!(refused <= ASKED - 1000, "{refused} of {ASKED}");
    scene.home.turn(&scene.bystander, "say in between");
    let waiting = "SELECT json_array_length(conversations.state, '$.calls') \
                   FROM conversations JOIN sessions ON key = session_key WHERE id = ?1";
    let waiting = scene.number(waiting, &id);
    assert!(waiting <= 1000, "{waiting} wait");
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    scene.home.wait_for_end(&id);
    scene.is_sound();
}

#[test]
fn files_for_an_agent_that_reads_no_answers_do_not_pile_up() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let gate = gate(&scene, "gate");
    let (file, huge) = (format!("{}/file.txt", scene.repo.path), format!("{}/huge.txt", scene.repo.path));
    fs::write(&file, "r".repeat(7_000_000)).expect("room on disk");
    fs::write(&huge, "r".repeat(60_000_000)).expect("room on disk");

    scene.home.prompt(&id, &format!("deaf {} ;; reads 30 {file}", gate.display()));
    eventually("there is enough", || Some(scene.outbox_bytes(&id)).filter(|bytes| *bytes > 16 * MB));
    let (mut last, mut unchanged) = (0, 0);
    while unchanged < 10 {
        scene.home.turn(&scene.bystander, "say in between");
        let waiting = scene.outbox_bytes(&id);
        // The bound, and as many as are worked on at once.
        assert!(waiting < (16 + 8 * 8) * MB, "{} MB wait", waiting / MB);
        unchanged = if waiting == last { unchanged + 1 } else { 0 };
        last = waiting;
    }
    assert_eq!(scene.home.cancel_session(&id).status, 200);
    scene.home.wait_for_end(&id);
    scene.home.turn(&scene.bystander, &format!("read {huge}"));
    assert!(scene.home.agent_text(&scene.bystander).contains("larger than 8 MiB"), "a file may be too large as well");
    scene.is_sound();
}

#[test]
fn of_a_flood_on_standard_error_the_first_and_the_last_words_are_kept() {
    let scene = Scene::new(&[]);
    let id = scene.open();
    let before = scene.store_bytes();

    scene.home.prompt(&id, "say here ;; stderr_flood 20000000 ;; crash 9");
    scene.home.wait_for_end(&id);

    let journal = size(&scene.home.session_dir(&id).join(JOURNAL));
    assert!(journal < 6 * MB, "{} MB of journal", journal / MB);
    let stored = scene.store_bytes() - before;
    assert!(stored < 16 * MB, "{} MB in the store", stored / MB);
    let is_stderr = |it: &EntryRecord| it.detail.get("note").is_some_and(|note| note == "standard error");
    let stderr: Vec<String> = scene.home.entries(&id).into_iter().filter(is_stderr).filter_map(|it| it.data).collect();
    assert!(stderr.first().expect("some").starts_with("first words\n"));
    let last = stderr.last().expect("some");
    assert!(last.contains("\nlast words\n"), "{} bytes", last.len());
    let error = scene.of_system(&id, "error").pop().expect("a message");
    let told = error.content["stderr"].as_str().expect("text");
    assert!(told.contains("\nlast words\n") && told.len() <= 4096, "{} bytes", told.len());
    scene.is_sound();
}
