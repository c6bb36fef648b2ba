//! How a session ends: by itself, on request or by a kill, together with its descendants.

use std::time::{Duration, Instant};

use coven_domain::session::ExitStatus;
use coven_holder::journal::Record;
use coven_holder::wire::{EndMode, Request};

use crate::fixture::{Follower, Given, Holder, eventually, is_alive, kill, memmem, read_pid};

fn end(holder: &Holder, how: EndMode, grace_ms: u32) {
    holder.ask(&Request::End { how, grace_ms });
}

fn kills(holder: &Holder) -> Vec<EndMode> {
    let how = |record| if let Record::Kill { how, .. } = record { Some(how) } else { None };
    holder.records().into_iter().filter_map(|it| how(it.record)).collect()
}

#[test]
fn records_the_signal_that_killed_the_harness() {
    let mut holder = Given::shell("kill -KILL $$").start();
    assert_eq!(holder.ends(), ExitStatus::Signal(9));
    holder.check_files();
}

#[test]
fn a_viewer_receives_the_exit_after_the_last_byte() {
    let mut holder = Given::shell("read x; printf end; exit 4").start();
    let viewer = Follower::from(0, &holder);
    holder.type_in("\n");
    assert_eq!(holder.ends(), ExitStatus::Code(4));
    let (_, bytes, status) = viewer.got();
    assert!(bytes.ends_with(b"end"));
    assert_eq!(status, ExitStatus::Code(4));
}

#[test]
fn a_kill_starts_with_sigterm() {
    let script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut holder = Given::shell(script).start();
    holder.shows("ready");
    end(&holder, EndMode::Kill, 30_000);
    assert_eq!(holder.ends(), ExitStatus::Code(7));
    assert!(holder.log().ends_with(b"bye\r\n"));
    assert_eq!(kills(&holder), [EndMode::Kill]);
    holder.check_files();
}

#[test]
fn a_harness_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let mut holder = Given::shell("trap '' TERM HUP; echo ready; while :; do sleep 0.05; done").start();
    holder.shows("ready");
    let asked_at = Instant::now();
    end(&holder, EndMode::Kill, 400);
    assert_eq!(holder.ends(), ExitStatus::Signal(9));
    assert!(asked_at.elapsed() >= Duration::from_millis(400), "the holder waits for the grace period");
    holder.check_files();
}

#[test]
fn a_stopped_harness_can_be_ended() {
    let mut holder = Given::shell("echo ready; kill -STOP $$; sleep 100").start();
    holder.shows("ready");
    end(&holder, EndMode::Kill, 30_000);
    assert_eq!(holder.ends(), ExitStatus::Signal(15));
}

#[test]
fn an_interactive_shell_that_ignores_sigterm_exits_on_sighup() {
    let mut holder = Given::program(&["/bin/bash", "--norc", "-i"])
        .with(|spec| spec.env.push(("PS1".into(), "prompt> ".into())))
        .start();
    holder.shows("prompt> ");
    end(&holder, EndMode::Kill, 2_000);
    assert_ne!(holder.ends(), ExitStatus::Signal(9));
    holder.check_files();
}

#[test]
fn a_second_kill_shortens_the_grace_period_and_is_not_recorded_again() {
    let mut holder = Given::shell("trap '' TERM HUP; echo ready; while :; do sleep 0.05; done").start();
    holder.shows("ready");
    let asked_at = Instant::now();
    end(&holder, EndMode::Kill, 600_000);
    end(&holder, EndMode::Kill, 0);
    assert_eq!(holder.ends(), ExitStatus::Signal(9));
    assert!(asked_at.elapsed() < Duration::from_secs(30));
    assert_eq!(kills(&holder), [EndMode::Kill]);
    holder.check_files();
}

#[test]
fn records_both_a_finish_request_and_a_later_kill() {
    let mut holder = Given::shell("trap '' TERM HUP; echo ready; while :; do sleep 0.05; done").start();
    holder.shows("ready");
    end(&holder, EndMode::Finish, 600_000);
    end(&holder, EndMode::Finish, 600_000);
    end(&holder, EndMode::Kill, 0);
    assert_eq!(holder.ends(), ExitStatus::Signal(9));
    assert_eq!(kills(&holder), [EndMode::Finish, EndMode::Kill]);
}

