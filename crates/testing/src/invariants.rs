//! Invariants of a home that hold after every test.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::records::SessionRecord;
use coven_api::entry::EntryRecord;
use coven_api::routes::{Endpoint, ReadState};
use coven_domain::event::KINDS;
use coven_holder::SOCKET;
use coven_holder::journal::{Record, Stamped};
use coven_holder::process as kernel;
use serde_json::Value;

use crate::pattern::assert_bytes;
use crate::process::{Found, Role};
use crate::{DEADLINE, TestHome, journal, wait_until};

/// Asserts that every live row has its process and every process its row, and that no log, ledger, message history or
/// event feed has a gap or a duplicate. Needs a running daemon.
#[track_caller]
pub fn check_invariants(home: &TestHome) {
    let sessions = settled_sessions(home);
    check_processes(home, &sessions);
    for session in &sessions {
        check_session(home, session);
        if session.channel == "acp" {
            check_messages(home, session);
        }
    }
    check_tasks(home);
    check_events(home);
}

/// Asserts on one snapshot that tasks, runs and agents match: each task in progress has one run and a claim, and no other
/// task has a live agent. Returns the number of tasks in progress.
#[track_caller]
pub fn check_tasks(home: &TestHome) -> usize {
    let state: Value = home.read(ReadState::ROUTE.path);
    let rows = |name: &str| state[name].as_array().cloned().unwrap_or_default();
    let (agents, workflows) = (rows("agents"), rows("workflows"));
    let mut in_progress = 0;
    for task in rows("tasks") {
        let of_it = |row: &&Value| row["task_id"] == task["id"];
        let live = |row: &&Value| row["status"] == "starting" || row["status"] == "running";
        let live_agents = agents.iter().filter(of_it).filter(live).count();
        let running = workflows.iter().filter(of_it).filter(|row| row["status"] == "running").count();
        let is_in_progress = task["status"] == "in_progress";
        assert_eq!(running, usize::from(is_in_progress), "runs of {task}");
        assert_eq!(!task["claimed_by"].is_null(), is_in_progress, "claim of {task}");
        // The check before a merge is an agent too.
        let may_have_agent = is_in_progress || task["status"] == "pending_merge";
        assert!(live_agents <= usize::from(may_have_agent), "{live_agents} live agents of {task}");
        in_progress += usize::from(is_in_progress);
    }
    in_progress
}

/// Returns the sessions as soon as no launch, kill or exit is in progress: a kill takes its grace period, and the daemon
/// records an exit after the process has ended.
fn settled_sessions(home: &TestHome) -> Vec<SessionRecord> {
    let mut unsettled = None;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sessions = home.sessions();
        match sessions.iter().find_map(|session| find_problem(home, session)) {
            None => return sessions,
            // No delay is needed: each check sends requests to the daemon.
            problem if Instant::now() < deadline => unsettled = problem,
            problem => panic!("{}", problem.or(unsettled).unwrap_or_default()),
        }
    }
}

/// Returns why the row of a session does not match its processes, if so.
fn find_problem(home: &TestHome, session: &SessionRecord) -> Option<String> {
    let id = &session.id;
    match session.status.as_str() {
        "killed" if session.exit_code.is_none() => Some(format!("{id} was killed but has not ended")),
        // A launch that waits for a limit is settled.
        "created"
            if session.archived_at.is_none()
                && !session.metadata.contains_key("queued")
                && !session.actions.iter().any(|action| action == "start") =>
        {
            Some(format!("{id} is still being launched"))
        }
        "running" => {
            let records = journal::records(&home.session_dir(id));
            let Some(Record::Start { pid, started_ticks, .. }) = records.first().map(|it| &it.record) else {
                return Some(format!("{id} is running but its journal has no start: {records:?}"));
            };
            let is_same = kernel::stat(*pid).is_ok_and(|it| it.started_ticks == *started_ticks);
            let problem = match (session.pid == Some(*pid), is_same, home.holder_of(id)) {
                (false, _, _) => "the row and the journal have different pids",
                (_, false, _) => "the row is running but the process is not",
                (_, _, None) => "the process has no holder",
                (true, true, Some(_)) => return None,
            };
            Some(format!("{id}: {problem}"))
        }
        _ => None,
    }
}

fn check_processes(home: &TestHome, sessions: &[SessionRecord]) {
    let rows: HashMap<&str, &SessionRecord> = sessions.iter().map(|it| (it.id.as_str(), it)).collect();
    // An exiting process may be visible for a moment after its row has ended.
    let strays = RefCell::new(Vec::new());
    let _report = StrayReport(&strays);
    wait_until("every process has a row that allows it", || {
        let mut found = home.processes();
        found.retain(|it| match &it.role {
            Role::Daemon => false,
            Role::Holder(id) => rows.get(id.as_str()).is_none_or(|row| row.status != "running"),
            Role::Harness(id) => rows.get(id.as_str()).is_none_or(|row| !may_live(row, it.pid)),
        });
        let is_clean = found.is_empty();
        strays.replace(found);
        is_clean
    });
    // A child of the daemon has the command line of the daemon until it calls exec.
    wait_until("one daemon is running", || home.daemons().len() == 1);
}

