//! A thousand sessions.

use coven_api::SessionRecord;
use coven_api::session::SessionListResponse;
use coven_domain::session::{ProcessIdentity, Session, SessionState};
use coven_testing::{TestHome, TestTerminal, check_invariants, samples, wait_until};

#[test]
fn a_thousand_finished_sessions_are_listed_paged_and_browsed() {
    let home = TestHome::new();
    samples::put(&home, (0..1000).map(samples::finished));

    home.start();

    let all: Vec<SessionRecord> = home.json(&["sessions", "--json"]);
    assert_eq!(all.len(), 1000);
    assert!(all.windows(2).all(|pair| pair[0].created_at >= pair[1].created_at), "newest first");
    assert_eq!(home.health().sessions_total, 1000);
    let mut terminal = TestTerminal::open(&home, &["sessions"]);
    terminal.shows("session 999");
    terminal.types("G");
    terminal.shows("session 0 ");
    terminal.types("q");
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_thousand_rows_without_a_process_are_orphaned_at_start() {
    let home = TestHome::new();
    let running = |nth: u32| Session {
        state: SessionState::Running,
        exit_code: None,
        process: Some(ProcessIdentity { pid: 4_000_000 + nth, started_ticks: 7, boot_id: "another boot".into() }),
        ..samples::finished(nth)
    };
    samples::put(&home, (0..1000).map(running));

    home.start();

    // A start does not wait for all of them.
    wait_until("all are orphaned", || {
        home.read::<SessionListResponse>("/api/v1/sessions?status=orphaned&limit=1").total == 1000
    });
    assert_eq!(home.health().sessions_live, 0);
}

#[test]
fn twenty_sessions_at_once_are_adopted_together() {
    let home = TestHome::started();
    let ids: Vec<String> = (0..20).map(|nth| home.launch(&format!("say number {nth} ;; echo")).id).collect();
    ids.iter().for_each(|id| drop(home.wait_for_output(id, "ready")));

    home.kill_daemon();
    home.start();

    assert_eq!(home.health().sessions_live, 20);
    for id in &ids {
        home.type_in(id, "hello\r");
    }
    ids.iter().for_each(|id| drop(home.wait_for_output(id, "got:hello")));
    check_invariants(&home);
    home.coven(&["daemon", "stop", "--kill-sessions"]).done();
    wait_until("nothing is left", || home.processes().is_empty());
}
