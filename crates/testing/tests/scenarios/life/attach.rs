//! LIFE-15 and LIFE-16: attach and replay.

use std::fs;
use std::process::Stdio;

use coven_testing::pattern::{INVALID_UTF8, assert_bytes};
use coven_testing::process::kill_hard;
use coven_testing::{TestHome, TestTerminal, check_invariants};
use serde_json::json;

const DETACH: &str = "\x1c";

#[test]
fn life_15_attach_to_a_finished_session_replays_its_output_as_a_log_viewer() {
    let home = TestHome::started();
    let session = home.run_to_end("say first ;; say second ;; exit 3");

    let mut terminal = TestTerminal::open(&home, &["attach", &session.id]);

    assert_eq!(terminal.wait(), 0);
    for text in ["first\nsecond\n", "has ended", "failed", "exit code 3"] {
        terminal.wait_for_text(text);
    }
    terminal.assert_settings_restored();
}

#[test]
fn life_15_attach_and_replay_write_only_the_bytes_into_a_pipe() {
    let home = TestHome::started();
    let session = home.run_to_end("say first ;; invalid_utf8");
    let expected = [b"first\r\n", INVALID_UTF8].concat();

    for verb in ["attach", "replay"] {
        let output = home.command(&[verb, &session.id]).output().expect("coven runs");

        assert_bytes(verb, &output.stdout, &expected);
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}

#[test]
fn attach_without_replay_prints_no_earlier_output_of_a_session_that_ends_meanwhile() {
    let home = TestHome::started();
    let session = home.launch("say early ;; echo ;; exit 5");
    home.wait_for_output(&session.id, "ready");
    // Without its socket the holder counts as gone, as if the session ended while the command connects to it.
    let folder = home.session_dir(&session.id);
    fs::rename(folder.join("holder.sock"), folder.join("moved.sock")).expect("a socket");

    let mut command = home.command(&["attach", &session.id, "--no-replay"]);
    let attach = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let attach = attach.expect("coven runs");
    home.harness_processes(&session.id).into_iter().for_each(kill_hard);

    let output = attach.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]), "{output:?}");
}

#[test]
fn life_16_attach_to_a_running_session_shows_the_screen_follows_it_and_forwards_input() {
    let home = TestHome::started();
    let session = home.launch("say before ;; size ;; echo ;; exit 5");
    home.wait_for_output(&session.id, "ready");

    let mut terminal = TestTerminal::with_size(&home, &["attach", &session.id], 30, 100);
    terminal.wait_for_text("before");
    terminal.wait_for_text("size:30x100");
    terminal.type_keys("hello\r");
    terminal.wait_for_text("got:hello");
    terminal.resize(40, 120);
    terminal.wait_for_text("size:40x120");
    // Output that another client causes is followed too.
    home.type_in(&session.id, "from elsewhere\r");
    terminal.wait_for_text("got:from elsewhere");
    terminal.type_keys(DETACH);

    assert_eq!(terminal.wait(), 0);
    terminal.wait_for_text("detached");
    terminal.assert_settings_restored();
    assert_eq!(home.session(&session.id).status, "running");
    check_invariants(&home);
}

#[test]
fn life_16_several_terminals_show_the_same_and_a_read_only_one_cannot_type() {
    let home = TestHome::started();
    let session = home.launch("echo");
    home.wait_for_output(&session.id, "ready");

    let mut writer = TestTerminal::open(&home, &["attach", &session.id]);
    let mut reader = TestTerminal::open(&home, &["attach", &session.id, "--read-only"]);
    reader.wait_for_text("ready");
    reader.type_keys("never\r");
    writer.type_keys("one\r");

    writer.wait_for_text("got:one");
    let seen = reader.wait_for_text("got:one");
    assert!(!seen.contains("never"), "{seen}");
    writer.type_keys("quit\r");
    assert_eq!((writer.wait(), reader.wait()), (0, 0));
    reader.assert_settings_restored();
    assert_eq!(home.wait_for_end(&session.id).status, "completed");
}

