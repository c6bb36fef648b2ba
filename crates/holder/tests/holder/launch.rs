//! The environment in which a harness starts, and the report if it cannot start.

use std::os::unix::fs::PermissionsExt;

use coven_domain::session::ExitStatus;
use coven_holder::journal::Record;
use coven_holder::wire::{Reply, Request};
use coven_holder::{LaunchReport, SOCKET, process};

use crate::fixture::{Given, eventually};

fn fails(given: Given) -> String {
    let (holder, ready) = given.try_start();
    let LaunchReport::Failed { reason } = ready else { panic!("the harness started: {ready:?}") };
    let records = holder.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].record, Record::LaunchFailed(reason.clone()));
    assert!(!holder.dir().join(SOCKET).exists());
    assert_eq!(holder.log(), b"");
    reason
}

#[test]
fn a_failed_launch_reports_and_records_the_reason() {
    let cases = [
        (Given::program(&["/no/such/program"]), "/no/such/program could not be started: No such file"),
        (Given::program(&["no-such-program"]), "no-such-program could not be started: No such file"),
        (Given::program(&["/etc/passwd"]), "/etc/passwd could not be started: Permission denied"),
        (Given::program(&[]), "could not be started: no program to run"),
        (
            Given::shell("exit 0").with(|spec| spec.cwd = "/no/such/folder".into()),
            "its folder /no/such/folder does not exist",
        ),
    ];
    for (given, expected) in cases {
        let reason = fails(given);
        assert!(reason.contains(expected), "{reason}");
    }
    let on_pipes = fails(Given::program(&["/no/such/program"]).on_pipes());
    assert!(on_pipes.contains("No such file"), "{on_pipes}");
}

#[test]
fn refuses_a_folder_in_use_without_disturbing_its_session() {
    let mut first = Given::shell("echo one; read x").start();
    first.shows("one");
    let second = Given::shell("echo two").with(|spec| spec.dir = first.dir().to_owned());
    let (_, ready) = second.try_start();
    assert!(matches!(ready, LaunchReport::Failed { .. }), "{ready:?}");
    first.type_in("\n");
    assert_eq!(first.ends(), ExitStatus::Code(0));
    assert_eq!(first.log(), b"one\r\n\r\n");
    first.check_files();
}

#[test]
fn the_launch_report_and_the_first_record_identify_the_harness() {
    let (mut holder, ready) = Given::shell("read x").try_start();
    let LaunchReport::Running { holder: pid, pid: harness, started_ticks, boot_id } = ready else {
        panic!("{ready:?}")
    };
    assert_eq!(pid, holder.holder_pid());
    let identity = process::identity(harness).expect("the process is running");
    assert_eq!((identity.started_ticks, &identity.boot_id), (started_ticks, &boot_id));
    let welcome = holder.client().welcome;
    assert_eq!((welcome.pid, welcome.started_ticks, welcome.rows, welcome.cols), (harness, started_ticks, 24, 80));
    assert_eq!(holder.records()[0].record, Record::Start { pid: harness, started_ticks, rows: 24, cols: 80, boot_id });
    holder.pid = harness;
    holder.type_in("\n");
    holder.ends();
}

#[test]
fn only_the_owner_can_access_the_files_and_the_socket() {
    let holder = Given::shell("read x").start();
    let mode =
        |name: &str| std::fs::metadata(holder.dir().join(name)).expect("the file exists").permissions().mode() & 0o777;
    assert_eq!(["journal", "0000000000000000.log", SOCKET].map(mode), [0o600; 3]);
}

#[test]
fn the_harness_starts_as_if_from_a_shell() {
    // The harness must not inherit ignored signals or descriptors.
    let script = "umask; grep SigIgn /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; tty; ps -o tty= -p $$; env";
    let mut holder = Given::shell(script).ignoring("HUP INT QUIT TERM CHLD USR1; umask 022; exec 9</dev/null").start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    let log = String::from_utf8(holder.log()).expect("text");
    let mut lines = log.split("\r\n");
    assert_eq!(lines.next(), Some("0022"));
    let ignored = lines.next().and_then(|line| u64::from_str_radix(line.strip_prefix("SigIgn:\t")?, 16).ok());
    // The C library reserves two signals and does not let them be reset.
    assert_eq!(ignored.map(|mask| mask & !(0b11 << 31)), Some(0), "{log}");
    assert!(lines.next().is_some_and(|line| line.starts_with("0 1 2 3 /dev/pts/")), "{log}");
    assert!(lines.next().is_some_and(|line| line.starts_with("pts/")), "the harness has a controlling terminal: {log}");
    assert!(!log.contains("COVEN_TEST_ROLE"), "the harness gets only the spec's environment: {log}");
    assert!(log.contains("TERM=dumb"));
}

#[test]
fn the_holder_and_the_harness_are_in_separate_sessions() {
    let holder = Given::shell("read x").start();
    let holder_stat = process::stat(holder.holder_pid()).expect("the process is running");
    let harness_stat = process::stat(holder.pid).expect("the process is running");
    assert_eq!((holder_stat.group, holder_stat.session), (holder.holder_pid(), holder.holder_pid()));
    assert_eq!((harness_stat.group, harness_stat.session), (holder.pid, holder.pid));
}

#[test]
fn a_folder_with_a_very_long_path_works_and_may_be_renamed() {
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
fn a_holder_whose_folder_was_deleted_still_reports_the_exit() {
    let holder = Given::player("raw; say ready; consume 1; flood 1 3000000; exit 3")
        .with(|spec| spec.segment_bytes = 1 << 20)
        .start();
    holder.shows("ready");
    let mut client = holder.client();
    std::fs::remove_dir_all(holder.dir()).expect("the test owns the folder");
    client.send(&Request::Input(b"x".to_vec())).expect("the holder accepts requests");
    client.send(&Request::Watch).expect("the holder accepts requests");
    let exited = eventually("the exit", || match client.next().expect("a reply") {
        Reply::Exited { status, .. } => Some(status),
        _ => None,
    });
    assert_eq!(exited, ExitStatus::Code(3));
}

#[test]
fn records_the_exit_of_a_harness_that_ends_immediately() {
    for _ in 0..20 {
        let mut holder = Given::program(&["/bin/true"]).start();
        assert_eq!(holder.ends(), ExitStatus::Code(0));
        holder.check_files();
    }
}

#[test]
fn the_log_survives_a_sigkill_of_the_holder() {
    let mut holder = Given::shell("echo one; echo two; read x").start();
    holder.shows("two\r\n");
    eventually("the output is in the journal", || (holder.records().len() >= 2).then_some(()));
    holder.kill_hard();
    assert_eq!(holder.log(), b"one\r\ntwo\r\n");
    assert!(matches!(holder.records()[0].record, Record::Start { .. }));
    // The holder's death closes the terminal, so the kernel sends SIGHUP to the harness.
    let pid = holder.pid;
    eventually("the harness has exited", || (!crate::fixture::is_alive(pid)).then_some(()));
}
