//! How a turn ends: normally, by cancellation, by timeout or when coven is killed; and which processes end with it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use coven_host::print_mode::{Cancel, TurnDone, TurnError, TurnStatus, run_turn};

use crate::fixture::{Fixture, TIMEOUT, is_alive, never, number_in, wait_until_dead};

pub const ROLE: &str = "COVEN_TEST_ROLE";
const SCRIPT: &str = "COVEN_TEST_SCRIPT";

/// Runs a turn and cancels it when the first text arrives.
fn cancel_on_first_text(fixture: &Fixture, script: &str, grace: Duration) -> Result<TurnDone, TurnError> {
    let mut harness = fixture.harness(script);
    harness.grace = grace;
    let cancel = never();
    run_turn(&fixture.spec(&harness, "hello"), |_| cancel.cancel(), &cancel)
}

#[test]
fn the_end_of_a_turn_is_detected_immediately() {
    let fixture = Fixture::new();
    let time_of_turn = || {
        let started = Instant::now();
        fixture.turn("echo done", "hello").expect("an answer");
        started.elapsed()
    };
    // With a poll every half second, no turn would be faster. On a busy machine, some turns are slower.
    let fastest = (0..10).map(|_| time_of_turn()).min().expect("ten turns");
    assert!(fastest < Duration::from_millis(400), "{fastest:?}");
}

#[test]
fn a_child_that_keeps_the_pipes_open_does_not_delay_the_turn() {
    // Given a program that leaves a child behind that keeps its streams open
    let fixture = Fixture::new();
    // Not `tail -f`, which exits when its output is closed.
    let script = format!("sleep 600 & echo $! >{}; echo answer", fixture.path("child").display());
    // When it exits
    let done = fixture.turn(&script, "hello").expect("an answer");
    // Then the turn ends with the whole answer, and the child that the agent started keeps running
    assert_eq!(done.text, "answer");
    let child = number_in(&fixture.path("child"));
    assert!(is_alive(child));
    kill(child);
}

#[test]
fn all_output_before_the_exit_belongs_to_the_answer() {
    let fixture = Fixture::new();
    for length in [65_535, 65_536, 300_000] {
        let script = format!("head -c {length} /dev/zero | tr '\\0' x");
        assert_eq!(fixture.turn(&script, "hello").expect("an answer").text.len(), length);
    }
}

#[test]
fn cancelling_keeps_the_received_text_and_kills_the_whole_group() {
    let fixture = Fixture::new();
    let script = format!(
        "tail -f /dev/null & echo $! >{}; echo $$ >{}; echo partial; wait",
        fixture.path("child").display(),
        fixture.path("leader").display()
    );
    let done = cancel_on_first_text(&fixture, &script, TIMEOUT).expect("no failure");
    assert_eq!((done.text.as_str(), done.status), ("partial", TurnStatus::Interrupted));
    for name in ["leader", "child"] {
        wait_until_dead(number_in(&fixture.path(name)));
    }
}

#[test]
fn processes_that_ignore_sigterm_are_killed_after_the_grace_period() {
    let fixture = Fixture::new();
    // Both ignore SIGTERM. The child also creates its own process group and has closed its streams.
    let script = format!(
        "trap '' TERM HUP; {ROLE}='own group' '{}' --exact other_process >/dev/null 2>&1 & echo $! >{}; \
         until [ $(cut -d' ' -f5 /proc/$!/stat) = $! ]; do :; done; echo partial; tail -f /dev/null",
        std::env::current_exe().expect("the path of this program").display(),
        fixture.path("child").display()
    );
    let started = Instant::now();
    let done = cancel_on_first_text(&fixture, &script, Duration::from_millis(200)).expect("no failure");
    assert_eq!(done.status, TurnStatus::Interrupted);
    assert!(started.elapsed() < TIMEOUT);
    wait_until_dead(number_in(&fixture.path("child")));
}