/// Returns whether this process of the session's harness may be running. Children may outlive a harness that exited on its
/// own, but not a session that was ended.
fn may_live(row: &SessionRecord, pid: u32) -> bool {
    let was_ended = row.metadata.get("reason").is_some_and(|reason| reason == "finished" || reason == "idle_timeout");
    match row.status.as_str() {
        "running" => true,
        "completed" | "failed" => row.pid != Some(pid) && !was_ended,
        _ => false,
    }
}

/// Prints the remaining processes if the test fails.
struct StrayReport<'a>(&'a RefCell<Vec<Found>>);

impl Drop for StrayReport<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("processes without a row that allows them: {:?}", self.0.borrow());
        }
    }
}

fn check_session(home: &TestHome, session: &SessionRecord) {
    let (id, dir) = (session.id.as_str(), home.session_dir(&session.id));
    let records = journal::records(&dir);
    let end = journal::tiled_end(id, &records);
    let written = journal::log_end(&dir);
    assert!(end <= written, "{id}: the journal has {end} bytes of output but the log has {written}");
    check_end(session, &records, end, written, dir.join(SOCKET).exists());
    check_log(home, id, end);
    check_ledger(home, id, &records);
}

/// Asserts that the state, the last record of the journal and the log match.
fn check_end(session: &SessionRecord, records: &[Stamped], end: u64, written: u64, has_socket: bool) {
    let id = &session.id;
    let exits = records.iter().filter(|it| matches!(it.record, Record::Exit(_))).count();
    let last_is_exit = matches!(records.last().map(|it| &it.record), Some(Record::Exit(_)));
    match session.status.as_str() {
        "running" => assert_eq!(exits, 0, "{id} is running but its journal has an exit"),
        "completed" => assert!(exits == 1 && last_is_exit, "{id} is completed but its journal has no exit"),
        "failed" if session.pid.is_some() => {
            assert!(exits == 1 && last_is_exit, "{id} failed but its journal has no exit")
        }
        "failed" | "created" => assert_eq!(exits, 0, "{id} never ran but its journal has an exit"),
        "orphaned" => assert_eq!(exits, 0, "{id} is orphaned but its journal has an exit"),
        "killed" => assert!(exits <= 1, "{id} has two exits"),
        other => panic!("{id} has the status {other}"),
    }
    if exits == 1 {
        assert_eq!(end, written, "{id} has ended but its journal does not cover its log");
        assert!(!has_socket, "{id} has ended but its socket exists");
    }
}

/// Asserts that the daemon returns the bytes on disk.
fn check_log(home: &TestHome, id: &str, end: u64) {
    let (first, on_disk) = journal::log_until(&home.session_dir(id), end);
    let answer = home.get(&crate::sessions::path(id, &format!("/log?from={first}&to={end}")));
    assert_eq!(answer.status, 200, "{id}: {}", String::from_utf8_lossy(&answer.body));
    assert_bytes(&format!("the log of {id}"), &answer.body, &on_disk);
}

/// Asserts that the ledger matches the journal. It may have newer entries at its end.
fn check_ledger(home: &TestHome, id: &str, records: &[Stamped]) {
    let ledger = home.entries(id);
    assert!(ledger.len() >= records.len(), "{id}: {} entries for {} records", ledger.len(), records.len());
    for (index, (stored, record)) in ledger.iter().zip(records).enumerate() {
        let entry = record.entry(index as u64 + 1);
        let mut expected = EntryRecord::new(&entry, None);
        if entry.length > 0 {
            // The output itself is compared with the log.
            expected.data = stored.data.clone();
            expected.data_base64 = stored.data_base64.clone();
        }
        assert_eq!(*stored, expected, "{id}: entry {}", index + 1);
    }
    for (index, entry) in ledger.iter().enumerate() {
        assert_eq!(entry.seq, index as u64 + 1, "{id}: the ledger's numbers have a gap");
    }
}

/// Asserts that every message exists once and has a distinct time, and that an ended session has no partial message or
/// permission request.
fn check_messages(home: &TestHome, session: &SessionRecord) {
    let id = session.id.as_str();
    let messages = home.messages(id);
    let ids: HashSet<&str> = messages.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids.len(), messages.len(), "{id}: duplicate message");
    for pair in messages.windows(2) {
        assert!(pair[0].timestamp < pair[1].timestamp, "{id}: out of order: {pair:?}");
    }
    for it in &messages {
        assert_eq!(it.session_id, id);
        assert!(["user", "agent", "system"].contains(&it.role.as_str()), "{id}: {it:?}");
        let is_over = !["created", "running"].contains(&session.status.as_str());
        assert!(!(is_over && it.content["partial"] == true), "{id} has ended but a message is partial: {it:?}");
    }
    if session.exit_code.is_some() {
        assert_eq!(home.inbox(&format!("?session={id}")), [], "{id} has ended but has a permission request");
    }
}

/// Asserts that event numbers increase. Only a superseded `session.output` may be missing.
fn check_events(home: &TestHome) {
    let (mut since, mut last) = (0, None);
    loop {
        let page = home.events_since(&since.to_string());
        if page.items.is_empty() {
            return;
        }
        for event in &page.items {
            if let Some(last) = last {
                assert!(event.number > last, "{} follows {last}", event.number);
            }
            last = Some(event.number);
            assert!(KINDS.iter().any(|(kind, _)| *kind == event.kind), "unknown kind of event: {:?}", event.kind);
        }
        since = page.next;
    }
}
