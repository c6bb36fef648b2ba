//! What must hold of a home whatever happened to it.

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

/// No live row without its process, no process without its row, no gap or repeat in any log, ledger, conversation or
/// feed. Needs a running daemon.
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

/// In one look: whoever works on a task is recorded on all sides, and nobody works on one that rests. Gives how many are
/// worked on.
#[track_caller]
pub fn check_tasks(home: &TestHome) -> usize {
    let state: Value = home.read(ReadState::ROUTE.path);
    let rows = |name: &str| state[name].as_array().cloned().unwrap_or_default();
    let (agents, workflows) = (rows("agents"), rows("workflows"));
    let mut worked_on = 0;
    for task in rows("tasks") {
        let of_it = |row: &&Value| row["task_id"] == task["id"];
        let live = |row: &&Value| row["status"] == "starting" || row["status"] == "running";
        let at_work = agents.iter().filter(of_it).filter(live).count();
        let running = workflows.iter().filter(of_it).filter(|row| row["status"] == "running").count();
        let is_worked_on = task["status"] == "in_progress";
        assert_eq!(running, usize::from(is_worked_on), "runs of {task}");
        assert_eq!(!task["claimed_by"].is_null(), is_worked_on, "who claims {task}");
        // A check before a merge is somebody at work too.
        let may_work = is_worked_on || task["status"] == "pending_merge";
        assert!(at_work <= usize::from(may_work), "{at_work} work on {task}");
        worked_on += usize::from(is_worked_on);
    }
    worked_on
}

/// The sessions once none is on its way: a kill takes its grace period, and the daemon hears of an end a moment after
/// the process is gone.
fn settled_sessions(home: &TestHome) -> Vec<SessionRecord> {
    let mut unsettled = None;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sessions = home.sessions();
        match sessions.iter().find_map(|session| what_is_wrong(home, session)) {
            None => return sessions,
            // Looking again is what lets time pass here: each look asks the daemon and the kernel.
            problem if Instant::now() < deadline => unsettled = problem,
            problem => panic!("{}", problem.or(unsettled).unwrap_or_default()),
        }
    }
}

/// Why the row of a session does not fit what runs, if so.
fn what_is_wrong(home: &TestHome, session: &SessionRecord) -> Option<String> {
    let id = &session.id;
    match session.status.as_str() {
        "killed" if session.exit_code.is_none() => Some(format!("{id} was killed and has not ended")),
        "created" if session.archived_at.is_none() && !session.actions.iter().any(|action| action == "start") => {
            Some(format!("{id} is being launched for ever"))
        }
        "running" => {
            let records = journal::records(&home.session_dir(id));
            let Some(Record::Start { pid, started_ticks, .. }) = records.first().map(|it| &it.record) else {
                return Some(format!("{id} runs and its journal has no start: {records:?}"));
            };
            let is_same = kernel::stat(*pid).is_ok_and(|it| it.started_ticks == *started_ticks);
            let problem = match (session.pid == Some(*pid), is_same, home.holder_of(id)) {
                (false, _, _) => "the row and the journal name different processes",
                (_, false, _) => "the row is running and the process is not",
                (_, _, None) => "it runs without a holder",
                (true, true, Some(_)) => return None,
            };
            Some(format!("{id}: {problem}"))
        }
        _ => None,
    }
}

fn check_processes(home: &TestHome, sessions: &[SessionRecord]) {
    let rows: HashMap<&str, &SessionRecord> = sessions.iter().map(|it| (it.id.as_str(), it)).collect();
    // A process that is just ending may be seen for a moment after its row has ended.
    let strays = RefCell::new(Vec::new());
    let _told = Told(&strays);
    wait_until("no process without a row that allows it", || {
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
    // A program that it is about to start looks like the daemon itself until it is.
    wait_until("one daemon has the home", || home.daemons().len() == 1);
}

/// Whether a process of the session's harness may be there. What a harness left running when it exited by itself is its
/// own business; a session that was ended leaves nobody.
fn may_live(row: &SessionRecord, pid: u32) -> bool {
    let was_asked = row.metadata.get("reason").is_some_and(|reason| reason == "finished" || reason == "idle_timeout");
    match row.status.as_str() {
        "running" => true,
        "completed" | "failed" => row.pid != Some(pid) && !was_asked,
        _ => false,
    }
}

/// Names the strays when waiting for their end was in vain.
struct Told<'a>(&'a RefCell<Vec<Found>>);

impl Drop for Told<'_> {
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
    assert!(end <= written, "{id}: the journal tells of {end} bytes and the log has {written}");
    check_end(session, &records, end, written, dir.join(SOCKET).exists());
    check_log(home, id, end);
    check_ledger(home, id, &records);
}