#[test]
fn an_agent_can_save_its_session_within_the_grace_period() {
    // Given a launcher that exits immediately on SIGTERM, and its agent, which first saves a file
    let fixture = Fixture::new();
    let saved = fixture.path("saved");
    let agent = format!("trap 'echo saved >{}; exit' TERM; echo partial; while :; do :; done", saved.display());
    let script = format!("sh -c \"{agent}\" & trap 'exit 1' TERM; wait");
    let done = cancel_on_first_text(&fixture, &script, TIMEOUT).expect("no failure");
    assert_eq!(done.text, "partial");
    assert!(saved.exists(), "the agent was killed before it saved");
}

#[test]
fn a_turn_cancelled_before_its_start_ends_immediately() {
    let fixture = Fixture::new();
    let harness = fixture.harness("tail -f /dev/null");
    let cancel = never();
    cancel.cancel();
    let done = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &cancel).expect("no failure");
    assert_eq!((done.text.as_str(), done.status), ("", TurnStatus::Interrupted));
}

#[test]
fn cancelling_stops_a_program_that_neither_reads_nor_writes() {
    let fixture = Fixture::new();
    let harness = fixture.harness(&format!("echo $$ >{}; tail -f /dev/null", fixture.path("leader").display()));
    let cancel = Cancel::new().expect("two descriptors");
    let prompt = "p".repeat(5 << 20);
    let done = std::thread::scope(|scope| {
        let turn = scope.spawn(|| run_turn(&fixture.spec(&harness, &prompt), |_| {}, &cancel));
        number_in(&fixture.path("leader"));
        cancel.cancel();
        turn.join().expect("no panic")
    });
    assert_eq!(done.expect("no failure").status, TurnStatus::Interrupted);
    wait_until_dead(number_in(&fixture.path("leader")));
}

#[test]
fn a_timeout_is_an_error_and_kills_the_whole_group() {
    let fixture = Fixture::new();
    let leader = fixture.path("leader");
    let mut harness = fixture.harness(&format!("echo $$ >{}; echo partial; tail -f /dev/null", leader.display()));
    harness.grace = Duration::from_millis(500);
    let mut spec = fixture.spec(&harness, "hello");
    spec.timeout = Some(Duration::from_millis(300));
    let error = run_turn(&spec, |_| {}, &never()).expect_err("too slow");
    assert_eq!(error.to_string(), "Scripted did not finish within 0.3 s and was stopped");
    wait_until_dead(number_in(&leader));
}

#[test]
fn a_panic_in_the_reader_leaves_no_process_behind() {
    let fixture = Fixture::new();
    let harness =
        fixture.harness(&format!("echo $$ >{}; echo text; tail -f /dev/null", fixture.path("leader").display()));
    let spec = fixture.spec(&harness, "hello");
    let turn = std::panic::AssertUnwindSafe(|| run_turn(&spec, |_| panic!("caused by the test"), &never()));
    assert!(std::panic::catch_unwind(turn).is_err());
    wait_until_dead(number_in(&fixture.path("leader")));
}

#[test]
fn the_program_exits_when_its_parent_is_killed() {
    // Given another process in the middle of a turn
    let fixture = Fixture::new();
    let script = format!("echo $$ >{}; tail -f /dev/null", fixture.path("leader").display());
    let mut starter = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(["--exact", "other_process", "--nocapture"])
        .env(ROLE, "starter")
        .env(SCRIPT, script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("this program starts");
    let leader = number_in(&fixture.path("leader"));
    // When it is killed with SIGKILL
    starter.kill().expect("a child process");
    starter.wait().expect("a child process");
    // Then its agent does not keep running
    wait_until_dead(leader);
}

/// Runs as another process with this role.
pub fn run_as(role: &str) {
    match role {
        "own group" => {
            rustix::process::setpgid(None, None).expect("not a session leader");
            loop {
                std::thread::park();
            }
        }
        "starter" => {
            let fixture = Fixture::new();
            let harness = fixture.harness(&std::env::var(SCRIPT).expect("the script is set"));
            // This process is killed before the turn ends.
            let _ = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never());
        }
        other => panic!("unknown role: {other}"),
    }
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a nonzero pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("a running process");
}