#[test]
fn a_kill_ends_orphans_and_children_in_other_groups_and_sessions() {
    // A job in its own group, a daemon with a child in its own session, and an orphan that ignores SIGTERM and SIGHUP.
    let script = r#"
        set -m; sleep 1000 & echo $! > "$D/job"; set +m
        setsid sh -c 'echo $$ > "$D/daemon"; sleep 1000 & echo $! > "$D/child"; wait' &
        (setsid sh -c 'trap "" TERM HUP; echo $$ > "$D/orphan"; while :; do sleep 0.05; done' &)
        echo ready; wait"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("plain").to_owned();
    let mut holder = Given::shell(script).with(|spec| spec.env.push(("D".into(), path))).start();
    let pids = ["job", "daemon", "child", "orphan"].map(|name| read_pid(&folder.path().join(name)));
    assert!(pids.into_iter().all(is_alive));
    end(&holder, EndMode::Kill, 500);
    holder.ends();
    assert_eq!(pids.map(is_alive), [false; 4]);
    holder.check_files();
}

#[test]
fn a_kill_ends_processes_that_keep_forking() {
    let script = r#"trap "" TERM HUP; f() { (trap "" TERM HUP; sleep 0.01; f) & }; f; f; echo ready; while :; do sleep 0.05; done"#;
    let mut holder = Given::shell(script).start();
    holder.shows("ready");
    let group = holder.pid;
    end(&holder, EndMode::Kill, 0);
    holder.ends();
    assert!(!coven_holder::process::all().iter().any(|it| it.session == group));
}

#[test]
fn a_process_left_behind_does_not_delay_the_exit_record() {
    let quiet = r#"trap '' HUP; sleep 1000 & echo $! > "$D/left"; printf done; exit 5"#;
    // Processes that keep writing to the pipes.
    let loud = r#"yes >&2 & yes & echo $! > "$D/left"; printf done; exit 5"#;
    for given in [Given::shell(quiet), Given::shell(quiet).on_pipes(), Given::shell(loud).on_pipes()] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("plain").to_owned();
        let mut holder = given.with(|spec| spec.env.push(("D".into(), path))).start();
        assert_eq!(holder.ends(), ExitStatus::Code(5));
        assert!(memmem(&holder.log(), b"done"));
        holder.check_files();
        kill(read_pid(&folder.path().join("left")), "-KILL");
    }
}

#[test]
fn a_signal_reaches_the_harness() {
    let mut holder = Given::shell("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done").start();
    holder.shows("ready");
    holder.ask(&Request::Signal(10));
    assert_eq!(holder.ends(), ExitStatus::Code(9));
}

#[test]
fn a_holder_that_receives_sigterm_ends_its_harness_and_records_it() {
    let mut holder = Given::shell("trap 'exit 6' TERM; echo ready; while :; do sleep 0.05; done").start();
    holder.shows("ready");
    kill(holder.holder_pid(), "-TERM");
    assert_eq!(holder.ends(), ExitStatus::Code(6));
    assert_eq!(kills(&holder), [EndMode::Kill]);
    holder.check_files();
}

#[test]
fn a_harness_may_close_its_terminal_and_open_it_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    let mut holder = Given::player(&format!("raw; say before; reopen {}; say after; exit 2", go.display())).start();
    holder.shows("before");
    eventually("the harness has closed the terminal", || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", holder.pid)).ok()?;
        let ends: Vec<_> = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()).collect();
        (!ends.iter().any(|path| path.starts_with("/dev/pts"))).then_some(())
    });
    std::fs::write(&go, "").expect("enough disk space");
    assert_eq!(holder.ends(), ExitStatus::Code(2));
    assert_eq!(holder.log(), b"beforeafter");
    holder.check_files();
}
