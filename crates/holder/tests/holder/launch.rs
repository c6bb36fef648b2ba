//! What a harness is given at its start, and what is said when it cannot start.

use std::os::unix::fs::PermissionsExt;

use coven_domain::session::ExitStatus;
use coven_holder::journal::Record;
use coven_holder::wire::{Reply, Request};
use coven_holder::{Ready, SOCKET, process};

use crate::stand::{Given, eventually};

fn fails(given: Given) -> String {
    let (holder, ready) = given.try_start();
    let Ready::Failed { reason } = ready else { panic!("it runs: {ready:?}") };
    let records = holder.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].record, Record::LaunchFailed(reason.clone()));
    assert!(!holder.dir().join(SOCKET).exists());
    assert_eq!(holder.log(), b"");
    reason
}

#[test]
fn a_launch_that_fails_says_why_and_writes_it_down() {
    let cases = [
        (Given::program(&["/no/such/program"]), "/no/such/program could not be started: No such file"),
        (Given::program(&["no-such-program"]), "no-such-program could not be started: No such file"),
        (Given::program(&["/etc/passwd"]), "/etc/passwd could not be started: Permission denied"),
        (Given::program(&[]), "could not be started: no program to run"),
        (Given::shell("exit 0").with(|spec| spec.cwd = "/no/such/folder".into()), "there is no folder /no/such/folder"),
    ];
    for (given, expected) in cases {
        let reason = fails(given);
        assert!(reason.contains(expected), "{reason}");
    }
    let on_pipes = fails(Given::program(&["/no/such/program"]).on_pipes());
    assert!(on_pipes.contains("No such file"), "{on_pipes}");
}

#[test]
fn a_folder_in_use_is_refused_and_its_session_left_alone() {
    let mut first = Given::shell("echo one; read x").start();
    first.shows("one");
    let second = Given::shell("echo two").with(|spec| spec.dir = first.dir().to_owned());
    let (_, ready) = second.try_start();
    assert!(matches!(ready, Ready::Failed { .. }), "{ready:?}");
    first.type_in("\n");
    assert_eq!(first.ends(), ExitStatus::Code(0));
    assert_eq!(first.log(), b"one\r\n\r\n");
    first.check_files();
}

#[test]
fn the_answer_and_the_first_record_identify_the_harness() {
    let (mut holder, ready) = Given::shell("read x").try_start();
    let Ready::Running { holder: pid, pid: harness, started_ticks, boot_id } = ready else { panic!("{ready:?}") };
    assert_eq!(pid, holder.holder_pid());
    let identity = process::identity(harness).expect("it lives");
    assert_eq!((identity.started_ticks, &identity.boot_id), (started_ticks, &boot_id));
    let welcome = holder.client().welcome;
    assert_eq!((welcome.pid, welcome.started_ticks, welcome.rows, welcome.cols), (harness, started_ticks, 24, 80));
    assert_eq!(holder.records()[0].record, Record::Start { pid: harness, started_ticks, rows: 24, cols: 80, boot_id });
    holder.pid = harness;
    holder.type_in("\n");
    holder.ends();
}

#[test]
fn the_files_and_the_socket_are_for_the_owner_alone() {
    let holder = Given::shell("read x").start();
    let mode =
        |name: &str| std::fs::metadata(holder.dir().join(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(["journal", "0000000000000000.log", SOCKET].map(mode), [0o600; 3]);
}

#[test]
fn the_harness_is_as_if_started_from_a_shell() {
    // Signals ignored, a mask and a descriptor of the starter's must not reach it.
    let script = "umask; grep SigIgn /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; tty; ps -o tty= -p $$; env";
    let mut holder = Given::shell(script).ignoring("HUP INT QUIT TERM CHLD USR1; umask 022; exec 9</dev/null").start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    let log = String::from_utf8(holder.log()).expect("text");
    let mut lines = log.split("\r\n");
    assert_eq!(lines.next(), Some("0022"));
    let ignored = lines.next().and_then(|line| u64::from_str_radix(line.strip_prefix("SigIgn:\t")?, 16).ok());
    // The C library keeps two signals to itself, and so they stay as they were.
    assert_eq!(ignored.map(|mask| mask & !(0b11 << 31)), Some(0), "{log}");
    assert!(lines.next().is_some_and(|line| line.starts_with("0 1 2 3 /dev/pts/")), "{log}");
    assert!(lines.next().is_some_and(|line| line.starts_with("pts/")), "it has a controlling terminal: {log}");
    assert!(!log.contains("COVEN_TEST_ROLE"), "it gets the spec's environment and no other: {log}");
    assert!(log.contains("TERM=dumb"));
}

#[test]
fn the_holder_is_alone_in_its_session_and_the_harness_in_another() {
    let holder = Given::shell("read x").start();
    let own = process::stat(holder.holder_pid()).expect("it lives");
    let its = process::stat(holder.pid).expect("it lives");
    assert_eq!((own.group, own.session), (holder.holder_pid(), holder.holder_pid()));
    assert_eq!((its.group, its.session), (holder.pid, holder.pid));
}

#[test]
fn a_folder_with_a_very_long_path_works_and_may_be_renamed_meanwhile() {
    let long = ["a".repeat(100), "b".repeat(100), "c".repeat(100)].join("/");
    let given = Given::shell("read x; head -c 100000 /dev/zero | tr '\\0' x; echo end");
    let mut holder = given
        .with(|spec| {
            spec.dir = spec.dir.join(long).join("session");
            spec.segment_bytes = 4096;
        })
        .start();
    holder.client();
    let moved = holder.folder.path().join("moved");
    std::fs::rename(holder.folder.path().join("session"), &moved).expect("a folder");
    let below: std::path::PathBuf =
        holder.dir().strip_prefix(holder.folder.path().join("session")).expect("inside").into();
    holder.spec.dir = moved.join(below);
    holder.type_in("\n");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log().len(), 2 + 100_000 + 5);
    holder.check_files();
}

#[test]
fn a_holder_whose_folder_was_removed_still_comes_to_its_end() {
    let holder = Given::player("raw; say ready; drink 1; flood 1 3000000; exit 3")
        .with(|spec| spec.segment_bytes = 1 << 20)
        .start();
    holder.shows("ready");
    let mut client = holder.client();
    std::fs::remove_dir_all(holder.dir()).expect("our own");
    client.send(&Request::Input(b"x".to_vec())).expect("the holder listens");
    client.send(&Request::Watch).expect("the holder listens");
    let exited = eventually("the exit", || match client.next().expect("an answer") {
        Reply::Exited { status, .. } => Some(status),
        _ => None,
    });
    assert_eq!(exited, ExitStatus::Code(3));
}

#[test]
fn a_short_life_is_recorded_even_if_it_was_over_before_anybody_looked() {
    for _ in 0..20 {
        let mut holder = Given::program(&["/bin/true"]).start();
        assert_eq!(holder.ends(), ExitStatus::Code(0));
        holder.check_files();
    }
}

#[test]
fn the_log_survives_a_holder_that_was_killed_hard() {
    let mut holder = Given::shell("echo one; echo two; read x").start();
    holder.shows("two");
    eventually("the output is in the journal", || (holder.records().len() >= 2).then_some(()));
    holder.kill_hard();
    assert_eq!(holder.log(), b"one\r\ntwo\r\n");
    assert!(matches!(holder.records()[0].record, Record::Start { .. }));
    // The terminal is gone with its holder, and so is the harness.
    let pid = holder.pid;
    eventually("the harness is hung up on", || (!crate::stand::is_alive(pid)).then_some(()));
}
