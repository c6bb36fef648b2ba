//! How a turn ends: by itself, by a cancel, by the clock, by the death of its starter; and who ends with it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coven_host::print_mode::{Cancel, TurnDone, TurnError, TurnStatus, run_turn};

use crate::stand::{PATIENCE, Stand, is_alive, never, number_in, wait_until_dead};

pub const ROLE: &str = "COVEN_TEST_ROLE";
const SCRIPT: &str = "COVEN_TEST_SCRIPT";

/// Cancels as soon as the first text comes.
fn cancelled_at_once(stand: &Stand, script: &str, grace: Duration) -> Result<TurnDone, TurnError> {
    let mut harness = stand.harness(script);
    harness.grace = grace;
    let cancel = never();
    run_turn(&stand.spec(&harness, "hello"), |_| cancel.cancel(), &cancel)
}

#[test]
fn the_end_is_known_at_once() {
    let stand = Stand::new();
    let begun = Instant::now();
    for _ in 0..10 {
        stand.turn("echo done", "hello").expect("an answer");
    }
    // Ten looks at half a second each would take five.
    assert!(begun.elapsed() < Duration::from_millis(2500), "{:?}", begun.elapsed());
}

#[test]
fn a_child_that_holds_the_pipes_does_not_hold_the_turn_up() {
    // Given a program that leaves a child behind which keeps its streams open
    let stand = Stand::new();
    // Not `tail -f`: it ends when nothing reads its output any longer.
    let script = format!("sleep 600 & echo $! >{}; echo answer", stand.path("child").display());
    // When it ends
    let done = stand.turn(&script, "hello").expect("an answer");
    // Then so does the turn, with the whole answer, and the child lives on: the agent wanted it so
    assert_eq!(done.text, "answer");
    let child = number_in(&stand.path("child"));
    assert!(is_alive(child));
    end(child);
}

#[test]
fn all_output_before_the_end_belongs_to_the_answer() {
    let stand = Stand::new();
    for length in [65_535, 65_536, 300_000] {
        let script = format!("head -c {length} /dev/zero | tr '\\0' x");
        assert_eq!(stand.turn(&script, "hello").expect("an answer").text.len(), length);
    }
}

#[test]
fn a_cancel_keeps_what_was_received_and_ends_the_whole_group() {
    let stand = Stand::new();
    let script = format!(
        "tail -f /dev/null & echo $! >{}; echo $$ >{}; echo partial; wait",
        stand.path("child").display(),
        stand.path("leader").display()
    );
    let done = cancelled_at_once(&stand, &script, PATIENCE).expect("no failure");
    assert_eq!((done.text.as_str(), done.status), ("partial", TurnStatus::Interrupted));
    for name in ["leader", "child"] {
        wait_until_dead(number_in(&stand.path(name)));
    }
}

#[test]
fn whoever_ignores_the_polite_signal_is_killed_after_the_grace_period() {
    let stand = Stand::new();
    // Both ignore it; the child makes a group of its own besides, and holds no stream.
    let script = format!(
        "trap '' TERM HUP; {ROLE}='own group' '{}' --exact other_process >/dev/null 2>&1 & echo $! >{}; \
         until [ $(cut -d' ' -f5 /proc/$!/stat) = $! ]; do :; done; echo partial; tail -f /dev/null",
        std::env::current_exe().expect("own path").display(),
        stand.path("child").display()
    );
    let begun = Instant::now();
    let done = cancelled_at_once(&stand, &script, Duration::from_millis(200)).expect("no failure");
    assert_eq!(done.status, TurnStatus::Interrupted);
    assert!(begun.elapsed() < PATIENCE);
    wait_until_dead(number_in(&stand.path("child")));
}