/// The state, the journal's last word and the log agree.
fn check_end(session: &SessionRecord, records: &[Stamped], end: u64, written: u64, has_socket: bool) {
    let id = &session.id;
    let exits = records.iter().filter(|it| matches!(it.record, Record::Exit(_))).count();
    let last_is_exit = matches!(records.last().map(|it| &it.record), Some(Record::Exit(_)));
    match session.status.as_str() {
        "running" => assert_eq!(exits, 0, "{id} runs and its journal has an exit"),
        "completed" => assert!(exits == 1 && last_is_exit, "{id} is completed and its journal does not say so"),
        "failed" if session.pid.is_some() => assert!(exits == 1 && last_is_exit, "{id} failed and has no exit"),
        "failed" | "created" => assert_eq!(exits, 0, "{id} never ran and has an exit"),
        "orphaned" => assert_eq!(exits, 0, "{id} is orphaned although its exit is known"),
        "killed" => assert!(exits <= 1, "{id} ended twice"),
        other => panic!("{id} has the status {other}"),
    }
    if exits == 1 {
        assert_eq!(end, written, "{id} has ended and its journal does not reach the end of its log");
        assert!(!has_socket, "{id} has ended and its socket is there");
    }
}

/// The daemon serves the bytes that lie on disk.
fn check_log(home: &TestHome, id: &str, end: u64) {
    let (first, on_disk) = journal::log_until(&home.session_dir(id), end);
    let answer = home.get(&crate::sessions::path(id, &format!("/log?from={first}&to={end}")));
    assert_eq!(answer.status, 200, "{id}: {}", String::from_utf8_lossy(&answer.body));
    assert_bytes(&format!("the log of {id}"), &answer.body, &on_disk);
}

/// The ledger is the journal, entry by entry. What came since the journal was read stands behind it.
fn check_ledger(home: &TestHome, id: &str, records: &[Stamped]) {
    let ledger = home.entries(id);
    assert!(ledger.len() >= records.len(), "{id}: {} entries for {} records", ledger.len(), records.len());
    for (index, (stored, record)) in ledger.iter().zip(records).enumerate() {
        let entry = record.entry(index as u64 + 1);
        let mut expected = EntryRecord::new(&entry, None);
        if entry.length > 0 {
            // The bytes were compared with the log; the ledger only points at them.
            expected.data = stored.data.clone();
            expected.data_base64 = stored.data_base64.clone();
        }
        assert_eq!(*stored, expected, "{id}: entry {}", index + 1);
    }
    for (index, entry) in ledger.iter().enumerate() {
        assert_eq!(entry.seq, index as u64 + 1, "{id}: the ledger's numbers have a gap");
    }
}

/// Every message once, each with a time of its own; what is over has no loose ends.
fn check_messages(home: &TestHome, session: &SessionRecord) {
    let id = session.id.as_str();
    let said = home.said(id);
    let ids: HashSet<&str> = said.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids.len(), said.len(), "{id}: a message is there twice");
    for pair in said.windows(2) {
        assert!(pair[0].timestamp < pair[1].timestamp, "{id}: out of order: {pair:?}");
    }
    for it in &said {
        assert_eq!(it.session_id, id);
        assert!(["user", "agent", "system"].contains(&it.role.as_str()), "{id}: {it:?}");
        let is_over = !["created", "running"].contains(&session.status.as_str());
        assert!(!(is_over && it.content["partial"] == true), "{id} is over and a message is not finished: {it:?}");
    }
    if session.exit_code.is_some() {
        assert_eq!(home.inbox(&format!("?session={id}")), [], "{id} is over and still asks for leave");
    }
}

/// Numbers of events grow; only a `session.output` that was replaced is missing.
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
            assert!(KINDS.iter().any(|(kind, _)| *kind == event.kind), "{:?} is no kind of event", event.kind);
        }
        since = page.next;
    }
}
