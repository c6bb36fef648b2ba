//! `coven run` in a terminal while its launch waits.

use coven_testing::{TestTerminal, check_invariants, wait_until};

use super::{home_with_room, queued};

#[test]
fn an_attached_run_says_why_it_waits_and_attaches_after_the_launch() {
    let home = home_with_room(1);
    let first = home.launch("hang").id;
    let mut terminal = TestTerminal::with_size(&home, &["run", "claude", "say here ;; exit 3"], 24, 200);
    terminal.wait_for_text("place 1 in the launch queue: the limit of live agents is reached (1 of 1)");
    home.kill(&first);
    terminal.wait_for_text("here");
    assert_eq!(terminal.wait(), 3);
    check_invariants(&home);
}

#[test]
fn ctrl_c_cancels_a_launch_that_waits() {
    let home = home_with_room(1);
    home.launch("hang");
    let mut terminal = TestTerminal::with_size(&home, &["run", "claude", "hang", "--title", "waiting"], 24, 200);
    terminal.wait_for_text("waiting for the launch");
    terminal.type_keys("\x03");
    terminal.wait_for_text("cancelled the launch of session");
    assert_eq!(terminal.wait(), 130);
    let cancelled = home.sessions().into_iter().find(|it| it.title == "waiting").expect("a record");
    assert_eq!((cancelled.status.as_str(), cancelled.pid), ("failed", None));
    check_invariants(&home);
}

#[test]
fn a_launch_that_another_client_cancels_ends_the_wait() {
    let home = home_with_room(1);
    home.launch("hang");
    let mut terminal = TestTerminal::with_size(&home, &["run", "claude", "hang", "--title", "waiting"], 24, 200);
    terminal.wait_for_text("waiting for the launch");
    let waiting = home.sessions().into_iter().find(|it| it.title == "waiting").expect("a record");
    assert_eq!(queued(&waiting).0, 1);
    home.coven(&["kill", &waiting.id]).expect_success();
    terminal.wait_for_text("was not launched: the session was killed while it waited for its launch");
    wait_until("the command has ended", || terminal.has_ended());
    check_invariants(&home);
}