#[test]
fn an_agent_has_its_grace_period_to_save_its_session() {
    // Given a launcher that dies at once, and an agent behind it that writes something down first
    let stand = Stand::new();
    let saved = stand.path("saved");
    let agent = format!("trap 'echo saved >{}; exit' TERM; echo partial; while :; do :; done", saved.display());
    let script = format!("sh -c \"{agent}\" & trap 'exit 1' TERM; wait");
    let done = cancelled_at_once(&stand, &script, PATIENCE).expect("no failure");
    assert_eq!(done.text, "partial");
    assert!(saved.exists(), "it was killed before it had saved");
}

#[test]
fn a_turn_that_was_cancelled_before_it_began_ends_at_once() {
    let stand = Stand::new();
    let harness = stand.harness("tail -f /dev/null");
    let cancel = never();
    cancel.cancel();
    let done = run_turn(&stand.spec(&harness, "hello"), |_| {}, &cancel).expect("no failure");
    assert_eq!((done.text.as_str(), done.status), ("", TurnStatus::Interrupted));
}

#[test]
fn a_cancel_reaches_a_program_that_reads_and_writes_nothing() {
    let stand = Stand::new();
    let harness = stand.harness(&format!("echo $$ >{}; tail -f /dev/null", stand.path("leader").display()));
    let cancel = Cancel::new().expect("two descriptors");
    let prompt = "p".repeat(5 << 20);
    let done = std::thread::scope(|scope| {
        let turn = scope.spawn(|| run_turn(&stand.spec(&harness, &prompt), |_| {}, &cancel));
        number_in(&stand.path("leader"));
        cancel.cancel();
        turn.join().expect("no panic")
    });
    assert_eq!(done.expect("no failure").status, TurnStatus::Interrupted);
    wait_until_dead(number_in(&stand.path("leader")));
}

#[test]
fn a_timeout_is_an_error_and_ends_the_whole_group() {
    let stand = Stand::new();
    let leader = stand.path("leader");
    let mut harness = stand.harness(&format!("echo $$ >{}; echo partial; tail -f /dev/null", leader.display()));
    harness.grace = Duration::from_millis(500);
    let mut spec = stand.spec(&harness, "hello");
    spec.timeout = Some(Duration::from_millis(300));
    let error = run_turn(&spec, |_| {}, &never()).expect_err("too slow");
    assert_eq!(error.to_string(), "Scripted did not finish within 0.3 s and was ended");
    wait_until_dead(number_in(&leader));
}

#[test]
fn a_panic_in_the_reader_leaves_nobody_behind() {
    let stand = Stand::new();
    let harness = stand.harness(&format!("echo $$ >{}; echo text; tail -f /dev/null", stand.path("leader").display()));
    let spec = stand.spec(&harness, "hello");
    let turn = std::panic::AssertUnwindSafe(|| run_turn(&spec, |_| panic!("of the test"), &never()));
    assert!(std::panic::catch_unwind(turn).is_err());
    wait_until_dead(number_in(&stand.path("leader")));
}

#[test]
fn the_program_ends_when_its_starter_is_killed() {
    // Given another process in the middle of a turn
    let stand = Stand::new();
    let script = format!("echo $$ >{}; tail -f /dev/null", stand.path("leader").display());
    let mut starter = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "other_process", "--nocapture"])
        .env(ROLE, "starter")
        .env(SCRIPT, script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("this very binary");
    let leader = number_in(&stand.path("leader"));
    // When it is killed with -9
    starter.kill().expect("own child");
    starter.wait().expect("own child");
    // Then its agent does not go on by itself
    wait_until_dead(leader);
}

/// The part of another process.
pub fn play(role: &str) {
    match role {
        "own group" => {
            rustix::process::setpgid(None, None).expect("it leads no session");
            loop {
                std::thread::park();
            }
        }
        "starter" => {
            let stand = Stand::new();
            let harness = stand.harness(&std::env::var(SCRIPT).expect("told"));
            // It is killed before this returns.
            let _ = run_turn(&stand.spec(&harness, "hello"), |_| {}, &never());
        }
        other => panic!("no such part: {other}"),
    }
}

fn end(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process's id is not 0");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("ours");
}
