//! A thousand sessions.

use coven_api::List;
use coven_domain::session::{ProcessIdentity, Session, SessionState};
use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, TestTerminal, check_invariants, eventually, samples, wait_until};

#[test]
fn a_thousand_finished_sessions_are_listed_paged_and_browsed() {
    let home = TestHome::new();
    samples::put(&home, (0..1000).map(samples::finished));

    home.start();

    let all: Vec<SessionRecord> = home.items(&["sessions", "--json"]);
    assert_eq!(all.len(), 1000);
    assert!(all.windows(2).all(|pair| pair[0].created_at >= pair[1].created_at), "newest first");
    let mut paged: Vec<SessionRecord> = Vec::new();
    let mut cursor = String::new();
    for size in [400, 400, 200] {
        let mut args = vec!["sessions", "--json", "--limit", "400"];
        if !cursor.is_empty() {
            args.extend(["--cursor", &cursor]);
        }
        let page: List<SessionRecord> = home.json(&args);
        assert_eq!((page.items.len(), page.next.is_some()), (size, size == 400));
        paged.extend(page.items);
        cursor = page.next.unwrap_or_default();
    }
    assert_eq!(paged, all);
    assert_eq!(home.health().sessions_total, 1000);
    let mut terminal = TestTerminal::with_size(&home, &["sessions"], 24, 120);
    terminal.wait_for_text("session 999");
    terminal.wait_for_text("finished 1000");
    terminal.wait_until_live();
    // The other views and lists show the newest; the history reads on at its end.
    terminal.type_keys("H");
    terminal.wait_for_text("[History]");
    terminal.wait_for_text("session 999");
    eventually("the oldest session is shown", || {
        terminal.type_keys("G");
        terminal.text().contains("session 0 ").then_some(())
    });
    terminal.type_keys("q");
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

    // The start does not wait for all sessions.
    wait_until("all are orphaned", || {
        home.read::<List<SessionRecord>>("/api/v1/sessions?status=orphaned&limit=1").total == Some(1000)
    });
    assert_eq!(home.health().sessions_live, 0);
}

#[test]
fn twenty_running_sessions_are_adopted() {
    let home = TestHome::started();
    let ids: Vec<String> = (0..20).map(|nth| home.launch(&format!("say number {nth} ;; echo")).id).collect();
    ids.iter().for_each(|id| drop(home.wait_for_output(id, "ready")));

    home.kill_daemon();
    home.start();

    wait_until("all sessions are adopted", || home.health().sessions_live == 20);
    for id in &ids {
        home.type_in(id, "hello\r");
    }
    ids.iter().for_each(|id| drop(home.wait_for_output(id, "got:hello")));
    check_invariants(&home);
    home.coven(&["daemon", "stop", "--kill-sessions"]).expect_success();
    wait_until("all processes have exited", || home.processes().is_empty());
}