#[test]
fn life_16_detaching_from_a_full_screen_session_restores_the_terminal() {
    let home = TestHome::started();
    let session = home.launch("full_screen inside ;; hang");
    home.wait_for_output(&session.id, "inside");

    let mut terminal = TestTerminal::open(&home, &["attach", &session.id]);
    terminal.wait_for_text("inside");
    assert!(terminal.is_alternate());
    terminal.type_keys(DETACH);

    assert_eq!(terminal.wait(), 0);
    terminal.assert_settings_restored();
}

#[test]
fn life_16_an_attached_run_returns_the_exit_code() {
    let home = TestHome::started();

    let mut terminal = TestTerminal::open(&home, &["run", "claude", "ask sure? ;; exit 7"]);
    terminal.wait_for_text("sure?");
    terminal.type_keys("yes\r");

    assert_eq!(terminal.wait(), 7);
    terminal.wait_for_text("answer:yes");
    terminal.assert_settings_restored();
    check_invariants(&home);
}

#[test]
fn life_16_a_run_that_ends_immediately_shows_its_output_and_returns_its_exit_code() {
    let home = TestHome::started();

    for _ in 0..12 {
        let ran = home.coven(&["run", "claude", "say hello ;; exit 9"]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (9, "hello\r\n", ""));
    }
    let mut terminal = TestTerminal::open(&home, &["run", "claude", "say hello ;; exit 9"]);
    assert_eq!(terminal.wait(), 9);
    terminal.wait_for_text("hello");
    terminal.assert_settings_restored();
}

/// Launches a session that runs these lines of shell, with `$c` for coven.
fn launch_shell(home: &TestHome, lines: &str) -> String {
    let script = format!("c={}; {lines}", coven_testing::program::coven().display());
    home.launch_with(json!({ "argv": ["/bin/sh", "-c", script] })).id
}

#[test]
fn a_session_is_not_shown_inside_itself() {
    let home = TestHome::started();
    let print_code = "echo code:$?";
    // Without the variable, only the holder can detect where the viewer runs.
    let unset = "id=$COVEN_SESSION_ID; unset COVEN_SESSION_ID";
    let lines = format!(
        "$c attach; {print_code}; $c attach $COVEN_SESSION_ID; {print_code}; $c attach $COVEN_SESSION_ID --read-only; {print_code}; \
         $c replay $COVEN_SESSION_ID; {print_code}; {unset}; $c attach $id; echo last:$?; $c attach $id --no-replay; echo last:$?"
    );

    let id = launch_shell(&home, &lines);
    home.wait_for_end(&id);

    let log = home.log_text(&id);
    let codes =
        |tag: &str| log.lines().filter_map(|line| line.split(tag).nth(1)).map(str::to_owned).collect::<Vec<_>>();
    // The holder refuses after the screen was painted once, so the first codes appear twice.
    assert_eq!(codes("code:")[..4], ["3", "4", "4", "4"], "{log}");
    assert_eq!(codes("last:"), ["4", "4"], "{log}");
    assert!(log.contains("inside itself"), "{log}");
}

#[test]
fn attach_without_an_id_inside_a_session_attaches_to_another_one() {
    let home = TestHome::started();
    let other = home.launch("say the other one ;; hang").id;
    home.wait_for_output(&other, "the other one");

    let id = launch_shell(&home, "exec $c attach");

    home.wait_for_output(&id, "the other one");
    home.kill(&other);
    home.wait_for_end(&id);
}

#[test]
fn life_16_an_attached_terminal_keeps_working_when_the_daemon_is_killed() {
    let home = TestHome::started();
    let session = home.launch("echo");
    home.wait_for_output(&session.id, "ready");
    let mut terminal = TestTerminal::open(&home, &["attach", &session.id]);
    terminal.wait_for_text("ready");

    home.kill_daemon();
    terminal.type_keys("still here\r");
    terminal.wait_for_text("got:still here");
    home.start();
    terminal.type_keys("and after\r");

    terminal.wait_for_text("got:and after");
    check_invariants(&home);
}
